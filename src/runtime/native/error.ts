/** @module Errors of the native core as HeddleErrors. */
import { HeddleError } from "../../util/errors.ts";

/** An error of a run; `during` names the collective that was under way, where one was. */
export class RunError extends HeddleError {
  readonly during: string | undefined;

  constructor(code: string, message: string, during: string | undefined, cause: unknown) {
    super(code, message, { cause });
    this.name = "RunError";
    this.during = during;
  }
}

/** Wraps what native code threw; a HeddleError stays as it is. */
export function nativeError(error: unknown): HeddleError {
  if (error instanceof HeddleError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const code = (error as { code?: unknown }).code;
  // Communication errors say "… in allReduce sum f32 x 10 'gradients 0' (sequence 12, …)".
  const during =
    /\b((?:allReduce|allGather|reduceScatter|allToAll|broadcast|barrier)\b[^(]*\(sequence \d+[^)]*\))/.exec(
      message,
    )?.[1];
  return new RunError(typeof code === "string" && code !== "GenericFailure" ? code : "run", message, during, error);
}
