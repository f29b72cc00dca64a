/** @module What a kernel call computes and moves, for profiles: counted from its shapes. */
import { dtypes } from "../ir/dtype.ts";
import type { LoweredStep } from "./json.ts";
import { type Access, accessesOf } from "./kernels.ts";
import { nestedIn } from "./nest.ts";

/** Work of one call. */
export interface CallCost {
  /** Operations; a multiply-add counts as two, and so does no other. */
  readonly flops: number;
  /** Bytes read and written, each element once. */
  readonly bytes: number;
}

const size = (step: LoweredStep, fields: string): number =>
  fields.split(" ").reduce((product, field) => product * (step[field] as number), 1);

/** Kernels that move parts of what they are given: their source or target is touched only there. */
const movers: ReadonlySet<string> = new Set(["gather", "dynamicSlice", "dynamicUpdateSlice"]);

/** Elements that are touched, each once: dims of stride 0 repeat the same ones. */
const elements = (access: Access): number =>
  access.shape.reduce((count, dim, index) => count * (access.strides[index] === 0 ? 1 : dim), 1);

/** Operations and bytes of a call; of a loop or branch nothing, as what it holds has costs of its own. */
export function costOf(step: LoweredStep, axes: readonly number[] = []): CallCost {
  if (nestedIn(step).length > 0) return { flops: 0, bytes: 0 };
  const accesses = accessesOf(step, axes).filter(({ role }) => role !== "scratch");
  const bytesOf = (access: Access): number => elements(access) * dtypes[access.dtype].bytes;
  const total = accesses.reduce((bytes, access) => bytes + bytesOf(access), 0);
  if (!movers.has(step.k)) return { flops: flopsOf(step, accesses), bytes: total };
  const moved = accesses.find(({ name }) => name === (step.k === "dynamicUpdateSlice" ? "update" : "out")) as Access;
  return { flops: 0, bytes: 2 * bytesOf(moved) };
}

function flopsOf(step: LoweredStep, accesses: readonly Access[]): number {
  switch (step.k) {
    case "dot":
      return 2 * size(step, "b m k2 n");
    case "conv":
    case "convFilter":
    case "convGroups":
    case "convGroupsFilter":
      return 2 * size(step, "n g od oh ow o kd kh kw c");
    case "fused":
    case "fusedRows":
    case "fusedColumns": {
      const computing = (step["ops"] as readonly (readonly unknown[])[]).filter(
        ([name]) => name !== "const" && name !== "cast",
      );
      return computing.length * (step["shape"] as readonly number[]).reduce((product, dim) => product * dim, 1);
    }
    case "collective":
    case "axisIndex":
    case "wait":
      return 0;
    default:
      return accesses.reduce((most, access) => Math.max(most, elements(access)), 0);
  }
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
