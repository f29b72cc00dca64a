/** @module The compile of a graph, on one page: passes, plan, programs, executable; and how a compiled graph runs. */
import { environmentMachine } from "../cost/index.ts";
import type { Graph } from "../ir/node.ts";
import { formatType, sameType } from "../ir/shape.ts";
import {
  type DeviceClass,
  formatLayout,
  noBuckets,
  type PipelineOptions,
  type Placement,
  type Plan,
  type PlannedValue,
  planGraph,
  planPipeline,
  sameLayout,
  verifyPlan,
} from "../plan/index.ts";
import { samePlacement } from "../plan/layout.ts";
import { deviceAt, type Mesh } from "../plan/mesh.ts";
import { cutPlan, type DeviceProgram, type Program } from "../program/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer, Executable } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { checkAxisNames } from "./checks.ts";
import { checkMeshOf, checkPlanOf, withLayouts } from "./given.ts";
import type { CompileOptions } from "./options.ts";
import { passesFor, runPasses } from "./passes.ts";
import { nothing, onRuntime, type Value } from "./value.ts";

/** A plan and its programs, for a mesh that need not exist. */
export interface PlannedPrograms {
  readonly plan: Plan;
  /** The program of device 0. */
  readonly program: Program;
  /** The program of each class of devices, or of each rank of a pipeline's stages. */
  readonly programs: readonly DeviceProgram[];
}

/** A graph that is planned and cut into programs. */
export interface Planned extends PlannedPrograms {
  /** The graph after the passes before planning. */
  readonly graph: Graph;
}

/**
 * Passes, plan and programs of a graph on a mesh. Pure; needs no device.
 *
 * @throws HeddleError `plan` for a given plan of another graph or mesh
 */
export function planProgram(graph: Graph, mesh: Mesh, options: CompileOptions = {}): Planned {
  const { onPass, plan: givenPlan } = options;
  const { before, after } = passesFor(options.executor);
  const simplified = runPasses(graph, before, { onPass });
  if (givenPlan !== undefined) checkPlanOf(givenPlan, simplified, mesh, options.outputNames);
  const { pipeline, donate, ...planOptions } =
    givenPlan === undefined ? options : withLayouts(options, givenPlan, simplified);
  const buckets = pipeline === undefined ? undefined : noBuckets;
  const finish = (local: Graph): Graph => runPasses(local, after, { onPass, buckets });
  const machine = options.machine ?? environmentMachine();
  checkAxisNames("machine: links has", Object.keys(machine?.links ?? {}), mesh);
  const settings = { ...planOptions, machine, finish };
  const makePlan = (): Plan =>
    pipeline === undefined ? planGraph(simplified, mesh, settings) : planPipeline(simplified, mesh, pipeline, settings);
  const plan = givenPlan !== undefined && "classes" in givenPlan ? verified(givenPlan) : makePlan();
  return { graph: simplified, ...withPrograms(plan, donate, pipeline?.updates) };
}

function verified(plan: Plan): Plan {
  try {
    verifyPlan(plan);
  } catch (error) {
    if (!(error instanceof HeddleError)) throw error;
    throw new HeddleError(error.code, error.plain, {
      hint: "leave the graphs out of the plan's text to plan by its layouts again",
      cause: error,
    });
  }
  return plan;
}

/** The programs of a plan. */
function withPrograms(
  plan: Plan,
  donate: readonly number[] = [],
  updates?: PipelineOptions["updates"],
): PlannedPrograms {
  const programs = cutPlan(plan, pairDonations(plan, donate, updates));
  return { plan, programs, program: (programs[0] as DeviceProgram).program };
}

/**
 * Each output takes over the donated input that it updates, else the first free donated input of its type and layout.
 */
function pairDonations(plan: Plan, donate: readonly number[], updates: PipelineOptions["updates"] = []) {
  const free = new Set(donate);
  return plan.outputs.map((output, outputIndex): number | undefined => {
    const updated = updates[outputIndex];
    for (const index of updated === undefined ? free : [updated]) {
      const input = plan.inputs[index] as PlannedValue;
      if (!free.has(index) || !sameType(input.type, output.type) || !sameLayout(input.layout, output.layout)) continue;
      free.delete(index);
      return index;
    }
    return undefined;
  });
}

/** A compiled graph on a runtime. */
export interface Compiled extends PlannedPrograms {
  readonly executable: Executable;
  readonly runtime: Runtime;
  /** What each local device runs. */
  readonly local: readonly DeviceProgram[];
  /** The inputs that some device's outputs take over, the same on every worker. */
  readonly donated: readonly number[];
}

/** Compiles a graph for the devices of a runtime. */
export function compileGraph(graph: Graph, runtime: Runtime, options: CompileOptions = {}): Compiled & Planned {
  const planned = planProgram(graph, meshOf(runtime), {
    ...options,
    machine: options.machine ?? runtime.machine,
    executor: runtime.executor,
  });
  return { ...planned, ...loadPlanned(planned, runtime) };
}

/**
 * Makes a plan ready on a runtime, without the function that it was made of: one that is read back from its text, or made
 * by hand.
 *
 * @param donate indices of inputs whose memory outputs may take over; default: none
 * @throws HeddleError `verify` where layouts and graphs do not fit each other; `plan` for another mesh than the runtime's
 */
export function loadPlan(plan: Plan, runtime: Runtime, donate: readonly number[] = []): Compiled {
  checkMeshOf(plan, meshOf(runtime));
  return loadPlanned(withPrograms(verified(plan), donate), runtime);
}

/** Makes the programs of a runtime's own devices ready. */
export function loadPlanned({ plan, programs, program }: PlannedPrograms, runtime: Runtime): Compiled {
  const local = runtime.local.map(({ coordinates }): DeviceProgram => {
    const device = deviceAt(plan.mesh, coordinates);
    return programs.find(({ devices }) => devices.includes(device)) as DeviceProgram;
  });
  const graphs =
    plan.pipeline === undefined && plan.classes.length > 0
      ? local.map(({ devices }) => graphOf(plan, devices))
      : undefined;
  const localPrograms = programs.length === 1 ? program : local.map((part) => part.program);
  const executable = runtime.executor.compile(localPrograms, graphs);
  return { plan, programs, program, runtime, local, donated: donatedInputs(programs), executable };
}

const graphOf = ({ classes }: Plan, [device]: readonly number[]): Graph =>
  (classes.find(({ devices }) => devices.includes(device as number)) as DeviceClass).local;

function donatedInputs(programs: readonly DeviceProgram[]): number[] {
  const inputIndices = programs.flatMap(({ program, inputs }) =>
    program.donated.flatMap((donor) => (donor === undefined ? [] : [inputs[donor] as number])),
  );
  return [...new Set(inputIndices)];
}

/** The owner of a value's memory, which records donations. */
export interface Donor {
  /** Records that a run takes over the memory; the function that it returns undoes the record. */
  markDonated(): () => void;
}

/**
 * Enqueues a run; outputs are values immediately, their contents come later. `donors` are the owners of the inputs: inputs that an
 * output takes over are marked as donated, unless a run fails before it changes them.
 *
 * @throws HeddleError `donation` if memory is both donated and used by another input; `layout` for a value that is on other devices
 */
export function runCompiled(compiled: Compiled, inputs: readonly Value[], donors: readonly Donor[] = []): Value[] {
  const { runtime, plan, executable, local } = compiled;
  const donated = donors.length === 0 ? [] : compiled.donated;
  const placed = inputs.map((value, index) => placedAs(onRuntime(value, runtime), plan.inputs[index] as PlannedValue));
  if (donated.length > 0) checkDonations(plan, donated, placed);
  const launched = executable.run(
    local.map((program, device) => program.inputs.map((index) => placed[index]?.shards[device] as DeviceBuffer)),
  );
  const restores = donated.flatMap((index) => donors[index]?.markDonated() ?? []);
  // Reading `done` obliges to handle its failure, so it is read only if needed.
  if (restores.length > 0)
    launched.done.catch((error: unknown) => {
      if (launched.unchanged?.(error) === true) for (const restore of restores) restore();
    });
  return plan.outputs.map(({ type, layout }, output) => {
    const shardOf = ({ outputs }: DeviceProgram, device: number): DeviceBuffer => {
      const index = outputs[output] === output ? output : outputs.indexOf(output);
      return launched.outputs[device]?.[index] ?? nothing;
    };
    return { type, runtime, layout, shards: local.map(shardOf) };
  });
}

/** Refuses memory that is both donated and used by another input, which might see the new contents. */
function checkDonations(plan: Plan, donated: readonly number[], values: readonly Value[]): void {
  const users = new Map<DeviceBuffer, number>();
  values.forEach(({ shards }, index) => {
    for (const shard of shards) {
      const other = shard === nothing ? undefined : users.get(shard);
      users.set(shard, index);
      if (other === undefined || other === index) continue;
      const donor = [other, index].find((input) => donated.includes(input));
      if (donor === undefined) continue;
      const [left, right] = [donor, donor === index ? other : index].map((input) => `'${plan.inputs[input]?.name}'`);
      throw new HeddleError(
        "donation",
        `${plan.name}: argument ${left} is donated, and argument ${right} is the same tensor`,
        { hint: "pass a copy, such as x.add(0), or do not donate it" },
      );
    }
  });
}

/** The value, if it lies as planned; a replicated value is also on its stage. @throws HeddleError `layout` */
function placedAs(value: Value, { name, layout }: PlannedValue): Value {
  const { type, layout: has } = value;
  const isElsewhere = (placement: Placement, axis: number): boolean => {
    const wanted = layout[axis] as Placement;
    return !samePlacement(placement, wanted) && (wanted.kind !== "only" || placement.kind !== "replicate");
  };
  if (!has.some(isElsewhere)) return value;
  throw new HeddleError(
    "layout",
    `'${name}' ${formatType(type)} is ${formatLayout(has)}, and was compiled as ${formatLayout(layout)}`,
    {
      hint: "pass what the step returned, or place the value first by replicate(x), or distribute(runtime, values, type, layout)",
    },
  );
}
