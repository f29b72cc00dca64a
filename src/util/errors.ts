/** @module The one error type of Heddle: a stable code, a message that names the cause, a hint what to do. */
import type { ErrorCode } from "./error-codes.ts";
import { codeOf, type Fault, spokenOf } from "./faults.ts";
import { capturePosition, describePosition, type Speaker, speakerNow, speakingAs } from "./source.ts";

/** What can be attached to a {@link HeddleError}. */
export interface HeddleErrorOptions {
  /** What the user can do about it, one sentence. */
  readonly hint?: string;
  /** Who says it, which the message given here leaves out; default how that begins, as `matmul: …`. */
  readonly by?: string | undefined;
  readonly cause?: unknown;
  /** Where in the user's code the failing value was made, as `file:line:column`; default the call that threw. */
  readonly where?: string;
  /** What the message is made of. */
  readonly fault?: Fault | undefined;
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
  /** Who says it: the op, function or layer that failed, with which the message begins; undefined where it names none. */
  readonly by: string | undefined;
  /** What it says: {@link HeddleError.plain} without {@link HeddleError.by}. */
  readonly said: string;
  /** What went wrong as data, of an error of a run: `kind` with fields such as `index`, `position` and `size`. */
  readonly fault: Fault | undefined;

  constructor(code: ErrorCode, message: string, options: HeddleErrorOptions = {}) {
    // Errors of a kind of their own, such as those of peers, come from no call of the user.
    const where = options.where ?? (new.target === HeddleError ? describePosition(capturePosition()) : undefined);
    const place = where === undefined ? "" : `\n  at ${where}`;
    const hint = options.hint === undefined ? "" : `\n  hint: ${options.hint}`;
    const { by, said } = options.by === undefined ? spoken(message) : { by: options.by, said: message };
    const plain = by === undefined ? said : `${by}: ${said}`;
    super(plain + place + hint, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "HeddleError";
    this.code = code;
    this.hint = options.hint;
    this.where = where;
    this.isPlaced = options.where !== undefined;
    this.plain = plain;
    this.by = by;
    this.said = said;
    this.fault = options.fault;
  }

  /** The same error with the user's source line, as `file:line:column`. */
  at(where: string): HeddleError {
    return this.saying(this.plain, where);
  }

  /** The same error as one of another function or layer; the line stays where it was given, unless there is another. */
  toldAs(by: string, said: string = this.said, where?: string): HeddleError {
    return this.again(said, where, by);
  }

  /** The same error in other words; the line stays where it was given, unless there is another. */
  saying(message: string, where?: string): HeddleError {
    return this.again(message, where, undefined);
  }

  private again(message: string, given: string | undefined, by: string | undefined): HeddleError {
    const where = given ?? (this.isPlaced ? this.where : undefined);
    return new HeddleError(this.code, message, {
      by,
      ...(where === undefined ? {} : { where }),
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      fault: this.fault,
      cause: this,
    });
  }
}

/** How a message begins that names the op or function that failed. Whoever asks an error who says it reads {@link HeddleError.by}. */
const speaker = /^([a-z]\w*(?: [a-z]\w*)?): /i;

function spoken(message: string): { readonly by: string | undefined; readonly said: string } {
  const found = speaker.exec(message);
  return found === null ? { by: undefined, said: message } : { by: found[1], said: message.slice(found[0].length) };
}

/**
 * The error as one of the function that the user called, where it is of a part of it: `softmax: dim 5 …`, not `max: dim 5 …`.
 * What is no user's mistake stays as it is.
 */
export function toldBy(name: string, error: unknown): unknown {
  if (!(error instanceof HeddleError) || error.constructor !== HeddleError || error.code === "internal") return error;
  // What is said more of the function, such as the letters of an einsum, stands behind its name.
  if (error.by?.split(" ", 1)[0] === name) return error;
  return error.toldAs(name);
}

/** The error of a fault. */
export function faultError(fault: Fault, options: Omit<HeddleErrorOptions, "fault" | "by"> = {}): HeddleError {
  const { by, said } = spokenOf(fault);
  return new HeddleError(codeOf(fault), said, { ...options, by, fault });
}

/** Where the node that refused a value comes from. */
export interface RefusalPlace {
  /** {@link Speaker.says} */
  readonly says?: Speaker["says"];
  /** Where the user wrote it. */
  readonly where?: string | undefined;
  /** {@link SourcePosition.mark} of the node. */
  readonly mark?: number | undefined;
}

const refusals = new WeakMap<HeddleError, RefusalPlace>();

/** The error of a run for a value that an op refused, in the words of the function that the user called. */
export function refused(fault: Fault, { says, where, mark }: RefusalPlace, cause: unknown): HeddleError {
  const told = says?.(fault) ?? fault;
  const error = faultError(told, { cause, ...(where === undefined ? {} : { where }) });
  refusals.set(error, { where, mark });
  return error;
}

/** The mark of the node that refused a value, where the error is one of that. */
export const markIn = (error: HeddleError): number | undefined => refusals.get(error)?.mark;

/** What an op says in its own name, as said by what users call it; `where` of its node, where that is known. */
export function refusedBy({ name, says }: Speaker, error: unknown, where?: string, mark?: number): unknown {
  if (!(error instanceof HeddleError) || error.fault === undefined || refusals.has(error)) return error;
  return refused({ ...error.fault, by: name }, { says, where, mark }, error);
}

/** The same error, in an iteration of a loop. */
export function inIteration(count: number, error: unknown): unknown {
  const place = error instanceof HeddleError ? refusals.get(error) : undefined;
  const fault = error instanceof HeddleError ? error.fault : undefined;
  // What names no function is of the loop itself.
  if (fault?.by === undefined || place === undefined) return error;
  return refused({ ...fault, iterations: [count, ...(fault.iterations ?? [])] }, place, error);
}

/** Runs the body of a function that users call; errors of what it is made of name it. */
export function within<Result>(name: string, body: () => Result): Result {
  try {
    return speakingAs(speakerNow() ?? { name }, body);
  } catch (error) {
    throw toldBy(name, error);
  }
}

/** An index or a label that an op refused. */
export type OutsideIndex = Extract<Fault, { readonly kind: "index" | "label" }>;

/** Runs a piece of a function whose ops see other indices than it was given: `says` tells what is outside in terms of those. */
export function retold<Result>(name: string, says: (found: OutsideIndex) => Fault, body: () => Result): Result {
  const told = (fault: Fault): Fault => (fault.kind === "index" || fault.kind === "label" ? says(fault) : fault);
  return speakingAs({ ...(speakerNow() ?? { name }), says: told }, body);
}

/** A fault in other words. */
export const inWords = (text: string, { by, iterations = [] }: Fault): Fault => ({
  kind: "said",
  text,
  by,
  iterations,
});

/** Throws for a broken invariant of Heddle itself, never for a user's mistake. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new HeddleError("internal", `internal error: ${message}`, { hint: "please report this" });
}
