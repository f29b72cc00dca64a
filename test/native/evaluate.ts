/** Evaluates graphs on the native executor, on one device. */

import { runPasses } from "../../src/compile/index.ts";
import { loadNative } from "../../src/executors/native/binding.ts";
import { nativeExecutor } from "../../src/executors/native/executor.ts";
import type { Graph, HostTensor } from "../../src/ir/index.ts";
import { mesh, type Plan, planGraph } from "../../src/plan/index.ts";
import type { DeviceBuffer, Executor } from "../../src/runtime/executor.ts";
import { runPlan } from "../plan/run.ts";
import { withOpenLoops } from "../support/loops.ts";
import type { Evaluate } from "../support/row.ts";

const native = loadNative();

/** Why the native core is missing, if it is. */
export const missing: string | undefined = "error" in native ? native.error : undefined;

const general = ["scalar", "avx2", "avx512"];

/** Instruction sets that this processor has, best first. Of those that differ in products of narrow numbers alone, only the best. */
export function instructionSets(): string[] {
  if ("error" in native) return [];
  const { features } = native.info();
  const best = features.at(-1) as string;
  return [
    best,
    ...general.filter((isa) => features.includes(isa) && isa !== best && (isa !== "avx512" || best === isa)).reverse(),
  ];
}

/** The instruction sets of this processor that {@link instructionSets} leaves out. */
export const narrowSets = (): string[] =>
  "error" in native ? [] : native.info().features.filter((isa) => !instructionSets().includes(isa));

// Several instruction sets run the same graphs, and what is planned does not depend on them.
const plans = { plain: new WeakMap<Graph, Plan>(), compiled: new WeakMap<Graph, Plan>() };

function planned(graph: Graph, passes: boolean): Plan {
  const known = plans[passes ? "compiled" : "plain"];
  let plan = known.get(graph);
  if (plan === undefined) {
    plan = planGraph(passes ? runPasses(graph) : withOpenLoops(graph), mesh({}));
    known.set(graph, plan);
  }
  return plan;
}

/**
 * An evaluator that keeps one device. `passes`: simplify and arrange the graph first, as compiling does; inputs then are parts
 * of larger buffers, so that no kernel counts on more alignment than an element's.
 */
export function nativeEvaluate(
  isa: string,
  threads: number,
  passes: boolean,
): { evaluate: Evaluate; close: () => void } {
  let executor: Executor | undefined;
  const make = (): Executor => {
    executor ??= nativeExecutor({ axes: [], devices: [{ coordinates: [] }], threads, isa, world: undefined });
    const { allocate } = executor;
    const part = (bytes: number): DeviceBuffer => (allocate(bytes + 8) as Required<DeviceBuffer>).part(8, bytes);
    return { ...executor, ...(passes ? { allocate: part } : {}), close: () => undefined };
  };
  return {
    evaluate: (graph: Graph, inputs: readonly HostTensor[]) => runPlan(planned(graph, passes), inputs, make),
    close: () => executor?.close(),
  };
}
