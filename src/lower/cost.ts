/** @module What each kernel call computes, moves and sends. */
import type { Sending, Work } from "../cost/index.ts";
import { dtypes } from "../ir/dtype.ts";
import type { KernelCall } from "../ir/kernel.ts";
import { type Access, accessesOf, descriptionOf } from "../kernels/index.ts";
import { nestedIn } from "./nest.ts";

/** Field of a call with what the ops that it stands for compute or send; the text of a program does not have the field. */
export const workField = "work";

/** Work of one call. */
export interface CallCost extends Work {
  /** What a collective or a message sends. */
  readonly sends?: Sending;
}

/** The number of different elements of an access: dims of stride 0 repeat elements. */
const elements = (access: Access): number =>
  access.shape.reduce((count, dim, index) => count * (access.strides[index] === 0 ? 1 : dim), 1);

/**
 * What a call computes, as the ops that it was made of say, and the bytes of its operands, each element once; zero for a loop or
 * branch, whose nested calls have their own costs.
 */
export function callCost(call: KernelCall, axes: readonly number[] = []): CallCost {
  const { control, moves } = descriptionOf(call);
  if (control !== undefined) return { flops: 0, bytes: 0 };
  const work = call[workField] as Partial<CallCost> | undefined;
  const accesses = accessesOf(call, axes).filter(({ role }) => role !== "scratch");
  const bytesOf = (access: Access): number => elements(access) * dtypes[access.dtype].bytes;
  // A slice touches its source or target only where the moved elements are.
  const moved = accesses.find(({ name }) => name === moves);
  const bytes =
    moved === undefined ? accesses.reduce((total, access) => total + bytesOf(access), 0) : 2 * bytesOf(moved);
  return { flops: 0, bytes, ...work };
}

/** A call and its depth of nesting in loops and branches. */
export interface NumberedCall {
  readonly call: KernelCall;
  readonly depth: number;
}

/** All calls in the order in which native code numbers them: a loop or branch, then its nested calls. */
export const numberedCalls = (steps: readonly KernelCall[], depth = 0): NumberedCall[] =>
  steps.flatMap((call) => [{ call, depth }, ...nestedIn(call).flatMap((list) => numberedCalls(list, depth + 1))]);
