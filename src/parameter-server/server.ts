/**
 * @module A parameter server: it keeps shards, answers the closed table of requests, and applies the log that server 0 writes.
 *
 * Shard s is on the servers s, s + 1, … (as many as there are copies, in a ring). Its first server sends pushes on before it answers. A
 * server that comes back takes its shards from the others that have them, and server 0 its log.
 */
import { join } from "node:path";
import { localRuntime } from "../executors/runtime.ts";
import type { Filter } from "../filters/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { Coordinator, type Earlier } from "./coordinator.ts";
import { pushFilters } from "./filtered-pushes.ts";
import { Link } from "./link.ts";
import {
  type Entry,
  isEntry,
  mostEntries,
  type PushRequest,
  parseRule,
  type Request,
  type WithLists,
} from "./requests.ts";
import { type Answer, type Session, Sessions } from "./sessions.ts";
import { ShardState } from "./shard-state.ts";
import { Spread } from "./spread.ts";
import { TakenLists } from "./tables/key-cache.ts";
import { parseLists, type RowList } from "./tables/row-lists.ts";
import { logTo, updateLogFile } from "./update-log.ts";

/** Options of {@link serveParameters}. */
export interface ServerOptions {
  /** Addresses of all servers, `host:port`; this one listens at that of its index. */
  readonly servers: readonly string[];
  readonly index: number;
  /** The secret of the run: 16 bytes or more. */
  readonly secret: string;
  /** Number of workers. */
  readonly workers: number;
  /** The number of servers that have each shard; default 2, or 1 where there is one server. */
  readonly copies?: number | undefined;
  /** Seconds without a sign of life, after which a worker counts as lost, and a server as gone for good; default 60. */
  readonly timeout?: number | undefined;
  /** Number of this life of the server: 0 at first, and more each time that it is started again. */
  readonly life?: number | undefined;
  readonly threads?: number | undefined;
  /** The folder of the run, in which server 0 logs updates; default none. */
  readonly folder?: string | undefined;
}

/** A running server. */
export interface ParameterServer {
  /** The address at which it listens. */
  readonly address: string;
  /** Says that a worker is lost for good: nobody waits for it. */
  lost(worker: number): void;
  /** Resolves when the server has its shards again, after it was started again. */
  readonly ready: Promise<void>;
  /** Resolves when all workers have left, on server 0. */
  readonly done: Promise<void>;
  /** Resolves when no worker has a link to it. */
  idle(): Promise<void>;
  /** Ends the server: what it has is lost, unless others have copies. */
  close(): Promise<void>;
}

/** Bytes of a request before the shards are known. */
const mostBefore = 2 ** 26;

/**
 * Starts a server.
 *
 * @throws HeddleError `port` if it cannot listen, `option` for a malformed policy
 */
export async function serveParameters(options: ServerOptions): Promise<ParameterServer> {
  const server = new Server(options);
  await server.start();
  return server;
}

class Server implements ParameterServer {
  address = "";
  readonly done: Promise<void>;
  private readonly options: ServerOptions;
  private readonly copies: number;
  private readonly timeout: number;
  private readonly runtime: Runtime;
  private readonly shards = new Map<number, ShardState>();
  private readonly links = new Map<number, Link>();
  private readonly graces = new Map<number, NodeJS.Timeout>();
  private readonly sessions: Sessions;
  private readonly lists = new TakenLists();
  ready: Promise<void> = Promise.resolve();
  private coordinator: Coordinator | undefined;
  /** The newest entries of the log, from `recentBase` on. */
  private recent: Entry[] = [];
  private recentBase = 0;
  private readonly spread: Spread;
  private readonly gone = new Set<number>();
  private rule: string | undefined;
  private filter: Filter | undefined;
  private begun: string | undefined;
  private beginWaits: ((start: string) => void)[] = [];
  private readonly shardWaits: (() => void)[] = [];
  private broken: HeddleError | undefined;
  private closed = false;
  private end: () => void = () => {};

  constructor(options: ServerOptions) {
    this.options = options;
    const { servers, copies = 2, timeout = 60 } = options;
    this.copies = Math.min(copies, servers.length);
    this.timeout = timeout;
    this.runtime = localRuntime(options.threads === undefined ? {} : { threads: options.threads });
    this.done = new Promise((resolve) => {
      this.end = resolve;
    });
    this.sessions = new Sessions({
      secret: options.secret,
      timeout,
      mostBytes: () => [...this.shards.values()].reduce((most, shard) => Math.max(most, shard.mostBytes), mostBefore),
      due: (request) => this.due(request),
      answer: (session, request, body) => this.admitted(session, request, body),
      away: (worker) => this.expect(worker),
    });
    this.spread = new Spread({
      servers: servers.length,
      send: async (server, from, entries) =>
        Number((await this.link(server).ask({ type: "apply", from, entries })).fields["version"]),
      isClosed: () => this.closed,
    });
  }

  async start(): Promise<void> {
    const { servers, index, life = 0 } = this.options;
    const [host, port] = splitAddress(servers[index] as string);
    const bound = await this.sessions.listen(host, port);
    this.address = `${host}:${bound}`;
    this.ready = life === 0 ? Promise.resolve() : this.comeBack();
    this.ready.catch((error: HeddleError) => {
      this.broken = error;
    });
  }

  lost(worker: number): void {
    this.gone.add(worker);
    void this.ready.then(() => this.coordinator?.leave(worker, false)).catch(() => {});
  }

  idle(): Promise<void> {
    return this.sessions.idle();
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const timer of this.graces.values()) clearTimeout(timer);
    for (const link of this.links.values()) link.close();
    await this.sessions.close();
    for (const shard of this.shards.values()) shard.close();
    this.runtime.close();
  }

  /** The servers that have a shard, the first of which workers ask. */
  private hosts(shard: number): number[] {
    const count = this.options.servers.length;
    return Array.from({ length: this.copies }, (_unused, step) => (shard + step) % count);
  }

  private get others(): number[] {
    return this.options.servers.flatMap((_address, index) => (index === this.options.index ? [] : [index]));
  }

  private link(server: number): Link {
    const known = this.links.get(server);
    if (known !== undefined) return known;
    const { servers, secret, index, life = 0 } = this.options;
    const link = new Link({
      address: servers[server] as string,
      name: `server ${server}`,
      secret,
      timeout: this.timeout,
      role: "server",
      client: index,
      incarnation: life,
    });
    this.links.set(server, link);
    return link;
  }

  /** Begins to decide, on server 0. */
  private decide(text: string, earlier?: Earlier): void {
    const { index, workers, folder } = this.options;
    const { policy, merging, filters = [] } = parseRule(text);
    if (this.rule !== undefined && this.rule !== text)
      throw new HeddleError("mismatch", `a worker has the policy ${text}, and the first worker had ${this.rule}`);
    this.filter ??= filters.length === 0 ? undefined : pushFilters(filters);
    this.rule = text;
    if (index !== 0 || this.coordinator !== undefined) return;
    const coordinator = new Coordinator(
      {
        workers,
        policy,
        merging,
        filters: filters.length,
        committed: (version) => this.spread.committed(version),
        now: () => performance.now() / 1000,
        servers: this.options.servers.length,
        record: folder === undefined ? undefined : logTo(join(folder, updateLogFile)),
      },
      earlier,
    );
    this.coordinator = coordinator;
    void this.spread.begin(coordinator).catch((error: HeddleError) => this.break(error));
    void this.follow(coordinator).catch((error: HeddleError) => this.break(error));
    for (let worker = 0; worker < workers; worker++) this.expect(worker);
    for (const worker of this.gone) coordinator.leave(worker, false);
    void coordinator.finish().then(this.end, () => {});
  }

  /** Applies the log to the shards of this server. */
  private async follow(coordinator: Coordinator): Promise<void> {
    let version = coordinator.base;
    for (;;) {
      await coordinator.more(version);
      if (this.closed) return;
      // A shard may be behind, after it was taken from another server.
      const entries = coordinator.log.slice(version - coordinator.base, version - coordinator.base + mostEntries);
      version = await this.applyAll(version, entries);
      this.spread.applied(coordinator, version);
    }
  }

  private async applyAll(from: number, entries: readonly Entry[]): Promise<number> {
    if (this.recent.length === 0) this.recentBase = from;
    const known = this.recentBase + this.recent.length;
    if (from <= known) this.recent.push(...entries.slice(known - from));
    // A worker may leave before the first one has made the shards: a shard begins with the first entry.
    while (this.shards.size < this.copies) await new Promise<void>((resolve) => this.shardWaits.push(resolve));
    if (this.recent.length > 2 * keptRecent) {
      this.recentBase += this.recent.length - keptRecent;
      this.recent = this.recent.slice(-keptRecent);
    }
    const versions = await Promise.all([...this.shards.values()].map((shard) => shard.apply(from, entries)));
    return Math.min(...versions);
  }

  /** The run cannot go on. */
  private break(error: HeddleError): void {
    if (this.closed) return;
    this.broken ??= error;
    this.sessions.end();
  }

  /** Takes the shards of this server from the others that have them, and on server 0 the log. */
  private async comeBack(): Promise<void> {
    const { index, servers } = this.options;
    // The log comes first: pushes that it names are in what follows.
    const logs = await Promise.all(this.others.map((server) => this.link(server).ask({ type: "log" })));
    const read = logs.map(({ fields: { base, entries, start, rule } }) => ({
      rule,
      base: Number(base),
      entries: Array.isArray(entries) ? entries.filter(isEntry) : [],
      start,
    }));
    for (const shard of servers.keys()) if (this.hosts(shard).includes(index)) await this.takeCopy(shard);
    const start = read.find((one) => typeof one.start === "string")?.start;
    if (typeof start === "string") this.begin(start);
    const [newest] = [...read].sort((a, b) => b.base + b.entries.length - a.base - a.entries.length);
    const isWhole = this.shards.size === this.copies && [...this.shards.values()].every(({ isLoaded }) => isLoaded);
    // Workers may have gone on because of these entries, which are now on this server again.
    if (newest !== undefined && newest.entries.length > 0 && isWhole) await this.applyAll(newest.base, newest.entries);
    const rule = read.find((one) => typeof one.rule === "string")?.rule;
    if (typeof rule === "string") this.decide(rule, this.earlier(newest));
  }

  /** Takes a shard from the first server that has it. */
  private async takeCopy(shard: number): Promise<void> {
    for (const host of this.hosts(shard)) {
      if (host === this.options.index || this.shards.get(shard)?.isLoaded === true) continue;
      const { fields, body } = await this.link(host).ask({ type: "snapshot", shard, copy: true, version: 0 });
      if (typeof fields["spec"] !== "string") continue;
      const state = new ShardState(fields["spec"], this.runtime);
      if (typeof fields["known"] === "string") state.restore(fields["known"], body);
      this.keep(shard, state);
    }
  }

  private keep(shard: number, state: ShardState): void {
    this.shards.set(shard, state);
    for (const resolve of this.shardWaits.splice(0)) resolve();
  }

  /** What the server that decided before has left; undefined if no shard has values yet. */
  private earlier(log: { readonly base: number; readonly entries: readonly Entry[] } | undefined): Earlier | undefined {
    const state = this.shards.get(0);
    if (state === undefined || !state.isLoaded) return undefined;
    // A server may have applied more since it told its log: then what it has is all that there is.
    const known = log !== undefined && log.base + log.entries.length >= state.version;
    const { base, entries } = known ? log : { base: state.version, entries: [] };
    return { base, entries, steps: state.steps, settled: (worker) => state.settledOf(worker) };
  }

  /** A worker that does not come, or does not come back, is given up. */
  private expect(worker: number): void {
    clearTimeout(this.graces.get(worker));
    const timer = setTimeout(() => this.coordinator?.leave(worker, false), 1000 * this.timeout);
    timer.unref();
    this.graces.set(worker, timer);
  }

  /** Waits for the version that a request is for. */
  private async due(request: Request): Promise<void> {
    const isOfVersion = request.type === "pull" || request.type === "tables";
    if (!isOfVersion && !(request.type === "snapshot" && !request.copy)) return;
    await this.ready;
    if (this.broken === undefined) await this.shards.get(request.shard)?.reached(request.version);
  }

  private async admitted(session: Session, request: Request, body: Uint8Array): Promise<Answer> {
    // What another server that comes back asks must not wait until this one has come back.
    if (!(request.type === "log" || (request.type === "snapshot" && request.copy))) await this.ready;
    if (this.broken !== undefined) throw this.broken;
    return this.answer(session, request, body);
  }

  private async answer({ role, client }: Session, request: Request, body: Uint8Array): Promise<Answer> {
    const fromWorker = role === "worker";
    switch (request.type) {
      case "hello":
        if (request.role !== "worker" || this.coordinator === undefined) return {};
        clearTimeout(this.graces.get(request.client));
        return { clock: this.coordinator.hello(request.client, request.incarnation) };
      case "decide":
        this.decide(request.rule);
        if (fromWorker) await Promise.all(this.others.map((server) => this.link(server).ask(request)));
        return {};
      case "create":
        this.create(request.shard, request.spec);
        if (fromWorker) await this.forward(request.shard, request);
        return {};
      case "load":
        this.shard(request.shard).load(body, request.steps);
        if (fromWorker) await this.forward(request.shard, request, body);
        return {};
      case "rows":
        this.shard(request.shard).loadRows(request.heads, body);
        if (fromWorker) await this.forward(request.shard, request, body);
        return {};
      case "begin":
        if (request.start === undefined)
          return { start: this.begun ?? (await new Promise((resolve) => this.beginWaits.push(resolve))) };
        this.begin(request.start);
        if (fromWorker) await Promise.all(this.others.map((server) => this.link(server).ask(request)));
        return {};
      case "pull": {
        const state = this.shard(request.shard);
        const lists = this.rowsAsked(state, request, body);
        if (lists === undefined) return { unknown: true };
        const { parts, version, same } = await state.pull(request.version, lists, request.has);
        return { version, ...(same ? { same } : {}), body: parts };
      }
      case "push":
        return this.push(request, body, fromWorker);
      case "clock":
        return { ...(await this.decider.clock(client, request.clock, request.rows, request.pulled, request.size)) };
      case "apply":
        return { version: await this.applyAll(request.from, request.entries) };
      case "log": {
        const { base, log: entries } = this.coordinator ?? { base: this.recentBase, log: this.recent };
        return { base, entries, start: this.begun, rule: this.rule };
      }
      case "tally":
        return { sums: await this.decider.tally(client, request.epoch, request.sums) };
      case "leave":
        this.decider.leave(client, request.stop);
        return {};
      case "finish":
        // A server that came back does not know who has left.
        this.decider.leave(client, false);
        return { version: await this.decider.finish() };
      case "snapshot": {
        const { shard, copy, version } = request;
        const state = copy ? this.shards.get(shard) : this.shard(shard);
        if (state === undefined) return {};
        if (copy && !state.isLoaded) return { spec: state.spec };
        const { known, bytes } = await state.snapshot(version, copy);
        return { spec: state.spec, known, body: [bytes] };
      }
      case "tables": {
        const { heads, bytes } = await this.shard(request.shard).tableSnapshot(request.version);
        return { heads, body: [bytes] };
      }
      case "statistics":
        return {
          bytes: { received: this.sessions.received, sent: this.sessions.sent },
          // Of the shard that workers ask this server for.
          rows: this.shards.get(this.options.index)?.tableRows ?? [],
          ...(this.coordinator === undefined ? {} : { statistics: this.coordinator.statistics }),
        };
      // The links themselves answer it.
      case "memory":
      case "ping":
        return {};
    }
  }

  /** Keeps a push, and sends it on to the servers with copies, with all lists: they may not have those of a hash. */
  private async push(request: PushRequest, body: Uint8Array, fromWorker: boolean): Promise<Answer> {
    const state = this.shard(request.shard);
    const { lists: sent = 0 } = request;
    const whole = state.tableCount === 0 ? body : this.lists.of(request.keys, body.subarray(0, sent));
    if (whole === undefined) return { unknown: true };
    const lists = state.tableCount === 0 ? [] : parseLists(whole, state.tableCounts);
    state.checkRows(lists);
    state.push(request, body.subarray(sent), lists, this.filter);
    if (!fromWorker) return {};
    const { keys: _keys, ...rest } = request;
    if (state.tableCount === 0) await this.forward(request.shard, rest, body);
    else await this.forward(request.shard, { ...rest, lists: whole.length }, whole, body.subarray(sent));
    return {};
  }

  /** The rows that a pull asks for; undefined if it has a hash that is not known. */
  private rowsAsked(state: ShardState, { lists, keys }: WithLists, body: Uint8Array): RowList[] | undefined {
    if (lists === undefined) return [];
    const whole = this.lists.of(keys, body);
    if (whole === undefined) return undefined;
    const rows = parseLists(whole, state.tableCounts);
    state.checkRows(rows);
    return rows;
  }

  private begin(start: string): void {
    this.begun ??= start;
    for (const resolve of this.beginWaits.splice(0)) resolve(this.begun);
  }

  private get decider(): Coordinator {
    if (this.coordinator !== undefined) return this.coordinator;
    const { index } = this.options;
    throw new HeddleError(
      "protocol",
      index === 0
        ? "server 0 does not know its policy yet, or not any more"
        : `server ${index} does not decide: server 0 does`,
    );
  }

  private create(shard: number, spec: string): void {
    const known = this.shards.get(shard);
    if (known === undefined) {
      if (!this.hosts(shard).includes(this.options.index))
        throw new HeddleError("protocol", `server ${this.options.index} has no shard ${shard}`);
      this.keep(shard, new ShardState(spec, this.runtime));
    } else if (known.spec !== spec)
      throw new HeddleError("mismatch", "a worker has other parameters, or another optimizer, than the first worker");
  }

  private shard(shard: number): ShardState {
    const state = this.shards.get(shard);
    if (state !== undefined) return state;
    const life = this.options.life ?? 0;
    const lost = life === 0 ? "does not have" : "was started again, and nobody has a copy of";
    throw new HeddleError("protocol", `server ${this.options.index} ${lost} shard ${shard}`);
  }

  /** Sends what the first server of a shard has taken to those with copies. */
  private async forward(shard: number, request: Request, ...body: readonly Uint8Array[]): Promise<void> {
    const { index } = this.options;
    if (this.hosts(shard)[0] !== index)
      throw new HeddleError("protocol", `server ${index} has a copy of shard ${shard}: ask the first`);
    await Promise.all(
      this.hosts(shard)
        .slice(1)
        .map((host) => this.link(host).ask(request, body)),
    );
  }
}

/** Entries of the log that a server keeps for a server 0 that comes back. */
const keptRecent = 4096;

function splitAddress(address: string): [host: string, port: number] {
  const colon = address.lastIndexOf(":");
  return [address.slice(0, colon).replace(/^\[|\]$/g, ""), Number(address.slice(colon + 1))];
}
