/** @module Predicts the memory of a training on one device, part by part, before anything runs. */

import type { PlannedPrograms } from "../compile/index.ts";
import { holdsPart } from "../compile/value.ts";
import { type Column, type Dataset, defaultAhead } from "../data/browser.ts";
import { allocatedBytes } from "../executors/native/allocation.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, sizeOf } from "../ir/shape.ts";
import { lowerProgram } from "../lower/index.ts";
import { coordinatesOf, localType, type Mesh, type Plan } from "../plan/index.ts";
import type { DeviceProgram, Program } from "../program/index.ts";
import type { TrainingMemory } from "../report/memory.ts";
import { mostInFlight } from "./flight.ts";
import { columnNames } from "./functions.ts";
import type { Settings } from "./options.ts";
import { planEvaluation, planInitialiser, planStep } from "./programs.ts";
import type { ModelTypes } from "./values.ts";

/** The inputs of a program that one device holds, and the outputs for which it needs new memory. */
export interface DeviceShare {
  readonly inputs: readonly { readonly name: string; readonly bytes: number }[];
  /** Bytes of each output that does not reuse the memory of an input. */
  readonly results: readonly number[];
}

/** The memory that the programs of a training need on one device. */
export interface DeviceNeeds {
  readonly step: DeviceShare;
  /** Undefined without the option `evaluate`. */
  readonly evaluation: DeviceShare | undefined;
  /** Largest arena of the programs; undefined if it is not known. */
  readonly workBytes: number | undefined;
}

/**
 * The memory of each device that runs a program. Every rank of a pipeline holds all columns of a batch, even if its stages do not read
 * them.
 */
export function shareOf({ mesh, inputs }: Plan, { devices, program }: DeviceProgram): DeviceShare {
  const coordinates = coordinatesOf(mesh, devices[0] as number);
  return {
    inputs: inputs
      .filter(({ layout }) => holdsPart(layout, coordinates))
      .map(({ name, type, layout }) => ({ name, bytes: bytesOf(localType(type, layout, mesh)) })),
    results: freshResults(program.outputs, program.donated),
  };
}

const freshResults = (outputs: Program["outputs"], donated: Program["donated"]): number[] =>
  outputs.flatMap(({ type }, index) => (donated[index] === undefined ? [bytesOf(type)] : []));

/** The memory of a training on one device, from its programs. */
export function trainingMemory(settings: Settings, { step, evaluation, workBytes }: DeviceNeeds): TrainingMemory {
  const named = (pattern: RegExp): Bytes =>
    total(step.inputs.filter(({ name }) => pattern.test(name)).map(({ bytes }) => bytes));
  const [parameters, optimizer, state] = [named(/^params\./), named(/^optimizer\./), named(/^state\./)];
  // The inputs of a run besides state and batch.
  const once = named(/^(?!params\.|optimizer\.|state\.|batch\.|step$|learningRate$|end\.)/);
  const phases = [phase(step, settings.data, named(/^(step$|learningRate$|end\.)/))];
  if (evaluation !== undefined && settings.evaluate !== undefined)
    phases.push(phase(evaluation, settings.evaluate, total([])));
  const most = phases.reduce((largest, other) => (other.all.taken > largest.all.taken ? other : largest));
  const arena = workBytes === undefined || workBytes === 0 ? total([]) : total([workBytes]);
  const all = [parameters, optimizer, state, once, most.all, arena];
  const isNative = workBytes !== undefined;
  const columns = total(columnBytes(settings));
  return {
    parameters: parameters.asked,
    optimizer: optimizer.asked,
    state: state.asked,
    batches: most.batches.asked,
    batchCount: most.batchCount,
    scalars: once.asked + most.all.asked - most.batches.asked,
    step: workBytes,
    rounding: isNative ? all.reduce((sum, { asked, taken }) => sum + taken - asked, 0) : 0,
    dataset: isNative ? columns.taken : 0,
    host: columns.asked,
  };
}

/**
 * Predicts the memory of a training with native kernels: of the device that needs most, or, for a pipeline, of each rank of the stage axis.
 *
 * @param threads threads of a device, on which the scratch memory of some kernels depends
 */
export function predictedMemory(settings: Settings, types: ModelTypes, mesh: Mesh, threads: number): TrainingMemory[] {
  const { data, evaluate, pipeline } = settings;
  const work = (programs: readonly DeviceProgram[]): number =>
    Math.max(...programs.map(({ program }) => lowerProgram(program, { slots: threads }).workBytes));
  const steps = data.batchSizes.map((rows) => planStep(settings, types, mesh, rows));
  const evaluations = (evaluate?.batchSizes ?? []).map((rows) =>
    planEvaluation(settings, evaluate as NonNullable<typeof evaluate>, types, mesh, rows),
  );
  const all = [planInitialiser(settings, types, mesh), ...steps, ...evaluations];
  const [step, evaluation] = [steps[0] as PlannedPrograms, evaluations[0]];
  return (pipeline === undefined ? [step.program] : step.programs).map((_program, rank) => {
    const device = step.programs[rank]?.devices[0] as number;
    const onDevice = ({ programs }: PlannedPrograms): readonly DeviceProgram[] =>
      pipeline === undefined ? programs : programs.filter(({ devices }) => devices.includes(device));
    const share = (planned: PlannedPrograms) => shareOf(planned.plan, onDevice(planned)[0] as DeviceProgram);
    return trainingMemory(settings, {
      step: share(step),
      evaluation: evaluation === undefined ? undefined : share(evaluation),
      workBytes: work(all.flatMap(onDevice)),
    });
  });
}

/** Requested bytes, and the bytes that the allocator takes for them. */
interface Bytes {
  readonly asked: number;
  readonly taken: number;
}

const total = (sizes: readonly number[]): Bytes => ({
  asked: sizes.reduce((sum, bytes) => sum + bytes, 0),
  taken: sizes.reduce((sum, bytes) => sum + allocatedBytes(bytes), 0),
});

const times = ({ asked, taken }: Bytes, count: number): Bytes => ({ asked: asked * count, taken: taken * count });

/** The batches and small values that exist at the same time while runs of a program follow each other. */
function phase({ inputs, results }: DeviceShare, dataset: Dataset, inputsPerRun: Bytes) {
  const runs = Math.min(mostInFlight, dataset.batchesPerEpoch);
  const batchCount = Math.min(mostInFlight + 1 + defaultAhead, dataset.batchesPerEpoch);
  const batch = total(inputs.filter(({ name }) => name.startsWith("batch.")).map(({ bytes }) => bytes));
  const [batches, scalars, outputs] = [
    times(batch, batchCount),
    times(inputsPerRun, runs),
    times(total(results), runs),
  ];
  const sum = (of: (bytes: Bytes) => number): number => of(batches) + of(scalars) + of(outputs);
  return { batchCount, batches, all: { asked: sum(({ asked }) => asked), taken: sum(({ taken }) => taken) } };
}

/** Bytes of each column that a run reads; a column that training and evaluation share counts once. */
function columnBytes(settings: Settings): number[] {
  const columns = new Set<Column>();
  for (const dataset of [settings.data, settings.evaluate]) {
    if (dataset === undefined) continue;
    for (const name of columnNames(settings, dataset)) columns.add(dataset.columns.get(name) as Column);
  }
  return [...columns].map(({ shape, dtype }) => sizeOf(shape) * dtypes[dtype].bytes);
}
