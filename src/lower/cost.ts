/** @module What a kernel call computes and moves, for profiles: counted from its shapes. */
import { dtypes } from "../ir/dtype.ts";
import { type Access, accessesOf, descriptionOf } from "../kernels/index.ts";
import type { LoweredStep } from "./json.ts";
import { nestedIn } from "./nest.ts";

/** Work of one call. */
export interface CallCost {
  /** Operations; a multiply-add counts as two, and so does no other. */
  readonly flops: number;
  /** Bytes read and written, each element once. */
  readonly bytes: number;
}

/** Elements that are touched, each once: dims of stride 0 repeat the same ones. */
const elements = (access: Access): number =>
  access.shape.reduce((count, dim, index) => count * (access.strides[index] === 0 ? 1 : dim), 1);

/** Operations and bytes of a call; of a loop or branch nothing, as what it holds has costs of its own. */
export function costOf(step: LoweredStep, axes: readonly number[] = []): CallCost {
  const { control, moves, flops } = descriptionOf(step);
  if (control !== undefined) return { flops: 0, bytes: 0 };
  const accesses = accessesOf(step, axes).filter(({ role }) => role !== "scratch");
  const bytesOf = (access: Access): number => elements(access) * dtypes[access.dtype].bytes;
  // Its source or target is touched only there.
  const moved = accesses.find(({ name }) => name === moves);
  if (moved !== undefined) return { flops: 0, bytes: 2 * bytesOf(moved) };
  const bytes = accesses.reduce((total, access) => total + bytesOf(access), 0);
  const most = (): number => accesses.reduce((count, access) => Math.max(count, elements(access)), 0);
  return { flops: flops?.(step as never) ?? most(), bytes };
}

/** A call and how deep it lies in loops and branches. */
export interface NumberedCall {
  readonly call: LoweredStep;
  readonly depth: number;
}

/** All calls in the order in which native code numbers them: a loop or branch, then what it holds. */
export function numberedCalls(steps: readonly LoweredStep[], depth = 0): NumberedCall[] {
  return steps.flatMap((call) => [
    { call, depth },
    ...nestedIn(call).flatMap((list) => numberedCalls(list, depth + 1)),
  ]);
}
