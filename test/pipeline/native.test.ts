import { afterAll, describe, expect, it } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { random, type Tensor, tensor } from "../../src/functions/index.ts";
import { checkLowered, type LoweredProgram, lowerProgram } from "../../src/lower/index.ts";
import type { DeviceProgram } from "../../src/program/index.ts";
import { partOf } from "../support/sample.ts";
import { apart, closeAll, farthest, pipelined, whole } from "./compare.ts";
import {
  batch,
  compiled,
  convolutional,
  deep,
  type Network,
  optimizers,
  perceptron,
  type State,
  start,
  withDropout,
} from "./networks.ts";

process.env["HEDDLE_EXECUTOR"] = "native";
afterAll(closeAll);

const networks: { readonly [name: string]: () => Network } = {
  perceptron: () => perceptron(),
  dropout: withDropout,
  convnet: convolutional,
};

describe.skipIf("error" in loadNative())("on the native executor, a pipeline", () => {
  const ways = (["gpipe", "1f1b"] as const).flatMap((schedule) =>
    [{ stage: 2 }, { stage: 2, data: 2 }].map((mesh) => ({ schedule, mesh })),
  );
  // Each network by both schedules, on two devices or on four.
  it.each(Object.keys(networks).map((name, at) => [name, at] as const))(
    "of a %s trains as one device does",
    async (name, at) => {
      const network = (networks[name] as () => Network)();
      const alone = await whole(network, "momentum", "f64", 20, "native");
      for (const way of partOf(ways, 2, at)) {
        const staged = await pipelined(network, "momentum", "f64", 20, { ...way, executor: "native" });
        expect(apart(alone.losses, staged.losses)).toBeLessThan(1e-9);
        expect(farthest(alone.params, staged.params)).toBeLessThan(1e-9);
      }
    },
  );

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

  it.each(["1f1b", "zb-h1", "interleaved"])(
    "by %s gives the same bits with all messages beside computing, and with none",
    async (schedule) => {
      const by = async (overlap: string) => {
        process.env["HEDDLE_OVERLAP"] = overlap;
        try {
          const mesh = { stage: schedule === "interleaved" ? 2 : 4 };
          return await pipelined(deep(), "adam", "f32", 5, { schedule, mesh, executor: "native" });
        } finally {
          delete process.env["HEDDLE_OVERLAP"];
        }
      };
      expect(await by("all")).toEqual(await by("off"));
    },
  );

  it("starts messages where their values are there, and waits at their first use", () => {
    const { runtime, pipeline } = compiled(convolutional(), optimizers()["momentum"] as never, "f32", {
      schedule: "1f1b",
    });
    runtime.close();
    const [first, second] = pipeline.programs.map(({ program }) => lowerProgram(program, { slots: 1, overlap: "all" }));
    // Without what all stages sum at the end of a step.
    const isStarted = ({ k, handle, label }: LoweredProgram["json"]["steps"][number]): boolean =>
      handle !== undefined && k !== "wait" && !String(label).startsWith("update");
    const started = ({ json }: LoweredProgram): Set<string> =>
      new Set(json.steps.flatMap((call) => (isStarted(call) ? [call.k] : [])));
    for (const lowered of [first, second] as LoweredProgram[]) checkLowered(lowered, [2]);
    // Rank 0 needs each gradient at once; rank 1 can go on with a backward pass before the next activations come.
    expect(started(first as LoweredProgram)).toEqual(new Set(["send"]));
    expect(started(second as LoweredProgram)).toEqual(new Set(["send", "receive"]));
    // Rank 0 sends the first activations while it computes the second ones.
    const calls = (first as LoweredProgram).json.steps.map(({ k, label }) => `${k} ${label ?? ""}`);
    const [sent, ended] = [calls.indexOf("send 0F0"), calls.findIndex((call) => call.startsWith("wait"))];
    expect(calls.slice(sent + 1, ended).filter((call) => !/^(send|receive|wait)/.test(call)).length).toBeGreaterThan(0);
  });

  it("leaves what was donated as it was where a micro-batch fails before the update", async () => {
    const network = perceptron();
    const optimizer = optimizers()["momentum"] as never;
    const { runtime, pipeline } = compiled(network, optimizer, "f32", { schedule: "1f1b", executor: "native" });
    const { x, y } = batch(0, network, "f32");
    const wrong = tensor(
      [...(await y.data())].map((label, row) => (row === 15 ? 99 : Number(label))),
      { dtype: "i32" },
    );
    const run = ({ params, slots }: State, labels: Tensor) =>
      pipeline.run(params, slots, random.key(3), tensor(0, { dtype: "i32" }), x, labels);
    // On the pipeline's own devices, so that nothing is copied there.
    const before = run(start(network, optimizer, "f32"), y) as State;
    const weight = (before.params as { 0: { weight: Tensor } })[0].weight;
    const values = await weight.data();
    await expect(run(before, wrong as Tensor).loss.item()).rejects.toThrow(/99/);
    expect(await weight.data()).toEqual(values);
    runtime.close();
  });

  it("needs less memory by 1f1b than by gpipe", () => {
    const arena = (schedule: "gpipe" | "1f1b", rank: number): number => {
      const { runtime, pipeline } = compiled(convolutional(), optimizers()["momentum"] as never, "f32", {
        schedule,
        microBatches: 8,
      });
      runtime.close();
      const lowered = lowerProgram((pipeline.programs[rank] as DeviceProgram).program, { slots: 1 });
      checkLowered(lowered, [2]);
      return lowered.arenaBytes;
    };
    for (const rank of [0, 1]) expect(arena("1f1b", rank)).toBeLessThan(arena("gpipe", rank) / 2);
  });
});
