import { mesh } from "heddle";
import { executorNames, localRuntime, memory, registerExecutor } from "heddle/runtime";
import { expect, test } from "vitest";
import { referenceExecutor } from "../../src/runtime/reference.ts";
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

test("what cannot be used says why, and a name that nobody has comes with the list", () => {
  expect(executorNames().slice(0, 3)).toEqual(["native", "reference", "remote"]);
  expect(() => localRuntime({ executor: "refrence" })).toThrow(
    /no executor 'refrence'.*did you mean reference\? there are native/s,
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
