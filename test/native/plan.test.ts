import { describe, expect, test } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { nativeExecutor } from "../../src/executors/native/executor.ts";
import type { Graph, HostTensor } from "../../src/ir/index.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { type Layout, mesh, type Plan, planGraph, shardedOn } from "../../src/plan/index.ts";
import { powerIteration, recurrentStates, recurrentStep } from "../plan/loops.ts";
import { mlpForward, mlpStep, samples } from "../plan/networks.ts";
import { runPlan } from "../plan/run.ts";
import { difference } from "../support/tensors.ts";
import { missing } from "./evaluate.ts";

const onNative =
  (threads: number) =>
  (plan: Plan, inputs: readonly HostTensor[]): Promise<HostTensor[]> =>
    runPlan(plan, inputs, (options) => nativeExecutor({ ...options, threads, world: undefined }));

const cases: readonly {
  what: string;
  graph: Graph;
  sizes: Record<string, number>;
  dims: readonly (Record<string, number> | undefined)[];
}[] = [
  { what: "data parallel", graph: mlpStep(), sizes: { data: 2 }, dims: [{ data: 0 }, { data: 0 }] },
  { what: "data parallel on four", graph: mlpStep(), sizes: { data: 4 }, dims: [{ data: 0 }, { data: 0 }] },
  {
    what: "columns then rows",
    graph: mlpForward(),
    sizes: { model: 2 },
    dims: [undefined, { model: 1 }, { model: 0 }],
  },
  {
    what: "data times model",
    graph: mlpForward(),
    sizes: { data: 2, model: 2 },
    dims: [{ data: 0 }, { model: 1 }, { model: 0 }],
  },
  {
    what: "split parameters",
    graph: mlpStep(64),
    sizes: { data: 2 },
    dims: [{ data: 0 }, { data: 0 }, undefined, { data: 0 }, { data: 0 }, { data: 0 }, { data: 0 }],
  },
  { what: "a loop over a sequence", graph: recurrentStep(), sizes: { data: 2 }, dims: [{ data: 1 }, { data: 0 }] },
  {
    what: "a loop that communicates in every iteration",
    graph: recurrentStates(),
    sizes: { data: 2, model: 2 },
    dims: [{ data: 1 }, undefined, undefined, { model: 0 }],
  },
  { what: "a loop with a condition, and a branch", graph: powerIteration(), sizes: { data: 2 }, dims: [{ data: 0 }] },
];

describe.skipIf(missing !== undefined)("virtual devices on the native executor", () => {
  test.each(cases)(
    "$what: the answer of one device, the same bits with any number of threads",
    async ({ graph, sizes, dims }) => {
      const axes = mesh(sizes);
      const inputs = dims.map((split): Layout | undefined =>
        split === undefined ? undefined : shardedOn(axes, split),
      );
      const plan = planGraph(runPasses(graph), axes, { inputs });
      const values = samples(graph);
      const expected = evaluateGraph(graph, values);
      const one = await onNative(1)(plan, values);
      const three = await onNative(3)(plan, values);
      one.forEach((output, index) => {
        expect(difference(output.data, (expected[index] as HostTensor).data, 1e-12)).toBeUndefined();
        expect(difference((three[index] as HostTensor).data, output.data, 0)).toBeUndefined();
      });
    },
  );
});
