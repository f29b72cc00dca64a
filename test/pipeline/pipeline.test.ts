import { afterAll, describe, expect, it } from "vitest";
import { partOf } from "../support/sample.ts";
import { apart, closeAll, farthest, pipelined, whole } from "./compare.ts";
import { deep, type Network, perceptron, withDropout } from "./networks.ts";

process.env["HEDDLE_EXECUTOR"] = "reference";
afterAll(closeAll);

const networks: { readonly [name: string]: () => Network } = { perceptron: () => perceptron(), dropout: withDropout };

describe.each(Object.keys(networks))("a pipeline of a %s", (name) => {
  const network = (networks[name] as () => Network)();

  it.each([
    ["momentum", 0],
    ["adam", 1],
  ] as const)("trains as one device does, with %s", async (optimizer, at) => {
    const alone = await whole(network, optimizer, "f64", 20);
    for (const schedule of partOf(["gpipe", "1f1b", "zb-h1", "zb-h2"], 2, at)) {
      const staged = await pipelined(network, optimizer, "f64", 20, { schedule });
      expect(apart(alone.losses, staged.losses)).toBeLessThan(1e-9);
      expect(farthest(alone.params, staged.params)).toBeLessThan(1e-9);
    }
  });

  it("has the first gradients of one device in f32", async () => {
    const alone = await whole(network, "momentum", "f32", 1);
    const staged = await pipelined(network, "momentum", "f32", 1, { schedule: "1f1b" });
    expect(farthest(alone.gradients, staged.gradients)).toBeLessThan(1e-5);
  });

  it("gives the same bits by all schedules, since all accumulate in the order of the micro-batches", async () => {
    const one = await pipelined(network, "adam", "f32", 5, { schedule: "gpipe" });
    for (const schedule of ["1f1b", "zb-h1", "zb-h2"])
      expect(await pipelined(network, "adam", "f32", 5, { schedule })).toEqual(one);
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

describe("several stages on each rank", () => {
  it.each([
    ["interleaved", { stage: 2 }, 4],
    ["interleaved", { stage: 2 }, 2],
    ["interleaved", { stage: 2 }, 1],
    ["interleaved", { stage: 2, data: 2 }, 4],
    ["interleaved", { stage: 4 }, 4],
    ["interleaved", { stage: 1 }, 4],
    ["zb-h1", { stage: 4 }, 8],
    ["zb-h2", { stage: 4 }, 8],
  ] as const)("%s on %j with %i micro-batches trains as one device does", async (schedule, mesh, microBatches) => {
    const network = deep();
    const alone = await whole(network, "adam", "f64", 5);
    const staged = await pipelined(network, "adam", "f64", 5, { schedule, mesh, microBatches });
    expect(apart(alone.losses, staged.losses)).toBeLessThan(1e-9);
    expect(farthest(alone.params, staged.params)).toBeLessThan(1e-9);
  });

  it("has the bits of one stage per rank", async () => {
    const [one, other] = [
      await pipelined(deep(), "adam", "f32", 5, { schedule: "1f1b", mesh: { stage: 4 } }),
      await pipelined(deep(), "adam", "f32", 5, { schedule: "interleaved", mesh: { stage: 2 } }),
    ];
    expect(other).toEqual(one);
  });
});
