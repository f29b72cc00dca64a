/** @module The closed table of requests to a parameter server. Everything that arrives is checked against it. */
import { HeddleError } from "../util/errors.ts";
import type { Region } from "./shared/shared-file.ts";

/** Requests, in the usual order of a session. Workers are numbered from 0; every request has a number `n`, which its answer repeats. */
export type Request =
  /** Who asks: the first request of every link. The answer has the clocks of a worker that count as done. */
  | HelloRequest
  /** The policy, as JSON of {@link Rule}: once, later ones are compared. */
  | { readonly type: "decide"; readonly rule: string }
  /** What a shard is, once; later ones are compared. */
  | { readonly type: "create"; readonly shard: number; readonly spec: string }
  /** First values of a shard: parameters, then states of the update rule. Does nothing if the shard has values. */
  | { readonly type: "load"; readonly shard: number; readonly steps: number }
  /** What the first worker says of the beginning, and what the others wait for. */
  | { readonly type: "begin"; readonly start?: string }
  | PullRequest
  | PushRequest
  /** A worker has finished so many clocks, whose pushes all servers have, the last from these versions of the shards and with this largest magnitude; the answer comes when it may begin the next one. */
  | {
      readonly type: "clock";
      readonly clock: number;
      readonly rows: number;
      readonly pulled: readonly number[];
      readonly size: number;
    }
  /** Entries of the log, from the server that decides. The answer has the number of entries that are applied. */
  | { readonly type: "apply"; readonly from: number; readonly entries: readonly Entry[] }
  /** The entries of the log that this server still knows, for a server that decides and has lost them. */
  | { readonly type: "log" }
  /** Sums of an epoch, for a report over all workers. */
  | { readonly type: "tally"; readonly epoch: number; readonly sums: string }
  /** The worker has done its last clock; with `stop` all workers shall end. */
  | { readonly type: "leave"; readonly stop: boolean }
  /** The answer comes when all workers have left. */
  | { readonly type: "finish" }
  /** The whole state of a shard: for checkpoints, or with what is known of pushes for a copy that begins anew. */
  | { readonly type: "snapshot"; readonly shard: number; readonly copy: boolean; readonly version: number }
  /** Rows of tables, before there are values: those of this shard among them are taken. `heads` is JSON, of each old shard one. */
  | { readonly type: "rows"; readonly shard: number; readonly heads: string }
  /** The rows of a shard's tables: for checkpoints. */
  | { readonly type: "tables"; readonly shard: number; readonly version: number }
  /** The file in memory that the asker has made for bodies. The answer has what is at its beginning, or nothing where it cannot be opened. */
  | { readonly type: "memory"; readonly path: string }
  | { readonly type: "statistics" }
  | { readonly type: "ping" };

/** Who waits for whom, and whether pushes of one step are summed or averaged. */
export interface Rule {
  readonly policy: string;
  readonly merging?: "sum" | "mean" | undefined;
  /** The filters of what workers push, from the first to the last. */
  readonly filters?: readonly string[] | undefined;
}

/** Reads a rule. @throws HeddleError `link` */
export function parseRule(text: string): Rule {
  try {
    const { policy, merging, filters = [] } = JSON.parse(text) as Partial<Rule>;
    const known = merging === undefined || merging === "sum" || merging === "mean";
    const named = Array.isArray(filters) && filters.length <= 64 && filters.every((spec) => typeof spec === "string");
    if (typeof policy === "string" && known && named) return { policy, merging, filters };
  } catch {
    // As malformed as any other.
  }
  throw new HeddleError("link", "a malformed policy");
}

/** Who asks. */
export interface HelloRequest {
  readonly type: "hello";
  readonly role: "worker" | "server";
  readonly client: number;
  /** Grows with each life of a client. */
  readonly incarnation: number;
}

/** Lists of rows of tables: the body begins with so many bytes of them, or with none if the server has those with this hash. */
export interface WithLists {
  readonly lists?: number | undefined;
  readonly keys?: string | undefined;
}

/** The parameters of a shard, and rows of its tables, once it has applied so many entries of the log. */
export interface PullRequest extends WithLists {
  readonly type: "pull";
  readonly shard: number;
  readonly version: number;
  /** The version whose parameters the asker has: then the answer says `same`, and has the rows alone; -1: whichever version. */
  readonly has?: number | undefined;
}

/**
 * Gradients of a shard; the body has them in the order of the parameters, then of the rows of the lists. A push is kept once for each client
 * and clock.
 */
export interface PushRequest extends WithLists {
  readonly type: "push";
  readonly shard: number;
  readonly client: number;
  readonly incarnation: number;
  readonly clock: number;
  readonly rates: readonly number[];
  /** What filters have made of the gradients of the parameters, as text: the body has their bytes. */
  readonly parts?: string | undefined;
}

/** What all servers do with pushes, in one order. */
export type Entry =
  /** One step of the update rule with the weighted sum of pushes. */
  | { readonly type: "step"; readonly parts: readonly Part[]; readonly mean?: RunningMean | undefined }
  | { readonly type: "drop"; readonly worker: number; readonly clock: number }
  /** No step of this running mean comes any more. */
  | { readonly type: "close"; readonly group: number }
  /** The worker's pushes from this clock on count for nothing. */
  | { readonly type: "left"; readonly worker: number; readonly clock: number };

/** A push in a step, with its weight. */
export interface Part {
  readonly worker: number;
  readonly clock: number;
  readonly weight: number;
}

/** A step that applies what is new in `scale` times the sum of a group. */
export interface RunningMean {
  readonly group: number;
  readonly scale: number;
}

type Check = (value: unknown) => boolean;

const count = (value: unknown, most = Number.MAX_SAFE_INTEGER): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= most;
const mostWorkers = 65_536;
/** Entries of the log in one request. */
export const mostEntries = 1024;
const text = (value: unknown): boolean => typeof value === "string";
const flag = (value: unknown): boolean => typeof value === "boolean";
const shard = (value: unknown): boolean => count(value, mostWorkers);
const number = (value: unknown): boolean => Number.isFinite(value);
const worker = (value: unknown): boolean => count(value, mostWorkers);
const part = (value: unknown): boolean => fits(value, { worker, clock: (value) => count(value), weight: number });
const mean = (value: unknown): boolean =>
  value === undefined || fits(value, { group: (value) => count(value), scale: number });
const entryTable: { readonly [type in Entry["type"]]: { readonly [field: string]: Check } } = {
  step: { parts: (value) => Array.isArray(value) && value.length <= mostWorkers && value.every(part), mean },
  drop: { worker, clock: (value) => count(value) },
  close: { group: (value) => count(value) },
  left: { worker, clock: (value) => count(value) },
};

/** Whether a value is an entry of the log. */
export const isEntry = (value: unknown): value is Entry => {
  const type = (value as { readonly type?: unknown } | null)?.type;
  return typeof type === "string" && Object.hasOwn(entryTable, type) && fits(value, entryTable[type as Entry["type"]]);
};

function fits(value: unknown, checks: { readonly [field: string]: Check }): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.entries(checks).every(([field, check]) => check((value as { [field: string]: unknown })[field]))
  );
}

const lists = (value: unknown): boolean => value === undefined || count(value);
const keys = (value: unknown): boolean => value === undefined || (text(value) && (value as string).length <= 64);
const rates = (value: unknown): boolean => Array.isArray(value) && value.length <= 4096 && value.every(Number.isFinite);

const table: { readonly [type in Request["type"]]: { readonly [field: string]: Check } } = {
  hello: {
    role: (value) => value === "worker" || value === "server",
    client: worker,
    incarnation: (value) => count(value),
  },
  decide: { rule: text },
  create: { shard, spec: text },
  load: { shard, steps: (value) => count(value) },
  begin: { start: (value) => value === undefined || text(value) },
  pull: {
    shard,
    version: (value) => count(value),
    has: (value) => value === undefined || value === -1 || count(value),
    lists,
    keys,
  },
  rows: { shard, heads: text },
  push: {
    shard,
    client: worker,
    incarnation: (value) => count(value),
    clock: (value) => count(value),
    rates,
    lists,
    keys,
    parts: (value) => value === undefined || text(value),
  },
  clock: {
    clock: (value) => count(value),
    rows: (value) => count(value),
    size: (value) => Number.isFinite(value) && (value as number) >= 0,
    pulled: (value) => Array.isArray(value) && value.length <= mostWorkers && value.every((version) => count(version)),
  },
  apply: {
    from: (value) => count(value),
    entries: (value) => Array.isArray(value) && value.length <= mostEntries && value.every(isEntry),
  },
  log: {},
  tally: { epoch: (value) => count(value), sums: text },
  leave: { stop: flag },
  finish: {},
  snapshot: { shard, copy: flag, version: (value) => count(value) },
  tables: { shard, version: (value) => count(value) },
  memory: { path: text },
  statistics: {},
  ping: {},
};

/** A request with its number and its bytes. */
export interface Asked {
  readonly n: number;
  readonly request: Request;
  readonly body: Uint8Array;
  /** A part of the file in memory, for the body and the answer's. */
  readonly region: Region | undefined;
  /** Bytes of the body that are there; undefined: the body followed the head. */
  readonly shared: number | undefined;
}

/** A message of a link. */
interface Message {
  readonly head: { readonly [key: string]: unknown };
  readonly body: Uint8Array;
}

/** @throws HeddleError `link` for anything that is not in the table. */
export function parseRequest({ head, body }: Message): Asked {
  const { n, type } = head as { readonly n?: unknown; readonly type?: unknown };
  const checks = typeof type === "string" && Object.hasOwn(table, type) ? table[type as Request["type"]] : undefined;
  if (!count(n) || checks === undefined) throw new HeddleError("link", "a request of an unknown type");
  for (const [field, check] of Object.entries(checks))
    if (!check(head[field])) throw new HeddleError("link", `a request '${type}' with a malformed ${field}`);
  const { region, shared } = head;
  const whole = Array.isArray(region) && region.length === 2 && region.every((value) => count(value));
  const [offset, size] = whole ? (region as [number, number]) : [0, 0];
  if ((region !== undefined && !whole) || (shared !== undefined && !count(shared, size)))
    throw new HeddleError("link", `a request '${type}' with a malformed region`);
  return {
    ...{ n: n as number, request: head as unknown as Request, body },
    region: whole ? { offset, size } : undefined,
    shared: shared as number | undefined,
  };
}
