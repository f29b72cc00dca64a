/** @module All kernels, by name. */
import type { KernelCall } from "../ir/kernel.ts";
import { HeddleError } from "../util/errors.ts";
import type { Access } from "./access.ts";
import { attention, attentionGrad } from "./attention.ts";
import { axisIndex, collective, receive, send, wait } from "./collective.ts";
import { branch, end, loop } from "./control.ts";
import { conv, convFilter, convGroups, convGroupsFilter } from "./conv.ts";
import { dot } from "./dot.ts";
import { factor } from "./factor.ts";
import { fft } from "./fft.ts";
import { fused, fusedColumns, fusedRows } from "./fused.ts";
import { dynamicSlice, dynamicUpdateSlice, gather, scatter, scatterAdd } from "./lookup.ts";
import { randomBits } from "./random.ts";
import { argMax, reduce } from "./reduce.ts";
import type { Kernel } from "./schema.ts";
import { softmaxCrossEntropy, softmaxCrossEntropyGrad } from "./softmax.ts";
import { sort, topK } from "./sort.ts";
import { reduceWindow, selectAndScatter, windowTake } from "./window.ts";

export { type Access, coveredBytes } from "./access.ts";
export { aligned, alignment } from "./room.ts";
export type { Kernel, Values } from "./schema.ts";
export {
  argMax,
  attention,
  attentionGrad,
  axisIndex,
  branch,
  collective,
  conv,
  convFilter,
  convGroups,
  convGroupsFilter,
  dot,
  dynamicSlice,
  dynamicUpdateSlice,
  end,
  factor,
  fft,
  fused,
  fusedColumns,
  fusedRows,
  gather,
  loop,
  randomBits,
  receive,
  reduce,
  reduceWindow,
  scatter,
  scatterAdd,
  selectAndScatter,
  send,
  softmaxCrossEntropy,
  softmaxCrossEntropyGrad,
  sort,
  topK,
  wait,
  windowTake,
};

const all: readonly Kernel[] = [
  ...[fused, fusedRows, fusedColumns, reduce, argMax, dot],
  ...[conv, convFilter, convGroups, convGroupsFilter],
  ...[reduceWindow, selectAndScatter, windowTake],
  ...[gather, scatterAdd, scatter, dynamicSlice, dynamicUpdateSlice],
  ...[randomBits, sort, topK, fft, factor],
  ...[softmaxCrossEntropy, softmaxCrossEntropyGrad, attention, attentionGrad],
  ...[axisIndex, collective, send, receive, wait, loop, branch],
];

/** Kernels by name. */
export const kernels: ReadonlyMap<string, Kernel> = new Map(all.map((one) => [one.name, one]));

/** Kernels whose calls only stand in rows of calls. */
const marks: ReadonlyMap<string, Kernel> = new Map([[end.name, end]]);

/** The kernel of a call. @throws HeddleError `lower` when there is none of that name. */
export function kernelOf({ k }: KernelCall): Kernel {
  const found = kernels.get(k) ?? marks.get(k);
  if (found === undefined) throw new HeddleError("lower", `there is no kernel '${k}'`);
  return found;
}

/** Everything that a call touches. `axes` are the sizes of the mesh axes. */
export const accessesOf = (call: KernelCall, axes: readonly number[] = []): readonly Access[] =>
  kernelOf(call).accesses(call, axes);
