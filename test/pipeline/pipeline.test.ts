import { afterAll, describe, expect, it } from "vitest";
import { lowerProgram } from "../../src/lower/index.ts";
import { printPipeline, printProgram, parseProgram, type Program, verifyProgram } from "../../src/program/index.ts";
import { loadNative } from "../../src/runtime/native/binding.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { shard, shardedOn, mesh as makeMesh, replicated } from "../../src/plan/index.ts";
import { distribute, meshOf, type Tensor } from "../../src/tensor/index.ts";
import {
  compiled,
  type Network,
  optimizers,
  perceptron,
  type PipelineChoice,
  type Precision,
  rows,
  single,
  train,
  type Trained,
  withDropout,
} from "./networks.ts";

process.env["HEDDLE_EXECUTOR"] = "reference";
const runtimes: Runtime[] = [];
afterAll(() => {
  for (const runtime of runtimes) runtime.close();
});

const networks: { readonly [name: string]: () => Network } = { perceptron: () => perceptron(), dropout: withDropout };

/** The largest difference relative to the largest value. */
function apart(one: ArrayLike<number>, other: ArrayLike<number>): number {
  let difference = 0;
  let size = Number.MIN_VALUE;
  expect(other.length).toBe(one.length);
  for (let index = 0; index < one.length; index++) {
    difference = Math.max(difference, Math.abs((one[index] as number) - (other[index] as number)));
    size = Math.max(size, Math.abs(one[index] as number));
  }
  return difference / size;
}

const farthest = (one: Trained["params"], other: Trained["params"]): number =>
  Math.max(...Object.keys(one).map((name) => apart(one[name] as ArrayLike<number>, other[name] as ArrayLike<number>)));

async function pipelined(
  network: Network,
  optimizer: string,
  dtype: Precision,
  steps: number,
  choice: PipelineChoice,
): Promise<Trained> {
  const made = optimizers()[optimizer] as ReturnType<typeof optimizers>[string];
  const { runtime, pipeline } = compiled(network, made, dtype, choice);
  runtimes.push(runtime);
  const split = shardedOn(meshOf(runtime), choice.mesh?.["data"] === undefined ? {} : { data: 0 });
  // What is given to a mesh from one device's runtime is replicated; a batch that is split is put there.
  const put = async (x: Tensor, isBatch: boolean): Promise<Tensor> =>
    distribute(runtime, await x.data(), x, isBatch ? split : replicated(meshOf(runtime)));
  return train(pipeline.run, network, made, dtype, steps, put);
}

async function whole(network: Network, optimizer: string, dtype: Precision, steps: number): Promise<Trained> {
  const made = optimizers()[optimizer] as ReturnType<typeof optimizers>[string];
  const { runtime, step } = single(network, made, dtype, "reference");
  runtimes.push(runtime);
  return train(step.run, network, made, dtype, steps);
}

describe.each(Object.keys(networks))("a pipeline of a %s", (name) => {
  const network = (networks[name] as () => Network)();

  it.each(["momentum", "adam"])("trains as one device does, with %s", async (optimizer) => {
    const alone = await whole(network, optimizer, "f64", 50);
    for (const schedule of ["gpipe", "1f1b"] as const) {
      const staged = await pipelined(network, optimizer, "f64", 50, { schedule });
      expect(apart(alone.losses, staged.losses)).toBeLessThan(1e-9);
      expect(farthest(alone.params, staged.params)).toBeLessThan(1e-9);
    }
  });

  it("has the first gradients of one device in f32", async () => {
    const alone = await whole(network, "momentum", "f32", 1);
    const staged = await pipelined(network, "momentum", "f32", 1, { schedule: "1f1b" });
    expect(farthest(alone.gradients, staged.gradients)).toBeLessThan(1e-5);
  });

  it("gives the same bits by both schedules, since both accumulate in the order of the micro-batches", async () => {
    const [one, other] = [
      await pipelined(network, "adam", "f32", 5, { schedule: "gpipe" }),
      await pipelined(network, "adam", "f32", 5, { schedule: "1f1b" }),
    ];
    expect(other).toEqual(one);
  });

  it("goes together with data parallelism", async () => {
    const alone = await whole(network, "momentum", "f64", 10);
    for (const mesh of [
      { stage: 2, data: 2 },
      { data: 2, stage: 2 },
    ]) {
      const both = await pipelined(network, "momentum", "f64", 10, { schedule: "1f1b", mesh });
      expect(apart(alone.losses, both.losses)).toBeLessThan(1e-9);
      expect(farthest(alone.params, both.params)).toBeLessThan(1e-9);
    }
  });
});

const native = "error" in loadNative() ? describe.skip : describe;
native("on the native executor", () => {
  it.each(["gpipe", "1f1b"] as const)("trains as on the reference executor, by %s", async (schedule) => {
    process.env["HEDDLE_EXECUTOR"] = "native";
    for (const mesh of [{ stage: 2 }, { stage: 2, data: 2 }]) {
      const alone = await whole(withDropout(), "momentum", "f64", 20);
      const staged = await pipelined(withDropout(), "momentum", "f64", 20, { schedule, mesh, executor: "native" });
      expect(apart(alone.losses, staged.losses)).toBeLessThan(1e-9);
      expect(farthest(alone.params, staged.params)).toBeLessThan(1e-9);
    }
  });
});
