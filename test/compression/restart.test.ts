/** What compression keeps: restarts with the same bits, and on other numbers of devices. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Callbacks, compression, replicate, type Tensor, type TrainOptions, train } from "heddle";
import { afterEach, beforeEach, expect, test } from "vitest";
import { mesh } from "../../src/plan/index.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";
import { paramsOf, task } from "./task.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "heddle-compression-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const { topK, powerSgd, int8, sign } = compression;

const kinds: readonly [string, TrainOptions["compression"] & object][] = [
  ["topK with momentum", { by: topK({ ratio: 0.05 }), momentum: 0.9, warmup: 1, least: 64 }],
  ["powerSgd", { by: powerSgd({ rank: 2 }), least: 64 }],
  ["int8, stochastic", { by: int8({ rounding: "stochastic" }), feedback: true, least: 64 }],
  ["countSketch", { by: compression.countSketch({ ratio: 0.05, columns: 0.2 }), least: 64 }],
];
test.each(partOf(kinds, 2))("%s: a run that is stopped in the middle ends with the same bits", async (_title, how) => {
  const base = { mesh: mesh({ data: 2 }), compression: how, epochs: 2, dtype: "f32" } as const;
  const whole = await paramsOf(base);
  const controller = new AbortController();
  const callbacks: Callbacks = {
    onStep: ({ step }) => (step === 5 ? controller.abort(new Error("killed")) : undefined),
  };
  const checkpoint = { directory: folder, every: 1 };
  await expect(train(task({ ...base, checkpoint, callbacks, signal: controller.signal }))).rejects.toThrow("killed");
  expect(await paramsOf({ ...base, checkpoint, resume: true })).toEqual(whole);
});

test("a training in pipelines resumes one without stages, on hosts, and the other way round", async () => {
  const how = { by: powerSgd({ rank: 2 }), least: 64 };
  const staged = { pipeline: { stages: { 1: 0, 3: 1, 6: 1 }, microBatches: 2 }, mesh: mesh({ stage: 2, data: 2 }) };
  const meshes = [staged, { mesh: mesh({ data: 2 }) }, { mesh: mesh({ hosts: 2, data: 2 }) }, staged];
  const checkpoint = { directory: folder };
  let last: number[] = [];
  for (const [index, one] of meshes.entries())
    last = await paramsOf({ ...one, compression: how, epochs: index + 1, checkpoint, resume: index > 0 });
  const whole = await paramsOf({ mesh: mesh({ data: 2 }), compression: how, epochs: meshes.length });
  expectClose(last, whole, 1e-9);
});

test("on another number of devices each has an equal share of what was not sent", async () => {
  const how = { by: topK({ ratio: 0.05 }), momentum: 0.9, least: 64 };
  const kept = async (
    devices: number,
    resume: boolean,
  ): Promise<{ rows: number; residual: number[]; momentum: number[] }> => {
    const result = await train(
      task({ mesh: mesh({ data: devices }), compression: how, checkpoint: { directory: folder }, resume }),
    );
    const state = (
      result.optimizerState as unknown as {
        compression: { residual: Record<string, Tensor>; momentum: Record<string, Tensor> };
      }
    ).compression;
    const sums = async (x: Tensor) => Array.from((await replicate(x.sum(0)).data()) as Float64Array);
    const x = state.residual["1.weight"] as Tensor;
    return {
      rows: x.shape[0] as number,
      residual: await sums(x),
      momentum: await sums(state.momentum["1.weight"] as Tensor),
    };
  };
  const four = await kept(4, false);
  const two = await kept(2, true);
  expect([four.rows, two.rows]).toEqual([4, 2]);
  expect(four.residual.some((x) => x !== 0)).toBe(true);
  expectClose(two.residual, four.residual, 1e-12);
  expectClose(two.momentum, four.momentum, 1e-12);
});

test("a checkpoint without what compression keeps is refused by name", async () => {
  const checkpoint = { directory: folder };
  await train(task({ checkpoint, epochs: 1 }));
  await expect(train(task({ checkpoint, resume: true, compression: { by: sign(), least: 64 } }))).rejects.toThrow(
    "it lacks what compression has not sent, which this run keeps (the option compression)",
  );
});
