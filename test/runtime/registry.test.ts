import { mesh } from "heddle";
import { compileGraph } from "heddle/compile";
import { type Graph, type Node, traceGraph } from "heddle/ir";
import { neg } from "heddle/ops";
import { type Executor, executorNames, localRuntime, memory, registerExecutor } from "heddle/runtime";
import { expect, test } from "vitest";
import { referenceExecutor } from "../../src/executors/reference.ts";
import type { ExecutorPasses } from "../../src/passes/pass.ts";
import { chooseExecutor, joinRuntime } from "../../src/runtime/registry.ts";

const plugin = {
  name: "ofThisTest",
  unavailable: (): string | undefined => undefined,
  make: referenceExecutor,
  memory: () => ({ liveBuffers: 1, liveBytes: 1e12, peakBytes: 1e12 }),
};

test("an executor is chosen by its name, and never where nobody asks for it", () => {
  const before = chooseExecutor().name;
  registerExecutor(plugin);
  expect(chooseExecutor().name).toBe(before);
  const runtime = localRuntime({ executor: "ofThisTest", axes: mesh({ data: 2 }).axes });
  expect(runtime.executor.devices).toBe(2);
  expect(memory().liveBytes).toBeGreaterThan(1e12 - 1);
  expect(() => registerExecutor(plugin)).toThrow("there is an executor 'ofThisTest' already");
  expect(() => registerExecutor({ ...plugin, name: "auto" })).toThrow("there is an executor 'auto' already");
});

test.each([undefined, {}, { ...plugin, name: "" }, { ...plugin, name: "half", make: 1 }])(
  "%o is no executor",
  (odd) => {
    expect(() => registerExecutor(odd as never)).toThrow("registerExecutor: takes { name, unavailable, make }, got ");
  },
);

test("an executor adds passes of its own to those of every graph", () => {
  const graph = traceGraph("f", [{ name: "x", type: { dtype: "f32", shape: [2] } }], (x) => [neg(x as Node)]);
  const namesOf = (passes: ExecutorPasses | undefined): string[] => {
    const names: string[] = [];
    const runtime = localRuntime({ executor: "reference" });
    const executor = { ...runtime.executor, passes } as Executor;
    compileGraph(graph, { ...runtime, executor }, { onPass: ({ name }) => names.push(name) });
    return names;
  };
  const mine = { name: "mine", why: "of this test", run: (given: Graph) => given };
  expect(namesOf(undefined)).toEqual(["open", "prune", "expand", "simplify", "residuals", "gathers", "buckets"]);
  expect(namesOf({ beforePlanning: [mine], afterPlanning: [mine] })).toEqual([
    ...["open", "prune", "expand", "simplify", "residuals", "mine"],
    ...["gathers", "buckets", "mine"],
  ]);
  const own = localRuntime({ executor: "reference" }).executor.passes;
  expect(namesOf(own).filter((name) => !namesOf(undefined).includes(name))).toEqual(["channelsLast", "touchedRows"]);
});

test("what cannot be used says why, and a name that nobody has comes with the list", () => {
  // The remote executor has no devices here.
  expect(executorNames().slice(0, 2)).toEqual(["native", "reference"]);
  expect(executorNames()).not.toContain("remote");
  expect(localRuntime({ executor: "auto" }).executor.name).toBe(localRuntime().executor.name);
  expect(() => localRuntime({ executor: "refrence" })).toThrow(
    /no executor 'refrence'.*did you mean reference\? there are native, reference, .*auto;/s,
  );
  expect(() => localRuntime({ executor: "remote" })).toThrow(
    /remote executor cannot be used: its devices are in waiting/,
  );
});

test("the processes of a run are those of an executor that has some", () => {
  expect(joinRuntime(mesh({ data: 1 }), 0)).toBeUndefined();
  const variables = { HEDDLE_EXECUTOR: "reference", WORLD_SIZE: "2" };
  Object.assign(process.env, variables);
  try {
    expect(() => joinRuntime(mesh({ data: 2 }), 0)).toThrow("the reference executor runs in one process only");
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
  }
});
