import { afterAll, describe, expect, it } from "vitest";
import { apart, closeAll, farthest, pipelined, whole } from "./compare.ts";
import { type Network, perceptron, withDropout } from "./networks.ts";

process.env["HEDDLE_EXECUTOR"] = "reference";
afterAll(closeAll);

const networks: { readonly [name: string]: () => Network } = { perceptron: () => perceptron(), dropout: withDropout };

describe.each(Object.keys(networks))("a pipeline of a %s", (name) => {
  const network = (networks[name] as () => Network)();

  it.each(["momentum", "adam"] as const)("trains as one device does, with %s", async (optimizer) => {
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
