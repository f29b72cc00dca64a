/** @module The one error type of Heddle: a stable code, a message that names the cause, a hint what to do. */
import type { ErrorCode } from "./error-codes.ts";
import { capturePosition, describePosition, type Speaker, speakerNow, speakingAs } from "./source.ts";

/** What can be attached to a {@link HeddleError}. */
export interface HeddleErrorOptions {
  /** What the user can do about it, one sentence. */
  readonly hint?: string;
  readonly cause?: unknown;
  /** Where in the user's code the failing value was made, as `file:line:column`; default the call that threw. */
  readonly where?: string;
}

/**
 * An error a user can act on.
 *
 * `code` is stable (`"shape"`, `"dtype"`, `"file"`, …; docs/errors.md has all); `message` names the op, shapes,
 * dtypes and values concerned.
 */
export class HeddleError extends Error {
  /** What kind of mistake it is. */
  readonly code: ErrorCode;
  /** What the user can do, one sentence; part of the message. */
  readonly hint: string | undefined;
  /** The user's line, as `file:line:column`; part of the message. */
  readonly where: string | undefined;
  /** Whether `where` was given, and is not just the innermost of the user's calls when this was thrown. */
  readonly isPlaced: boolean;
  /** The message without source line and hint. */
  readonly plain: string;

  constructor(code: ErrorCode, message: string, options: HeddleErrorOptions = {}) {
    // Errors of a kind of their own, such as those of peers, come from no call of the user.
    const where = options.where ?? (new.target === HeddleError ? describePosition(capturePosition()) : undefined);
    const place = where === undefined ? "" : `\n  at ${where}`;
    const hint = options.hint === undefined ? "" : `\n  hint: ${options.hint}`;
    super(message + place + hint, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "HeddleError";
    this.code = code;
    this.hint = options.hint;
    this.where = where;
    this.isPlaced = options.where !== undefined;
    this.plain = message;
  }

  /** The same error with the user's source line, as `file:line:column`. */
  at(where: string): HeddleError {
    return this.saying(this.plain, where);
  }

  /** The same error in other words; the line stays where it was given, unless there is another. */
  saying(message: string, where: string | undefined = this.isPlaced ? this.where : undefined): HeddleError {
    return new HeddleError(this.code, message, {
      ...(where === undefined ? {} : { where }),
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      cause: this,
    });
  }
}

/** How a message begins: with the op or function that failed. */
const speaker = /^[a-z]\w*(?: [a-z]\w*)?: /i;

/**
 * The error as one of the function that the user called, where it is of a part of it: `softmax: dim 5 …`, not `max: dim 5 …`.
 * What is no user's mistake stays as it is.
 */
export function toldBy(name: string, error: unknown): unknown {
  if (!(error instanceof HeddleError) || error.constructor !== HeddleError || error.code === "internal") return error;
  if (error.plain.startsWith(name)) return error;
  return error.saying(`${name}: ${error.plain.replace(speaker, "")}`);
}

/** What is known of a value that an op refused while it ran. */
export interface Refusal {
  /** What users call the op; undefined: the reason is a sentence of its own. */
  readonly name: string | undefined;
  /** Of the loops around it, the outermost first. */
  readonly iterations: readonly number[];
  readonly reason: string;
  /** {@link Speaker.says} */
  readonly says?: Speaker["says"];
  /** Where the user wrote it. */
  readonly where?: string | undefined;
  /** {@link SourcePosition.mark} of the node. */
  readonly mark?: number | undefined;
}

const refusals = new WeakMap<HeddleError, Refusal>();

/** The error of a run for a value that an op refused: every executor says it in these words. */
export function refused(refusal: Refusal, cause: unknown): HeddleError {
  const { name, iterations, says, where, mark } = refusal;
  const reason = says?.(refusal.reason) ?? refusal.reason;
  const way = iterations.map((count) => `iteration ${count}: `).join("");
  const message = name === undefined ? reason : `${name}: ${way}${reason}`;
  const error = new HeddleError("value", message, { cause, ...(where === undefined ? {} : { where }) });
  refusals.set(error, { name, iterations, reason, where, mark });
  return error;
}

/** What is known of the value that was refused, where the error is one of that. */
export const refusalIn = (error: unknown): Refusal | undefined =>
  error instanceof HeddleError ? refusals.get(error) : undefined;

/** What an op says in its own name, as said by what users call it; `where` of its node, where that is known. */
export function refusedBy({ name, says }: Speaker, error: unknown, where?: string, mark?: number): unknown {
  if (!(error instanceof HeddleError) || error.code !== "value" || refusals.has(error)) return error;
  const named = speaker.test(error.plain);
  const reason = error.plain.replace(speaker, "");
  return refused({ name: named ? name : undefined, iterations: [], reason, says, where, mark }, error);
}

/** The same error, in an iteration of a loop. */
export function inIteration(count: number, error: unknown): unknown {
  const refusal = refusalIn(error);
  return refusal === undefined ? error : refused({ ...refusal, iterations: [count, ...refusal.iterations] }, error);
}

/** Runs the body of a function that users call; errors of what it is made of name it. */
export function within<Result>(name: string, body: () => Result): Result {
  try {
    return speakingAs(speakerNow() ?? { name }, body);
  } catch (error) {
    throw toldBy(name, error);
  }
}

/** An index that an op refused. */
export interface OutsideIndex {
  readonly kind: "index" | "label";
  /** Of one that i32 cannot hold the bound that is nearest. */
  readonly index: number;
  /** Of the index among all, in row-major order. */
  readonly position: number;
  /** The least index: 0, or `-size` where negative ones count from the end. */
  readonly least: number;
  readonly size: number;
}

const outside =
  /^(index|label) (-?\d+)(?: or (?:more|less))? at (?:position|row) (\d+) is outside \[(0|-\d+), (\d+)\)$/;

/** The index in what an op says of one that it refuses; undefined where it speaks of something else. */
export function outsideIndex(reason: string): OutsideIndex | undefined {
  const [, kind, ...numbers] = outside.exec(reason) ?? [];
  if (kind === undefined) return undefined;
  const [index, position, least, size] = numbers.map(Number) as [number, number, number, number];
  return { kind: kind as OutsideIndex["kind"], index, position, least, size };
}

/** Runs a piece of a function whose ops see other indices than it was given: `says` tells what is outside in terms of those. */
export function retold<Result>(name: string, says: (found: OutsideIndex) => string, body: () => Result): Result {
  const told = (reason: string): string | undefined => {
    const found = outsideIndex(reason);
    return found === undefined ? undefined : says(found);
  };
  return speakingAs({ ...(speakerNow() ?? { name }), says: told }, body);
}

/** Throws for a broken invariant of Heddle itself, never for a user's mistake. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new HeddleError("internal", `internal error: ${message}`, { hint: "please report this" });
}
