/** @module The one error type of Heddle: a stable code, a message that names the cause, and a hint. */
import type { ErrorCode } from "./error-codes.ts";
import { codeOf, type Fault, type FaultPlace, spokenOf } from "./faults.ts";
import { capturePosition, describePosition, type Speaker, speakerNow, speakingAs } from "./source.ts";

/** Options of a {@link HeddleError}. */
export interface HeddleErrorOptions {
  /** One sentence that says what the user can do. */
  readonly hint?: string;
  /** The op, function or layer that failed; the message passed leaves it out. Default: the beginning of the message, as in `matmul: …`. */
  readonly by?: string | undefined;
  readonly cause?: unknown;
  /** Position in the user's code where the failing value was made, as `file:line:column`; default the call that threw. */
  readonly where?: string;
  /** The data from which the message is made. */
  readonly fault?: Fault | undefined;
}

/**
 * An error a user can act on.
 *
 * `code` is stable (`"shape"`, `"dtype"`, `"file"`, …; docs/errors.md has all); `message` names the op, shapes,
 * dtypes and values concerned.
 */
export class HeddleError extends Error {
  /** The kind of error. */
  readonly code: ErrorCode;
  /** One sentence that says what the user can do; part of the message. */
  readonly hint: string | undefined;
  /** The user's line, as `file:line:column`; part of the message. */
  readonly where: string | undefined;
  /** Whether `where` was passed; otherwise it is the user's innermost call when the error was thrown. */
  readonly isPlaced: boolean;
  /** The message without source line and hint. */
  readonly plain: string;
  /** The op, function or layer that failed, with which the message begins; undefined when it names none. */
  readonly by: string | undefined;
  /** {@link HeddleError.plain} without {@link HeddleError.by}. */
  readonly said: string;
  /** For an error of a run, what went wrong as data: `kind` with fields such as `index`, `position` and `size`. */
  readonly fault: Fault | undefined;

  constructor(code: ErrorCode, message: string, options: HeddleErrorOptions = {}) {
    // Errors of a subclass, such as those of peers, do not come from a user's call.
    const where = options.where ?? (new.target === HeddleError ? describePosition(capturePosition()) : undefined);
    const line = where === undefined ? "" : `\n  at ${where}`;
    const hint = options.hint === undefined ? "" : `\n  hint: ${options.hint}`;
    const { by, said } = options.by === undefined ? spoken(message) : { by: options.by, said: message };
    const plain = by === undefined ? said : `${by}: ${said}`;
    super(plain + line + hint, options.cause === undefined ? undefined : { cause: options.cause });
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

  /** The same error in the name of another function or layer; it keeps the position that was passed, unless there is a new one. */
  toldAs(by: string, said: string = this.said, where?: string): HeddleError {
    return this.again(said, where, by);
  }

  /** The same error with another message; it keeps the position that was passed, unless there is a new one. */
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

/** The beginning of a message: the op or function that failed. Only the constructor reads it; others ask {@link HeddleError.by}. */
const speaker = /^([a-z]\w*(?: [a-z]\w*)?): /i;

function spoken(message: string): { readonly by: string | undefined; readonly said: string } {
  const found = speaker.exec(message);
  return found === null ? { by: undefined, said: message } : { by: found[1], said: message.slice(found[0].length) };
}

/**
 * Names the function that the user called instead of its parts: `softmax: dim 5 …`, not `max: dim 5 …`. Other errors than a
 * user's mistake stay unchanged.
 */
export function toldBy(name: string, error: unknown): unknown {
  if (!(error instanceof HeddleError) || error.constructor !== HeddleError || error.code === "internal") return error;
  // More about the function, such as the letters of an einsum, follows its name.
  if (error.by?.split(" ", 1)[0] === name) return error;
  return error.toldAs(name);
}

/** Makes the error for a fault. */
export function faultError(fault: Fault, options: Omit<HeddleErrorOptions, "fault" | "by"> = {}): HeddleError {
  const { by, said } = spokenOf(fault);
  const hint = fault.hint === undefined ? {} : { hint: fault.hint };
  return new HeddleError(codeOf(fault), said, { ...hint, ...options, by, fault });
}

/** Origin of the node that refused a value. */
export interface RefusalPlace {
  /** {@link Speaker.says} */
  readonly says?: Speaker["says"];
  /** Position of the node in the user's code. */
  readonly where?: string | undefined;
  /** The node's {@link SourcePosition.mark}. */
  readonly mark?: number | undefined;
}

const refusals = new WeakMap<HeddleError, RefusalPlace>();

/** The error of a run for a value that an op refused, in terms of the function that the user called. */
export function refused(fault: Fault, { says, where, mark }: RefusalPlace, cause: unknown): HeddleError {
  const shownFault = says?.(fault) ?? fault;
  const error = faultError(shownFault, { cause, ...(where === undefined ? {} : { where }) });
  refusals.set(error, { where, mark });
  return error;
}

/** The mark of the node that refused a value; undefined for other errors. */
export const markIn = (error: HeddleError): number | undefined => refusals.get(error)?.mark;

/** Turns an op's error into one of the function that the user called; `where` and `mark` are the node's, if known. */
export function refusedBy({ name, says }: Speaker, error: unknown, where?: string, mark?: number): unknown {
  if (!(error instanceof HeddleError) || error.fault === undefined || refusals.has(error)) return error;
  return refused({ ...error.fault, by: name }, { says, where, mark }, error);
}

/** The same error, in an iteration of a loop. */
export const inIteration = (count: number, error: unknown): unknown =>
  placed(error, ({ iterations = [] }) => ({ iterations: [count, ...iterations] }));

/** The same error, of one device among several. */
export const onDevice = (device: number, devices: number, error: unknown): unknown =>
  devices === 1 ? error : placed(error, () => ({ device, devices }));

function placed(error: unknown, more: (fault: Fault) => FaultPlace): unknown {
  const known = error instanceof HeddleError ? refusals.get(error) : undefined;
  const fault = error instanceof HeddleError ? error.fault : undefined;
  // What names no function is of a loop itself.
  return fault?.by === undefined || known === undefined ? error : refused({ ...fault, ...more(fault) }, known, error);
}

/** Runs the body of a function that users call; errors of the operations inside name the function. */
export function within<Result>(name: string, body: () => Result): Result {
  try {
    return speakingAs(speakerNow() ?? { name }, body);
  } catch (error) {
    throw toldBy(name, error);
  }
}

/** An index or a label that an op refused. */
export type OutsideIndex = Extract<Fault, { readonly kind: "index" | "label" }>;

/** Runs a part of a function whose ops get other indices than the function: `says` describes an index out of range in the function's terms. */
export function retold<Result>(name: string, says: (outside: OutsideIndex) => Fault, body: () => Result): Result {
  const retell = (fault: Fault): Fault => (fault.kind === "index" || fault.kind === "label" ? says(fault) : fault);
  return speakingAs({ ...(speakerNow() ?? { name }), says: retell }, body);
}

/** A fault with another sentence. */
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
