/** @module A worker's side: values by name, cut into the shards of the servers, and the requests of a clock to all of them. */
import { bytesOf } from "../ir/shape.ts";
import { concatenated } from "../util/bytes.ts";
import type { Begun, Statistics } from "./coordinator.ts";
import { FilteredPushes } from "./filtered-pushes.ts";
import { Link, type Reply } from "./link.ts";
import type { PullRequest, PushRequest, Rule } from "./requests.ts";
import { bytesOfPieces, type Piece, type Shard } from "./shards.ts";
import { leases } from "./shared/leases.ts";
import { SentLists } from "./tables/key-cache.ts";
import { ownerOf } from "./tables/ring.ts";
import { listsAsBytes, type RowList, type Rows, split } from "./tables/row-lists.ts";
import { type RowParts, rowsFromServers, rowsOfServer } from "./tables/row-parts.ts";

/** Bytes of tensors by path. */
export type Bytes = ReadonlyMap<string, Uint8Array>;

/** Options of {@link ServerClient}. */
export interface ClientOptions {
  /** Addresses of the servers, `host:port`. */
  readonly servers: readonly string[];
  /** The secret of the run. */
  readonly secret: string;
  /** This worker's number. */
  readonly worker: number;
  /** Grows with each life of the worker. */
  readonly incarnation: number;
  /** Seconds for which a server may be away; default 60. */
  readonly timeout?: number | undefined;
}

/** Bytes that went over the links of a worker. */
export interface Traffic {
  readonly sent: number;
  readonly received: number;
}

/** What was measured of a run, with the bytes of each server. */
export interface RunStatistics extends Statistics {
  readonly servers: readonly (Traffic & { readonly rows: readonly number[] })[];
  /** The names of the tables. */
  readonly tables: readonly string[];
}

/** The links of a worker to all servers. */
export class ServerClient {
  private readonly links: readonly Link[];
  private readonly worker: number;
  private readonly incarnation: number;
  private shards: readonly Shard[] = [];
  /** The versions of the shards in the last pull. */
  private versions: readonly number[] = [];
  /** What filters the gradients of parameters. */
  private filtered: FilteredPushes | undefined;
  private readonly sentLists: readonly SentLists[];
  /** The parameters of each shard in the last pull with rows: the next one may be of the same version. */
  private pulled: readonly Uint8Array[] = [];

  constructor({ servers, secret, worker, incarnation, timeout = 60 }: ClientOptions) {
    this.worker = worker;
    this.incarnation = incarnation;
    this.sentLists = servers.map(() => new SentLists());
    this.links = servers.map(
      (address, index) =>
        new Link({ address, name: `server ${index}`, secret, timeout, role: "worker", client: worker, incarnation }),
    );
  }

  /** Bytes that were sent and received. */
  get traffic(): Traffic {
    const sum = (of: (link: Link) => number): number => this.links.reduce((total, link) => total + of(link), 0);
    return { sent: sum(({ sent }) => sent), received: sum(({ received }) => received) };
  }

  /** Says which shards there are, and who waits for whom. Resolves with the number of clocks of this worker that count as done. @throws HeddleError `mismatch` */
  async open(shards: readonly Shard[], rule: Rule): Promise<number> {
    this.shards = shards;
    const { filters = [] } = rule;
    this.filtered = filters.length === 0 ? undefined : new FilteredPushes(filters, this.links.length);
    await this.first.ask({ type: "decide", rule: JSON.stringify(rule) });
    await this.each((link, shard) => link.ask({ type: "create", shard, spec: JSON.stringify(shards[shard]) }));
    const { worker: client, incarnation } = this;
    const { fields } = await this.first.ask({ type: "hello", role: "worker", client, incarnation });
    return Number(fields["clock"]);
  }

  /** Gives first values to servers that have none, and tells the other workers where the run begins. */
  async load(params: Bytes, slots: Bytes, steps: number, start: string): Promise<void> {
    await this.each((link, index, shard) => {
      return link.ask({ type: "load", shard: index, steps }, [stateOf(shard, params, slots)]);
    });
    await this.first.ask({ type: "begin", start });
  }

  /** Where the run begins, once the first worker has told. */
  async start(): Promise<string> {
    const { fields } = await this.first.ask({ type: "begin" });
    return String(fields["start"]);
  }

  /** Sends the gradients of a clock to all servers, of parameters and of rows of tables. Resolves when they have them, with copies. */
  async push(clock: number, grads: Bytes, rates: readonly number[], rows: readonly Rows[] = []): Promise<void> {
    const { worker: client, incarnation } = this;
    const parts = this.parts(rows.map(({ ids }) => ids));
    await this.each((link, index, shard) => {
      const own = cut(shard.params, grads);
      const { body, ...filtered } = this.filtered?.encode(index, shard, own) ?? { body: own };
      return this.withLists(
        link,
        index,
        { type: "push", shard: index, client, incarnation, clock, rates, ...filtered },
        parts.map(({ lists }) => lists[index] as RowList),
        [...body, ...rowsOfServer(shard.tables, parts, rows, index)],
      );
    });
  }

  /** The filters of pushes, if there are any; after {@link open}. */
  get filters(): FilteredPushes | undefined {
    return this.filtered;
  }

  /** Says that so many clocks are done, the last with a batch of so many rows and an update of this largest magnitude. Resolves when the next one may begin. */
  async clock(clock: number, rows: number, size = 0): Promise<Begun> {
    const { fields } = await this.first.ask({ type: "clock", clock, rows, pulled: this.versions, size });
    return { clock: Number(fields["clock"]), version: Number(fields["version"]), stop: fields["stop"] === true };
  }

  /** The parameters of a version of the shards, or of later ones. */
  async pull(version: number): Promise<Bytes> {
    return (await this.pullRows(version, [])).params;
  }

  /** The parameters of a version of the shards, or of later ones, and of the same version rows of the tables: a list for each, ascending, each row once. */
  async pullRows(
    version: number,
    lists: readonly RowList[],
  ): Promise<{ readonly params: Bytes; readonly rows: readonly Uint8Array[] }> {
    const parts = this.parts(lists);
    const { versions: before, pulled } = this;
    const has = (shard: number) => (pulled[shard] === undefined ? {} : { has: before[shard] as number });
    const replies = await this.asked(version, parts, has);
    this.versions = replies.map(({ fields }) => Number(fields["version"]));
    const dense = replies.map(({ fields, body }, shard) =>
      fields["same"] === true
        ? (pulled[shard] as Uint8Array)
        : body.subarray(0, bytesOfPieces((this.shards[shard] as Shard).params)),
    );
    const { tables = [] } = this.shards[0] ?? {};
    // Without tables nothing is pulled twice.
    if (tables.length > 0) this.pulled = dense;
    const after = replies.map(({ fields, body }, shard) =>
      fields["same"] === true ? body : body.subarray((dense[shard] as Uint8Array).length),
    );
    return { params: joinedParams(this.shards, dense), rows: rowsFromServers(tables, parts, lists, after) };
  }

  /**
   * The values of a pull are not read any more: their memory may be that of the next one. Pulls whose values are never given back take memory
   * that is collected.
   */
  recycle(values: Bytes | readonly Uint8Array[]): void {
    const kept = new Set(this.pulled.map(({ buffer }) => buffer));
    const own = new Map([...values.values()].map((bytes) => [bytes.buffer, bytes]));
    for (const [buffer, bytes] of own) if (!kept.has(buffer)) leases.end(bytes);
  }

  /** Rows of the tables alone, beside what a clock is computed from. */
  async rows(version: number, lists: readonly RowList[]): Promise<readonly Uint8Array[]> {
    const parts = this.parts(lists);
    const replies = await this.asked(version, parts, () => ({ has: -1 }));
    const bodies = replies.map(({ body }) => body);
    return rowsFromServers(this.shards[0]?.tables ?? [], parts, lists, bodies);
  }

  private asked(
    version: number,
    parts: readonly RowParts[],
    has: (shard: number) => { readonly has?: number },
  ): Promise<Reply[]> {
    return this.each((link, shard) =>
      this.withLists(
        link,
        shard,
        { type: "pull", shard, version, ...has(shard) },
        parts.map((part) => part.lists[shard] as RowList),
        [],
      ),
    );
  }

  /** Gives the rows of tables to servers that have no values yet, as {@link tables} gave them on any number of servers. */
  async loadTables(heads: unknown, rows: Uint8Array): Promise<void> {
    await this.each((link, shard) => link.ask({ type: "rows", shard, heads: JSON.stringify(heads) }, [rows]));
  }

  /** The rows of the tables of each server with their states, as `ShardState.tableSnapshot` writes them. */
  tables(version: number): Promise<{ readonly heads: unknown; readonly bytes: Uint8Array }[]> {
    return this.each(async (link, shard) => {
      const { fields, body } = await link.ask({ type: "tables", shard, version });
      return { heads: fields["heads"], bytes: body };
    });
  }

  /** Parameters and states of a version of the shards, and the number of steps. */
  async snapshot(version: number): Promise<{ readonly params: Bytes; readonly slots: Bytes }> {
    const bodies = await this.each(
      async (link, shard) => (await link.ask({ type: "snapshot", shard, copy: false, version })).body,
    );
    return joinedState(this.shards, bodies);
  }

  /** The sums of all workers of an epoch, with this worker's. */
  async tally(epoch: number, sums: string): Promise<readonly string[]> {
    const { fields } = await this.first.ask({ type: "tally", epoch, sums });
    return (fields["sums"] as unknown[]).map(String);
  }

  /** This worker has done its clocks; with `stop` all workers shall end. */
  async leave(stop = false): Promise<void> {
    await this.first.ask({ type: "leave", stop });
  }

  /** Waits until all workers have left. Resolves with the last version. */
  async finish(): Promise<number> {
    const { fields } = await this.first.ask({ type: "finish" });
    return Number(fields["version"]);
  }

  /** What was measured, by the policy and by each server. */
  async statistics(): Promise<RunStatistics> {
    const all = await this.each(async (link) => (await link.ask({ type: "statistics" })).fields);
    return {
      ...(all[0]?.["statistics"] as Statistics),
      servers: all.map(({ bytes, rows }) => ({ ...(bytes as Traffic), rows: rows as number[] })),
      tables: (this.shards[0]?.tables ?? []).map(({ path }) => path),
    };
  }

  /** Ends the links. */
  close(): void {
    for (const link of this.links) link.close();
  }

  /** Lists cut by the servers that have their rows. */
  private parts(lists: readonly RowList[]): RowParts[] {
    const servers = this.links.length;
    const owner = ownerOf(servers);
    return lists.map((list) => split(list, owner, servers));
  }

  /** Asks with lists of rows, which are left out if the server has them. */
  private async withLists(
    link: Link,
    server: number,
    request: Omit<PullRequest, "lists" | "keys"> | Omit<PushRequest, "lists" | "keys">,
    lists: readonly RowList[],
    body: readonly Uint8Array[],
  ): Promise<Reply> {
    if (lists.length === 0) return link.ask(request, body);
    const sent = this.sentLists[server] as SentLists;
    for (;;) {
      const { keys, bytes } = sent.form(listsAsBytes(lists));
      const head = { ...request, lists: bytes.length, ...(keys === undefined ? {} : { keys }) };
      const reply = await link.ask(head, [bytes, ...body]);
      if (reply.fields["unknown"] !== true) return reply;
      // A server that was started again, or that keeps other lists.
      sent.forget(keys);
    }
  }

  private get first(): Link {
    return this.links[0] as Link;
  }

  private each<Result>(ask: (link: Link, shard: number, what: Shard) => Promise<Result>): Promise<Result[]> {
    return Promise.all(this.links.map((link, index) => ask(link, index, this.shards[index] as Shard)));
  }
}

/** The bytes of a shard: pieces of parameters, then of states. */
export const stateOf = (
  { params, slots }: Pick<Shard, "params" | "slots">,
  ofParams: Bytes,
  ofSlots: Bytes,
): Uint8Array => concatenated([...cut(params, ofParams), ...cut(slots, ofSlots)]);

/** Whole parameters, from the bytes of the parameters of each shard. */
export const joinedParams = (shards: readonly Shard[], bodies: readonly Uint8Array[]): Bytes =>
  joined(
    shards.map(({ params }) => params),
    bodies,
  );

/** Whole parameters and states, from the bytes of each shard. */
export function joinedState(
  shards: readonly Shard[],
  bodies: readonly Uint8Array[],
): { readonly params: Bytes; readonly slots: Bytes } {
  const after = bodies.map((body, index) => body.subarray(bytesOfPieces((shards[index] as Shard).params)));
  return {
    params: joinedParams(shards, bodies),
    slots: joined(
      shards.map(({ slots }) => slots),
      after,
    ),
  };
}

const rowBytes = ({ type, rows }: Piece): number => bytesOf(type) / Math.max(1, rows);

/** The pieces of values. */
function cut(pieces: readonly Piece[], values: Bytes): Uint8Array[] {
  return pieces.map((piece) => {
    const from = piece.start * rowBytes(piece);
    return (values.get(piece.path) as Uint8Array).subarray(from, from + bytesOf(piece.type));
  });
}

/** Whole values of the pieces of several servers. */
function joined(pieces: readonly (readonly Piece[])[], bodies: readonly Uint8Array[]): Bytes {
  const totals = new Map<string, number>();
  for (const piece of pieces.flat()) totals.set(piece.path, (totals.get(piece.path) ?? 0) + bytesOf(piece.type));
  const values = new Map<string, Uint8Array>();
  for (const [server, list] of pieces.entries()) {
    let offset = 0;
    for (const piece of list) {
      const bytes = (bodies[server] as Uint8Array).subarray(offset, offset + bytesOf(piece.type));
      offset += bytes.length;
      if (totals.get(piece.path) === bytes.length) values.set(piece.path, bytes);
      else {
        const whole = values.get(piece.path) ?? new Uint8Array(totals.get(piece.path) as number);
        values.set(piece.path, whole);
        whole.set(bytes, piece.start * rowBytes(piece));
      }
    }
  }
  return values;
}
