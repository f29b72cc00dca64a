import { describe, expect, test } from "vitest";
import { nullExecutor } from "../../src/executors/index.ts";
import { coordinatesOf, deviceCount, mesh, planGraph, shardedOn } from "../../src/plan/index.ts";
import { splitGraph } from "../../src/program/index.ts";
import { mlpStep } from "../plan/networks.ts";

describe("the null executor", () => {
  test("counts a data-parallel step on 64 devices that do not exist", async () => {
    const axes = mesh({ data: 64 });
    const split = shardedOn(axes, { data: 0 });
    const plan = planGraph(mlpStep(128), axes, { inputs: [split, split] });
    const devices = Array.from({ length: deviceCount(axes) }, (_unused, index) => ({
      coordinates: coordinatesOf(axes, index),
    }));
    const executor = nullExecutor({ axes: axes.axes, devices });
    const run = executor
      .compile(splitGraph(plan.local, axes.axes))
      .run(devices.map(() => plan.inputs.map(() => executor.allocate(0))));
    await run.done;
    const parameters = 8 * 6 + 8 + 4 * 8 + 4;
    // Gradients and the loss in f64, the number correct in i32, around a ring of 64.
    const payload = (parameters + 1) * 8 + 4;
    expect(executor.counts.bytesSent).toBeCloseTo(64 * payload * ((2 * 63) / 64), 6);
    expect(executor.counts.collectives).toBe(2);
    expect(executor.counts.operations).toBeGreaterThan(0);
    await expect(run.outputs[0]?.[0]?.read()).rejects.toThrow("the null executor computes nothing");
  });
});
