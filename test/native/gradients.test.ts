import { describe, expect, test } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { nativeExecutor } from "../../src/executors/native/executor.ts";
import { dtypes, type HostTensor, inputSpecs, sizeOf } from "../../src/ir/index.ts";
import { mesh, planGraph, shardedOn } from "../../src/plan/index.ts";
import { runPlan } from "../plan/run.ts";
import { leNetGradient } from "../support/lenet.ts";
import { randomFrom } from "../support/tensors.ts";
import { missing } from "./evaluate.ts";

const sizes = { batch: 128, side: 28, channels: [32, 64], kernel: 5, classes: 10, dtype: "f32" } as const;

describe.skipIf(missing !== undefined)("the first step's gradients in f32", () => {
  test("two devices agree with one to 1e-5 of each tensor's norm", async () => {
    const graph = runPasses(leNetGradient(sizes));
    const random = randomFrom(5);
    const inputs = inputSpecs(graph).map(({ name, type }): HostTensor => {
      const fan = Math.sqrt(sizeOf(type.shape.slice(1)));
      const value = (): number =>
        name === "labels" ? Math.floor(random() * 10) : name === "x" ? random() : (2 * random() - 1) / fan;
      return { ...type, data: dtypes[type.dtype].create(Array.from({ length: sizeOf(type.shape) }, value)) };
    });
    const gradientsOn = (devices: number): Promise<HostTensor[]> => {
      const axes = mesh({ data: devices });
      const split = shardedOn(axes, { data: 0 });
      return runPlan(planGraph(graph, axes, { inputs: [split, split] }), inputs, (options) =>
        nativeExecutor({ ...options, threads: 1, world: undefined }),
      );
    };
    const [one, two] = [await gradientsOn(1), await gradientsOn(2)];
    one.forEach((whole, index) => {
      let [difference, norm] = [0, 0];
      whole.data.forEach((value, i) => {
        difference += (value - ((two[index] as HostTensor).data[i] as number)) ** 2;
        norm += value ** 2;
      });
      expect(Math.sqrt(difference / norm), `output ${index}`).toBeLessThan(1e-5);
    });
  }, 60_000);
});
