/** @module The memory of a training on one device, part by part, as reports tell it. */
import { bytesOf } from "../ir/shape.ts";
import { localType, type Plan, type PlannedValue } from "../plan/index.ts";

/** Bytes on one device; `dataset` once per process, since the devices of a process share it. */
export interface TrainingMemory {
  readonly parameters: number;
  readonly optimizer: number;
  /** State of layers, such as running means. */
  readonly state: number;
  /** The device's rows of all batches that are there at once. */
  readonly batches: number;
  /** The number of these batches: under way, handed over, and read ahead. */
  readonly batchCount: number;
  /** The random key, and the step, learning rate, loss and metrics of every run under way. */
  readonly scalars: number;
  /** The arena: intermediate values of a run, of the program that needs most; undefined when not known before the run. */
  readonly step: number | undefined;
  /** What the allocator takes beyond the sizes above. */
  readonly rounding: number;
  /** The columns of training and evaluation data from which batches are gathered; 0 where the host gathers them. */
  readonly dataset: number;
  /** The same columns as they were read, in the memory of JavaScript. */
  readonly host: number;
}

/** Bytes of a value's part on one device. */
export const localBytes = ({ type, layout }: PlannedValue, plan: Plan): number =>
  bytesOf(localType(type, layout, plan.mesh));

/** The bytes on one device without the dataset. */
export const deviceBytes = (memory: TrainingMemory): number => {
  const { parameters, optimizer, state, batches, scalars, rounding, step = 0 } = memory;
  return parameters + optimizer + state + batches + scalars + rounding + step;
};
