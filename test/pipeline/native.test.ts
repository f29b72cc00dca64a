import { afterAll, describe, expect, it } from "vitest";
import { checkLowered, lowerProgram } from "../../src/lower/index.ts";
import { loadNative } from "../../src/runtime/native/binding.ts";
import { apart, closeAll, farthest, pipelined, whole } from "./compare.ts";
import { compiled, convolutional, type Network, optimizers, perceptron, withDropout } from "./networks.ts";

process.env["HEDDLE_EXECUTOR"] = "native";
afterAll(closeAll);

const networks: { readonly [name: string]: () => Network } = {
  perceptron: () => perceptron(),
  dropout: withDropout,
  convnet: convolutional,
};

describe.skipIf("error" in loadNative())("on the native executor, a pipeline", () => {
  it.each(Object.keys(networks))("of a %s trains as one device does", async (name) => {
    const network = (networks[name] as () => Network)();
    const alone = await whole(network, "momentum", "f64", 50, "native");
    for (const schedule of ["gpipe", "1f1b"] as const)
      for (const mesh of [{ stage: 2 }, { stage: 2, data: 2 }]) {
        const staged = await pipelined(network, "momentum", "f64", 50, { schedule, mesh, executor: "native" });
        expect(apart(alone.losses, staged.losses)).toBeLessThan(1e-9);
        expect(farthest(alone.params, staged.params)).toBeLessThan(1e-9);
      }
  });

  it.each(Object.keys(networks))("of a %s has the first gradients of one device in f32", async (name) => {
    const network = (networks[name] as () => Network)();
    const alone = await whole(network, "momentum", "f32", 1, "native");
    const staged = await pipelined(network, "momentum", "f32", 1, { schedule: "1f1b", executor: "native" });
    expect(farthest(alone.gradients, staged.gradients)).toBeLessThan(1e-5);
  });

  it("gives the same bits by both schedules", async () => {
    const by = (schedule: "gpipe" | "1f1b") =>
      pipelined(convolutional(), "adam", "f32", 5, { schedule, executor: "native" });
    expect(await by("1f1b")).toEqual(await by("gpipe"));
  });

  it("needs less memory by 1f1b than by gpipe", () => {
    const arena = (schedule: "gpipe" | "1f1b", rank: number): number => {
      const { runtime, pipeline } = compiled(convolutional(), optimizers()["momentum"] as never, "f32", {
        schedule,
        microBatches: 8,
      });
      runtime.close();
      const lowered = lowerProgram((pipeline.plan.ranks[rank] as (typeof pipeline.plan.ranks)[number]).program, {
        slots: 1,
      });
      checkLowered(lowered, [2]);
      return lowered.arenaBytes;
    };
    for (const rank of [0, 1]) expect(arena("1f1b", rank)).toBeLessThan(arena("gpipe", rank) / 2);
  });
});
