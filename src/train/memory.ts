/** @module What a training holds in memory on one device, part by part, before anything runs. */

import type { PlannedPrograms } from "../compile/index.ts";
import { holdsPart } from "../compile/value.ts";
import { environmentMachine } from "../cost/index.ts";
import { type Column, type Dataset, defaultAhead } from "../data/browser.ts";
import { allocatedBytes } from "../executors/native/allocation.ts";
import { bytesOf } from "../ir/shape.ts";
import { lowerProgram } from "../lower/index.ts";
import { coordinatesOf, localType, type Mesh, type Plan } from "../plan/index.ts";
import type { DeviceProgram, Program } from "../program/index.ts";
import type { TrainingMemory } from "../report/memory.ts";
import { DataBudget, type KeptColumn } from "./data-budget.ts";
import { columnNames } from "./functions.ts";
import type { Settings } from "./options.ts";
import { planEvaluation, planInitialiser, planStep, stepKinds } from "./programs.ts";
import { mostInFlight } from "./steps-in-flight.ts";
import type { ModelTypes } from "./values.ts";

/** What one device holds of a program's inputs and makes new as outputs. */
interface DeviceShare {
  readonly inputs: readonly { readonly name: string; readonly bytes: number }[];
  /** Bytes of each output that takes over no input's memory. */
  readonly results: readonly number[];
}

/** The programs of a training: the first step and evaluation are those of whole batches. */
export interface TrainingPrograms {
  readonly initialiser: PlannedPrograms;
  readonly steps: readonly PlannedPrograms[];
  readonly evaluations: readonly PlannedPrograms[];
}

/** Bytes of the arena of a program's devices; undefined where they are not known. */
type WorkBytes = (planned: PlannedPrograms, own: readonly DeviceProgram[]) => number | undefined;

/** The share of the devices that run a program. Every rank of a pipeline holds whole batches, also columns that its stages do not read. */
function shareOf({ mesh, inputs }: Plan, { devices, program }: DeviceProgram): DeviceShare {
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

/** The memory of a training on one device. `workBytes` is the arena of the program that needs most. */
function onDevice(
  settings: Settings,
  step: DeviceShare,
  evaluation: DeviceShare | undefined,
  workBytes: number | undefined,
): TrainingMemory {
  const named = (pattern: RegExp): Bytes =>
    total(step.inputs.filter(({ name }) => pattern.test(name)).map(({ bytes }) => bytes));
  const [parameters, optimizer, state] = [named(/^params\./), named(/^optimizer\./), named(/^state\./)];
  // What a run is given anew, beside its batch.
  const once = named(/^(?!params\.|optimizer\.|state\.|batch\.|step$|learningRate$|end\.)/);
  const phases = [phase(step, settings.data, named(/^(step$|learningRate$|end\.)/))];
  if (evaluation !== undefined && settings.evaluate !== undefined)
    phases.push(phase(evaluation, settings.evaluate, total([])));
  const most = phases.reduce((largest, other) => (other.all.taken > largest.all.taken ? other : largest));
  const arena = workBytes === undefined || workBytes === 0 ? total([]) : total([workBytes]);
  const all = [parameters, optimizer, state, once, most.all, arena];
  const known = workBytes !== undefined;
  const columns = columnBytes(settings);
  return {
    parameters: parameters.asked,
    optimizer: optimizer.asked,
    state: state.asked,
    batches: most.batches.asked,
    batchCount: most.batchCount,
    scalars: once.asked + most.all.asked - most.batches.asked,
    step: workBytes,
    rounding: known ? all.reduce((sum, { asked, taken }) => sum + taken - asked, 0) : 0,
    dataset: known ? columns.copies.taken : 0,
    host: columns.values.asked,
  };
}

/**
 * Predicts the memory of a training from all programs that it runs: of the device that holds most, or, of a pipeline, of each rank
 * of the axis of stages. `heddle plan` and the beginning of a run say what it gives.
 */
export function trainingMemory(settings: Settings, programs: TrainingPrograms, workBytes: WorkBytes): TrainingMemory[] {
  const { initialiser, steps, evaluations } = programs;
  const { pipeline } = settings;
  const [step, evaluation] = [steps[0] as PlannedPrograms, evaluations[0]];
  return (pipeline === undefined ? [step.program] : step.programs).map((_one, rank) => {
    const device = step.programs[rank]?.devices[0] as number;
    const own = ({ programs }: PlannedPrograms): readonly DeviceProgram[] =>
      pipeline === undefined ? programs : programs.filter(({ devices }) => devices.includes(device));
    const share = (planned: PlannedPrograms) => shareOf(planned.plan, own(planned)[0] as DeviceProgram);
    const work = [initialiser, ...steps, ...evaluations].map((planned) => workBytes(planned, own(planned)));
    const known = work.filter((bytes) => bytes !== undefined);
    return onDevice(
      settings,
      share(step),
      evaluation && share(evaluation),
      known.length < work.length ? undefined : Math.max(...known),
    );
  });
}

/** The same of a training that is planned for a mesh that need not exist, with native kernels. */
export function predictedMemory(settings: Settings, types: ModelTypes, mesh: Mesh, threads: number): TrainingMemory[] {
  const { evaluate } = settings;
  const target = { slots: threads, machine: settings.machine ?? environmentMachine() };
  const programs = {
    initialiser: planInitialiser(settings, types, mesh),
    steps: stepKinds(settings).map((kind) => planStep(settings, types, mesh, kind)),
    evaluations: (evaluate?.batchForms ?? []).map((form) =>
      planEvaluation(settings, evaluate as NonNullable<typeof evaluate>, types, mesh, form),
    ),
  };
  return trainingMemory(settings, programs, (_planned, own) =>
    Math.max(...own.map(({ program }) => lowerProgram(program, target).workBytes)),
  );
}

/** Bytes that are asked for, and that the allocator takes for them. */
interface Bytes {
  readonly asked: number;
  readonly taken: number;
}

const total = (sizes: readonly number[]): Bytes => ({
  asked: sizes.reduce((sum, bytes) => sum + bytes, 0),
  taken: sizes.reduce((sum, bytes) => sum + allocatedBytes(bytes), 0),
});

const times = ({ asked, taken }: Bytes, count: number): Bytes => ({ asked: asked * count, taken: taken * count });

/** The batches and small values that are there at once while runs of a program follow each other. */
function phase({ inputs, results }: DeviceShare, dataset: Dataset, given: Bytes) {
  const runs = Math.min(mostInFlight, dataset.batchesPerEpoch);
  const batchCount = Math.min(mostInFlight + 1 + defaultAhead, dataset.batchesPerEpoch);
  const batch = total(inputs.filter(({ name }) => name.startsWith("batch.")).map(({ bytes }) => bytes));
  const [batches, scalars, made] = [times(batch, batchCount), times(given, runs), times(total(results), runs)];
  const sum = (of: (bytes: Bytes) => number): number => of(batches) + of(scalars) + of(made);
  return { batchCount, batches, all: { asked: sum(({ asked }) => asked), taken: sum(({ taken }) => taken) } };
}

/** Bytes of the columns that a run reads and keeps, and of their copies: training and evaluation may share columns. */
function columnBytes(settings: Settings): { readonly values: Bytes; readonly copies: Bytes } {
  const columns = new Set<Column>();
  for (const dataset of [settings.data, settings.evaluate]) {
    if (dataset === undefined) continue;
    for (const name of columnNames(settings, dataset)) columns.add(dataset.columns.get(name) as Column);
  }
  const budget = new DataBudget(settings.dataMemory);
  const kept = [...columns].map((column) => ({ bytes: bytesOf(column), ...budget.take(column, true) }));
  const sum = (is: (column: KeptColumn) => boolean): Bytes => total(kept.filter(is).map(({ bytes }) => bytes));
  return { values: sum((column) => column.kept), copies: sum(({ copied }) => copied) };
}
