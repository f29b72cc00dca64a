/** @module The compile of a graph, on one page: passes, plan, program, executable. */
import { environmentMachine, type Machine } from "../cost/index.ts";
import type { Graph } from "../ir/node.ts";
import { formatType } from "../ir/shape.ts";
import { formatLayout, type Layout, type Plan, planGraph } from "../plan/index.ts";
import { deviceAt, type Mesh } from "../plan/mesh.ts";
import { type Program, splitGraph, verifyTogether } from "../program/index.ts";
import type { Executable } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { runPasses } from "./passes.ts";
import { onRuntime, type Value } from "./value.ts";

export interface CompileOptions {
  /** Layout of each input; undefined: replicated. */
  readonly inputs?: readonly (Layout | undefined)[];
  /** Layout that each input is used in, where that is another than it is kept in. */
  readonly uses?: readonly (Layout | undefined)[];
  readonly outputs?: readonly (Layout | undefined)[];
  readonly outputNames?: readonly string[];
  /** Inputs whose buffers outputs may take over. */
  readonly donate?: readonly number[];
  /** What the planner assumes of devices and links; default that of the runtime, or of `--machine`. */
  readonly machine?: Machine | undefined;
}

/** A graph that is planned and cut into a program, for a mesh that need not exist. */
export interface Planned {
  readonly graph: Graph;
  readonly plan: Plan;
  /** Of device 0. */
  readonly program: Program;
  /** Of each class of devices, in the plan's order. */
  readonly programs: readonly Program[];
}

/** Passes, plan and program of a graph on a mesh. Pure; needs no device. */
export function planProgram(graph: Graph, mesh: Mesh, options: CompileOptions = {}): Planned {
  const simplified = runPasses(graph).graph;
  const machine = options.machine ?? environmentMachine();
  const plan = planGraph(simplified, mesh, { ...options, machine });
  const programs = plan.classes.map(({ local }) =>
    splitGraph(local, mesh.axes, {
      name: graph.name,
      outputNames: plan.outputs.map((output) => output.name),
      donated: pairDonations(plan, options.donate ?? []),
    }),
  );
  verifyTogether(programs);
  return { graph: simplified, plan, program: programs[0] as Program, programs };
}

/** Each output takes over the first donated input of its type and layout that is still free. */
function pairDonations(plan: Plan, donate: readonly number[]): (number | undefined)[] {
  const free = new Set(donate);
  return plan.outputs.map(({ type, layout }) => {
    for (const index of free) {
      const input = plan.inputs[index];
      if (input === undefined || JSON.stringify([input.type, input.layout]) !== JSON.stringify([type, layout]))
        continue;
      free.delete(index);
      return index;
    }
    return undefined;
  });
}

/** A compiled graph on a runtime. */
export interface Compiled extends Planned {
  readonly executable: Executable;
  readonly runtime: Runtime;
}

/** Compiles a graph for the devices of a runtime. */
export function compileGraph(graph: Graph, runtime: Runtime, options: CompileOptions = {}): Compiled {
  const planned = planProgram(graph, meshOf(runtime), { ...options, machine: options.machine ?? runtime.machine });
  const { classes, mesh } = planned.plan;
  const own = runtime.local.map(({ coordinates }) => {
    const device = deviceAt(mesh, coordinates);
    return planned.programs[classes.findIndex(({ devices }) => devices.includes(device))] as Program;
  });
  return { ...planned, runtime, executable: runtime.executor.compile(classes.length === 1 ? planned.program : own) };
}

/**
 * Enqueues a run; outputs are values at once, their contents come later. `donors` are the inputs as their owner knows
 * them: those that an output takes over are marked as donated, until a run fails that has not yet changed them.
 */
export function runCompiled(
  compiled: Compiled,
  inputs: readonly Value[],
  donors: readonly { markDonated(): () => void }[] = [],
): Value[] {
  const { runtime, plan, executable } = compiled;
  const placed = inputs.map((value) => onRuntime(value, runtime));
  for (const value of placed) checkPresent(value);
  const launched = executable.run(
    runtime.local.map((_device, device) => placed.map((value) => value.shards[device] as Value["shards"][number])),
  );
  const donated = donors.length === 0 ? [] : compiled.program.donated;
  const restores = donated.flatMap((input) =>
    input === undefined || donors[input] === undefined ? [] : [donors[input].markDonated()],
  );
  // Who asks for `done` must handle its failure, so only who needs it does.
  if (restores.length > 0)
    launched.done.catch((error: unknown) => {
      if (launched.unchanged?.(error) === true) for (const restore of restores) restore();
    });
  return plan.outputs.map(({ type, layout }, output) => ({
    type,
    runtime,
    layout,
    shards: runtime.local.map((_device, device) => launched.outputs[device]?.[output] as Value["shards"][number]),
  }));
}

/** A value that is on one stage only has no part here: programs that know nothing of stages cannot read it. */
function checkPresent({ type, layout }: Value): void {
  if (!layout.some((placement) => placement.kind === "only")) return;
  throw new HeddleError(
    "layout",
    `${formatType(type)} is ${formatLayout(layout)}: it is on one stage of a pipeline only`,
    { hint: "call replicate(x) on every worker first" },
  );
}
