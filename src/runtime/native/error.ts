/** @module Errors of the native core as HeddleErrors. */
import type { LoweredStep } from "../../lower/json.ts";
import { nestedIn } from "../../lower/nest.ts";
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
}

/** An error of a run, with what is known of where it happened. */
export class RunError extends HeddleError {
  readonly during: string | undefined;
  readonly rank: number | undefined;
  readonly step: number | undefined;
  readonly op: string | undefined;

  constructor(code: string, message: string, fields: RunErrorFields, cause: unknown) {
    super(code, message, { cause });
    this.name = "RunError";
    this.during = fields.during;
    this.rank = fields.rank;
    this.step = fields.step;
    this.op = fields.op;
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
  const { code, during, rank, step, op } = (error ?? {}) as { readonly [field: string]: unknown };
  const known = typeof code === "string" && Object.hasOwn(codes, code) ? codes[code as keyof typeof codes] : "run";
  const fields = { during: textOf(during), rank: numberOf(rank), step: numberOf(step), op: textOf(op) };
  return new RunError(known, message, fields, error);
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** The end of a message about an index: the way through loops and branches, and the index. */
const wayToIndex = /((?:: (?:iteration \d+|op \d+ \(\w+\)))*): index (-?\d+) at position 0 is outside \[0, (\d+)\)$/;

/**
 * What the failed call itself says of an index outside (`failure`, docs/internals/lowered-program.md), where it says
 * something. The way names places in lists, not which list of a loop or branch: where calls of both can be meant, the
 * iteration decides, as the call that bounds a loop fails in none before the bound.
 */
export function failureOf(error: RunError, steps: readonly LoweredStep[]): string | undefined {
  const [, way = "", index, size] = wayToIndex.exec(error.plain) ?? [];
  const outermost = error.step === undefined ? undefined : steps[error.step];
  if (outermost === undefined || index !== size) return undefined;
  let reached: readonly LoweredStep[] = [outermost];
  for (const [, place] of way.matchAll(/op (\d+) /g))
    reached = reached.flatMap((call) => nestedIn(call).flatMap((list) => list[Number(place)] ?? []));
  const meant = reached.filter(({ k, size: rows }) => k === "gather" && rows === Number(size));
  const told = meant.filter(({ failure }) => typeof failure === "string");
  const sure = told.length === meant.length || way.includes(`: iteration ${size}:`);
  return sure ? (told[0]?.["failure"] as string | undefined) : undefined;
}
