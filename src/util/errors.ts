/** @module The one error type of Heddle: a stable code, a message that names the cause, a hint what to do. */

/** What can be attached to a {@link HeddleError}. */
export interface HeddleErrorOptions {
  /** What the user can do about it, one sentence. */
  readonly hint?: string;
  readonly cause?: unknown;
  /** Where in the user's code the failing value was made, as `file:line:column`. */
  readonly where?: string;
}

/**
 * An error a user can act on.
 *
 * `code` is stable and lower-case (`"shape"`, `"dtype"`, `"layout"`, `"file"`, …); `message` names the op, shapes,
 * dtypes and values concerned.
 */
export class HeddleError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  readonly where: string | undefined;
  /** The message without source line and hint. */
  readonly plain: string;

  constructor(code: string, message: string, options: HeddleErrorOptions = {}) {
    const where = options.where === undefined ? "" : `\n  at ${options.where}`;
    const hint = options.hint === undefined ? "" : `\n  hint: ${options.hint}`;
    super(message + where + hint, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "HeddleError";
    this.code = code;
    this.hint = options.hint;
    this.where = options.where;
    this.plain = message;
  }

  /** The same error with the user's source line, as `file:line:column`. */
  at(where: string): HeddleError {
    return new HeddleError(this.code, this.plain, {
      where,
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      cause: this,
    });
  }
}

/** Throws for a broken invariant of Heddle itself, never for a user's mistake. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new HeddleError("internal", `internal error: ${message}`, { hint: "please report this" });
}
