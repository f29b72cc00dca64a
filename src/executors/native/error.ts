/** @module Errors of the native core as HeddleErrors. */
import { HeddleError } from "../../util/errors.ts";
import { codeOf, type Fault, parseFault, sentenceOf } from "../../util/faults.ts";

/** An error of a run, with the known details. */
export class RunError extends HeddleError {
  /** The record of the error. */
  declare readonly fault: Fault;

  constructor(fault: Fault, cause?: unknown) {
    super(codeOf(fault), sentenceOf(fault), { cause, fault });
    this.name = "RunError";
  }

  /** The unfinished collective, such as `allReduce sum f32 x 10 'gradients 0' (sequence 12, message 0)`. */
  get during(): string | undefined {
    return "during" in this.fault ? this.fault.during : undefined;
  }

  /** The rank that closed its connection or aborted. */
  get rank(): number | undefined {
    return "rank" in this.fault ? this.fault.rank : undefined;
  }

  /** Number of the program's step that failed. */
  get step(): number | undefined {
    return this.fault.step;
  }
}

/** Wraps an error of native code; a HeddleError stays unchanged. An error without a record comes from a malformed call. */
export function nativeError(error: unknown): HeddleError {
  if (error instanceof HeddleError) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new RunError(parseFault(text) ?? { kind: "run", text }, error);
}

/** The result of a native call. @throws HeddleError */
export function byNative<Result>(call: () => Result): Result {
  try {
    return call();
  } catch (error) {
    throw nativeError(error);
  }
}

/** For the `catch` of a native promise. */
export const rethrowNative = (error: unknown): never => {
  throw nativeError(error);
};
