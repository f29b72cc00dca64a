/** @module What a training holds in memory on one device, part by part, before anything runs. */

import { type Column, defaultAhead } from "../data/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, sizeOf } from "../ir/shape.ts";
import { localType, type Plan, type PlannedValue } from "../plan/index.ts";
import type { Program } from "../program/index.ts";
import { mostInFlight } from "./flight.ts";
import { columnNames } from "./functions.ts";
import type { Settings } from "./options.ts";

/** Bytes on one device; `dataset` once per process, since the devices of a process share it. */
export interface TrainingMemory {
  readonly parameters: number;
  readonly optimizer: number;
  /** State of layers, such as running means. */
  readonly state: number;
  /** The device's rows of all batches that are there at once. */
  readonly batches: number;
  /** How many batches those are: under way, handed over, and read ahead. */
  readonly batchCount: number;
  /** Key, step and learning rate; loss and metrics. */
  readonly scalars: number;
  /** Intermediate values of a step; undefined when they are not known before the run. */
  readonly step: number | undefined;
  /** The columns of training and evaluation data from which batches are gathered; 0 where the host gathers them. */
  readonly dataset: number;
  /** The same columns as they were read, in the memory of JavaScript. */
  readonly host: number;
}

/** Predicts the memory of a training step's program. */
export function trainingMemory(
  settings: Settings,
  plan: Plan,
  program: Program,
  arenaBytes: number | undefined,
): TrainingMemory {
  const under = (prefix: string): number =>
    plan.inputs
      .filter(({ name }) => name.startsWith(prefix))
      .reduce((total, value) => total + localBytes(value, plan), 0);
  const [parameters, optimizer, state, batch] = ["params.", "optimizer.", "state.", "batch."].map(under) as [
    number,
    number,
    number,
    number,
  ];
  const inputs = plan.inputs.reduce((total, value) => total + localBytes(value, plan), 0);
  const results = program.outputs.reduce(
    (total, { type }, index) => (program.donated[index] === undefined ? total + bytesOf(type) : total),
    0,
  );
  const batchCount = Math.min(mostInFlight + 1 + defaultAhead, settings.data.batchesPerEpoch);
  const columns = columnBytes(settings);
  return {
    parameters,
    optimizer,
    state,
    batches: batch * batchCount,
    batchCount,
    scalars: inputs - parameters - optimizer - state - batch + results,
    step: arenaBytes,
    dataset: arenaBytes === undefined ? 0 : columns,
    host: columns,
  };
}

/** Bytes of a value's part on one device. */
export const localBytes = ({ type, layout }: PlannedValue, plan: Plan): number =>
  bytesOf(localType(type, layout, plan.mesh));

/** All on one device but the dataset. */
export const deviceBytes = ({ parameters, optimizer, state, batches, scalars, step = 0 }: TrainingMemory): number =>
  parameters + optimizer + state + batches + scalars + step;

/** The columns that a run reads, each once: training and evaluation may share them. */
function columnBytes(settings: Settings): number {
  const columns = new Set<Column>();
  for (const dataset of [settings.data, settings.evaluate]) {
    for (const name of columnNames(settings)) {
      const column = dataset?.columns.get(name);
      if (column !== undefined) columns.add(column);
    }
  }
  return [...columns].reduce((total, { shape, dtype }) => total + sizeOf(shape) * dtypes[dtype].bytes, 0);
}
