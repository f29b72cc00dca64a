/** @module The closed table of a driver's requests to a worker. Everything that arrives is checked against it. */
import type { ErrorCode } from "../../util/error-codes.ts";
import { HeddleError, markIn } from "../../util/errors.ts";
import { asFault, type Fault } from "../../util/faults.ts";
import type { Frame } from "./channel.ts";

/** Requests, in the usual order of a session. The driver chooses the numbers of buffers and programs. */
export type Request =
  | JoinRequest
  | { readonly type: "compile"; readonly n: number; readonly program: number; readonly text: string }
  | { readonly type: "write"; readonly buffer: number; readonly bytes: number; readonly data: Uint8Array }
  | RunRequest
  | { readonly type: "read"; readonly n: number; readonly buffer: number }
  | { readonly type: "free"; readonly buffers: readonly number[] }
  | { readonly type: "abort"; readonly reason: string }
  | { readonly type: "ping"; readonly n: number };

/** Become device `rank` of a mesh. The first worker opens the store through which all workers find each other, and sends its port. */
export interface JoinRequest {
  readonly type: "join";
  readonly n: number;
  readonly axes: readonly { readonly name: string; readonly size: number }[];
  readonly rank: number;
  readonly size: number;
  readonly runId: string;
  /** Secret of the links between workers. */
  readonly secret: string;
  /** Seconds that a worker waits for another. */
  readonly timeout: number;
  readonly host: string;
  /** Port of the store; undefined if this worker must open it. */
  readonly port: number | undefined;
}

/** Enqueue a run; the answer comes when it is done. */
export interface RunRequest {
  readonly type: "run";
  readonly n: number;
  readonly program: number;
  readonly inputs: readonly number[];
  /** Numbers of the output buffers. */
  readonly outputs: readonly number[];
}

const count = (value: unknown, max = Number.MAX_SAFE_INTEGER): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max;
const counts = (value: unknown): boolean => Array.isArray(value) && value.every((item) => count(item));
const text = (value: unknown): boolean => typeof value === "string";
const axis = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  text((value as { name?: unknown }).name) &&
  count((value as { size?: unknown }).size, mostWorkers);

/** Workers of a session, which all hold a list of all. */
const mostWorkers = 65_536;

type Check = (value: unknown) => boolean;
const table: { readonly [type in Request["type"]]: { readonly [field: string]: Check } } = {
  join: {
    n: count,
    axes: (value) => Array.isArray(value) && value.length <= 16 && value.every(axis),
    rank: (value) => count(value, mostWorkers),
    size: (value) => count(value, mostWorkers) && value !== 0,
    runId: (value) => text(value) && /^[\w-]{1,64}$/.test(value as string),
    secret: text,
    timeout: (value) => count(value, 86_400) && value !== 0,
    host: text,
    port: (value) => value === undefined || count(value, 65_535),
  },
  compile: { n: count, program: count, text },
  write: { buffer: count, bytes: count },
  run: { n: count, program: count, inputs: counts, outputs: counts },
  read: { n: count, buffer: count },
  free: { buffers: counts },
  abort: { reason: text },
  ping: { n: count },
};

/** @throws HeddleError `link` for anything that is not in the table. */
export function parseRequest({ head, body }: Frame): Request {
  const type = head["type"];
  if (typeof type !== "string" || !Object.hasOwn(table, type)) throw malformed(`of type ${String(type)}`);
  for (const [field, check] of Object.entries(table[type as Request["type"]])) {
    if (!check(head[field])) throw malformed(`'${type}' without a proper '${field}'`);
  }
  if (type !== "write") return head as unknown as Request;
  if (head["bytes"] !== 0 && body.length !== head["bytes"]) throw malformed("'write' with other bytes than it says");
  return { ...(head as unknown as Request & { type: "write" }), data: body };
}

const malformed = (what: string): HeddleError => new HeddleError("link", `a request ${what}`);

/** An answer to a request: its results, or its error. */
export interface Answer {
  readonly n: number;
  readonly error: HeddleError | undefined;
  /** For a join: the port of the store that was opened. */
  readonly port: number | undefined;
  readonly data: Uint8Array;
}

/** The head of an answer with an error. */
export function errorHead(n: number, error: unknown): Frame["head"] {
  const isHeddleError = error instanceof HeddleError;
  const message = isHeddleError ? error.plain : error instanceof Error ? error.message : String(error);
  const { code, hint, fault } = isHeddleError ? error : { code: "internal" };
  return { n, error: { code, message, hint, fault, mark: isHeddleError ? markIn(error) : undefined } };
}

/** An error of a worker. */
export class WorkerError extends HeddleError {
  readonly peer: string;
  /** The number of the node that refused a value, in the program that was sent. */
  readonly mark: number | undefined;

  constructor(peer: string, text: string, { code, hint, fault, mark }: WorkerProblem) {
    super(code, text, { by: peer, fault, ...(hint === undefined ? {} : { hint }) });
    this.peer = peer;
    this.mark = mark;
  }
}

/** The fields of a worker's error besides its message. */
interface WorkerProblem {
  readonly code: ErrorCode;
  readonly hint?: string | undefined;
  readonly fault?: Fault | undefined;
  readonly mark?: number | undefined;
}

/** Reads a worker's error; undefined for malformed data. */
function problemOf(value: unknown, peer: string): WorkerError | undefined {
  const { code, message, hint, fault, mark } = value as { readonly [field: string]: unknown };
  if (!text(code) || !text(message)) return undefined;
  return new WorkerError(peer, message as string, {
    code: code as ErrorCode,
    hint: text(hint) ? (hint as string) : undefined,
    fault: asFault(fault),
    mark: count(mark) ? (mark as number) : undefined,
  });
}

/** Reads an answer; undefined for malformed data. `peer` names the worker in errors. */
export function parseAnswer({ head, body }: Frame, peer: string): Answer | undefined {
  const { n, error, port } = head as { [key: string]: unknown };
  if (!count(n) || !(port === undefined || count(port, 65_535))) return undefined;
  const problem = error === undefined ? undefined : problemOf(error ?? {}, peer);
  if (error !== undefined && problem === undefined) return undefined;
  return {
    n: n as number,
    error: problem,
    port: port as number | undefined,
    data: body,
  };
}
