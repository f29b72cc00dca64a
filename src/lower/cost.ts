/** @module The operations and bytes of a kernel call, for profiles, counted from its shapes. */
import { dtypes } from "../ir/dtype.ts";
import { type Access, accessesOf, descriptionOf } from "../kernels/index.ts";
import type { LoweredStep } from "./json.ts";
import { nestedIn } from "./nest.ts";

/** Work of one call. */
export interface CallCost {
  /** Operations; a multiply-add counts as two, every other operation as one. */
  readonly flops: number;
  /** Bytes read and written, each element once. */
  readonly bytes: number;
}

/** The number of different elements of an access: dims of stride 0 repeat elements. */
const elements = (access: Access): number =>
  access.shape.reduce((count, dim, index) => count * (access.strides[index] === 0 ? 1 : dim), 1);

/** Operations and bytes of a call; zero for a loop or branch, whose nested calls have their own costs. */
export function costOf(step: LoweredStep, axes: readonly number[] = []): CallCost {
  const { control, moves, flops } = descriptionOf(step);
  if (control !== undefined) return { flops: 0, bytes: 0 };
  const accesses = accessesOf(step, axes).filter(({ role }) => role !== "scratch");
  const bytesOf = (access: Access): number => elements(access) * dtypes[access.dtype].bytes;
  // A slice touches its source or target only where the moved elements are.
  const moved = accesses.find(({ name }) => name === moves);
  if (moved !== undefined) return { flops: 0, bytes: 2 * bytesOf(moved) };
  const bytes = accesses.reduce((total, access) => total + bytesOf(access), 0);
  const largest = (): number => accesses.reduce((count, access) => Math.max(count, elements(access)), 0);
  return { flops: flops?.(step as never) ?? largest(), bytes };
}

/** A call and its depth of nesting in loops and branches. */
export interface NumberedCall {
  readonly call: LoweredStep;
  readonly depth: number;
}

/** All calls in the order in which native code numbers them: a loop or branch, then its nested calls. */
export function numberedCalls(steps: readonly LoweredStep[], depth = 0): NumberedCall[] {
  return steps.flatMap((call) => [
    { call, depth },
    ...nestedIn(call).flatMap((list) => numberedCalls(list, depth + 1)),
  ]);
}
