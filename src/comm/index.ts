/**
 * @module Collectives between the devices of a mesh: each process passes a tensor of its own and gets one, and nothing is planned for it.
 * Inside a function of `perDevice` they are parts of its program.
 */
import { zeros } from "../functions/index.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import { checkTensor, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { type CommOptions, scopeFor } from "./call.ts";
import { allReduce } from "./reductions.ts";
import { runtimeFor } from "./runtime.ts";
import { axisOf, scopeNow } from "./scope.ts";

export * as schedules from "../schedules/index.ts";
export type { CommOptions } from "./call.ts";
export {
  type AllToAllOptions,
  allGather,
  allToAll,
  broadcast,
  gather,
  type Pairs,
  type PartsOptions,
  type PermuteOptions,
  permute,
  type RootOptions,
  scatter,
} from "./moves.ts";
export { type PerDeviceOptions, perDevice } from "./per-device.ts";
export { allReduce, type ReduceOptions, type Reduction, reduce, reduceScatter } from "./reductions.ts";
export { connect } from "./runtime.ts";
export type { ScheduleOptions } from "./scheduled.ts";
export type { AxisOptions } from "./scope.ts";

/** Waits until every device of the axis has called it. Not for functions of `perDevice`, in which the values decide the order. */
export async function barrier(options: CommOptions = {}): Promise<void> {
  checkOptions("comm.barrier", options, ["axis", "runtime"]);
  if (scopeNow() !== undefined)
    throw new HeddleError(
      "trace",
      "comm.barrier: a function of comm.perDevice waits where it uses a collective's result",
    );
  await work(allReduce(zeros([1]), options)).wait();
}

/** This process's device: its coordinate on the axis. In a function of `perDevice`, that of the device that the trace is for. */
export function rank(options: CommOptions = {}): number {
  checkOptions("comm.rank", options, ["axis", "runtime"]);
  const scope = scopeFor("comm.rank", options);
  if (scope !== undefined) return scope.coordinate(axisOf("comm.rank", scope.mesh, options.axis));
  const runtime = runtimeFor("comm.rank", options.runtime, []);
  const axis = axisOf("comm.rank", meshOf(runtime), options.axis);
  if (runtime.local.length === 1) return runtime.local[0]?.coordinates[runtime.axes.indexOf(axis)] as number;
  throw new HeddleError("mesh", `comm.rank: this process has ${runtime.local.length} devices`, {
    hint: "call it in a function of comm.perDevice",
  });
}

/** The number of devices on the axis. */
export function size(options: CommOptions = {}): number {
  checkOptions("comm.size", options, ["axis", "runtime"]);
  const mesh = scopeFor("comm.size", options)?.mesh ?? meshOf(runtimeFor("comm.size", options.runtime, []));
  return axisOf("comm.size", mesh, options.axis).size;
}

/** A collective under way. */
export interface Work {
  /** Its result, which can be used in further calls at once. */
  readonly result: Tensor;
  /** Whether the result is there: reading it would wait for nothing. */
  readonly done: boolean;
  /** Resolves to the result when it is there; rejects with the error of the collective. */
  wait(): Promise<Tensor>;
}

/** Waits for a buffer's run: one byte of the contents shows whether it has ended well. */
async function settled(shard: DeviceBuffer): Promise<void> {
  const part = shard.part?.(0, Math.min(1, shard.bytes));
  try {
    await (part ?? shard).read();
  } finally {
    // The memory lives as long as its parts.
    part?.dispose();
  }
}

/**
 * The handle of a collective that was called. Every collective is asynchronous: the call returns at once, and the result is a tensor whose
 * elements come later.
 *
 * @example const sum = comm.work(comm.allReduce(x)); other(); await sum.wait();
 */
export function work(result: Tensor): Work {
  checkTensor("comm.work", result);
  const shards = (): readonly DeviceBuffer[] => result.value.shards;
  return {
    result,
    get done() {
      return shards().every(({ ready }) => ready);
    },
    async wait() {
      await Promise.all(shards().map(settled));
      return result;
    },
  };
}
