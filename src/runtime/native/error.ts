/** @module Errors of the native core as HeddleErrors. */
import type { LoweredStep } from "../../lower/json.ts";
import { nestedIn } from "../../lower/nest.ts";
import type { ErrorCode } from "../../util/error-codes.ts";
import { HeddleError } from "../../util/errors.ts";

/** What an error of a run knows of itself. */
export interface RunErrorFields {
  /** The collective that was under way, such as `allReduce sum f32 x 10 'gradients 0' (sequence 12, message 0)`. */
  readonly during?: string | undefined;
  /** The rank that closed its connection or aborted. */
  readonly rank?: number | undefined;
  /** Number of the program's step that failed, and what it is. */
  readonly step?: number | undefined;
  readonly op?: string | undefined;
  /** What the failed call itself says of such a value (`failure`, docs/internals/lowered-program.md). */
  readonly failure?: string | undefined;
}

/** An error of a run, with what is known of where it happened. */
export class RunError extends HeddleError {
  /** The collective that was under way. */
  readonly during: string | undefined;
  /** The rank that closed its connection or aborted. */
  readonly rank: number | undefined;
  /** Number of the program's step that failed. */
  readonly step: number | undefined;
  /** What that step is. */
  readonly op: string | undefined;
  /** What the failed call itself says of such a value. */
  readonly failure: string | undefined;

  constructor(code: ErrorCode, message: string, fields: RunErrorFields, cause: unknown) {
    super(code, message, { cause });
    this.name = "RunError";
    this.during = fields.during;
    this.rank = fields.rank;
    this.step = fields.step;
    this.op = fields.op;
    this.failure = fields.failure;
  }
}

/**
 * The closed table of codes that native code gives (`native/binding/src/error.rs`), and what they are called here.
 * The launcher tells by them a rank that failed by itself from ranks that failed because of it.
 */
const codes = {
  run: "run",
  value: "value",
  memory: "memory",
  panic: "internal",
  // What Node-API says of a call that is wrong in itself.
  InvalidArg: "run",
  invalid: "run",
  timeout: "timeout",
  peerClosed: "peerClosed",
  peerAborted: "peerAborted",
  aborted: "aborted",
  mismatch: "mismatch",
  protocol: "protocol",
  auth: "auth",
  store: "store",
  io: "io",
} as const satisfies { readonly [native: string]: string };

/** Wraps what native code threw; a HeddleError stays as it is. */
export function nativeError(error: unknown): HeddleError {
  if (error instanceof HeddleError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const { code, during, rank, step, op, failure } = (error ?? {}) as { readonly [field: string]: unknown };
  const known = typeof code === "string" && Object.hasOwn(codes, code) ? codes[code as keyof typeof codes] : "run";
  const fields = {
    during: textOf(during),
    rank: numberOf(rank),
    step: numberOf(step),
    op: textOf(op),
    failure: textOf(failure),
  };
  return new RunError(known, message, fields, error);
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** The way through loops and branches to the call that failed, and what it said. */
export interface Way {
  readonly iterations: readonly number[];
  readonly reason: string;
  /** The calls that can be meant: the way names places in lists, not which list of a loop or branch. */
  readonly calls: readonly LoweredStep[];
}

/** Reads the way of a message `op 2 of program f (loop): iteration 3: op 1 (gather): index …`; undefined where it has none. */
export function wayOf({ plain, step, op }: RunError, program: string, steps: readonly LoweredStep[]): Way | undefined {
  const start = `op ${step} of program ${program} (${op}): `;
  const outermost = step === undefined ? undefined : steps[step];
  if (outermost === undefined || !plain.startsWith(start)) return undefined;
  const iterations: number[] = [];
  let calls: readonly LoweredStep[] = [outermost];
  let reason = plain.slice(start.length);
  for (let part = wayPart.exec(reason); part !== null; part = wayPart.exec(reason)) {
    const [text, iteration, place, kind] = part;
    reason = reason.slice(text.length);
    if (iteration !== undefined) iterations.push(Number(iteration));
    else
      calls = calls
        .flatMap((call) => nestedIn(call).flatMap((list) => list[Number(place)] ?? []))
        .filter(({ k }) => k === kind);
  }
  return { iterations, reason, calls };
}

const wayPart = /^(?:iteration (\d+)|op (\d+) \((\w+)\)): /;
