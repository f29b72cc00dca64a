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
    /\b((?:allReduce|allGather|reduceScatter|allToAll|broadcast|transfer|barrier)\b[^(]*\(sequence \d+[^)]*\))/.exec(
      message,
    )?.[1];
  const given = typeof code === "string" && code !== "GenericFailure" ? code : undefined;
  return new RunError(given ?? communicationCode(message) ?? "run", message, during, error);
}

/** What the launcher tells apart: a rank that failed by itself, and ranks that failed because of it. */
function communicationCode(message: string): string | undefined {
  if (/\brank \d+ closed its connection\b/.test(message)) return "peerClosed";
  if (/\brank \d+ aborted:/.test(message)) return "peerAborted";
  if (/\bthis rank aborted:/.test(message)) return "aborted";
  return /\btimed out after\b/.test(message) ? "timeout" : undefined;
}
