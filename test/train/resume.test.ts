import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Callbacks, type EpochRecord, optim, type TrainOptions, type TrainResult, train } from "heddle";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { listCheckpoints, loadCheckpoint } from "../../src/checkpoints/index.ts";
import { bars, convnet, options } from "./synthetic.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-resume-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A convnet with dropout, four steps an epoch, the last of them short. */
const base = (more: Partial<TrainOptions> = {}): TrainOptions =>
  options({
    model: convnet(),
    optimizer: optim.adam({ learningRate: (step) => 0.02 / (1 + step / 10) }),
    epochs: 3,
    evaluate: bars(20, { seed: 4 }),
    seed: 3,
    ...more,
  });

/** Ends a training when the loss of a step is known, as a kill would: what was not saved is lost. */
async function interrupted(step: number, more: Partial<TrainOptions>): Promise<void> {
  const controller = new AbortController();
  const callbacks: Callbacks = {
    onStep: (record) => (record.step === step ? controller.abort(new Error("killed")) : undefined),
  };
  await expect(train(base({ ...more, callbacks, signal: controller.signal }))).rejects.toThrow("killed");
}

/** Everything in the last checkpoint but the times. */
async function finalState(result: TrainResult): Promise<unknown> {
  const { path: _path, extra, ...state } = await loadCheckpoint(result.checkpoint as string);
  return { ...state, history: withoutTimes(extra["history"] as never) };
}

const withoutTimes = (history: readonly EpochRecord[]): unknown[] =>
  history.map(({ seconds: _seconds, examplesPerSecond: _rate, ...record }) => record);

test.each([
  ["in the middle of an epoch", 1, 6],
  ["after an epoch", "epoch", 7],
  ["before the last, short batch", 1, 3],
] as const)("a run resumed %s gives the bits of one that was never interrupted", async (_where, every, at) => {
  const whole = await train(base({ checkpoint: { directory: join(directory, "whole"), every } }));
  const checkpoint = { directory: join(directory, "parts"), every };
  await interrupted(at, { checkpoint });
  const saved = (await listCheckpoints(checkpoint.directory))[0]?.step as number;
  expect(saved).toBeGreaterThan(0);
  expect(saved).toBeLessThan(12);
  const resumed = await train(base({ checkpoint, resume: true }));
  expect(await finalState(resumed)).toEqual(await finalState(whole));
  expect(withoutTimes(resumed.history)).toEqual(withoutTimes(whole.history));
  expect(resumed.accuracy).toBe(whole.accuracy);
});

test("a finished run is resumed without a step, or goes on for more epochs", async () => {
  const checkpoint = { directory };
  const first = await train(base({ epochs: 2, checkpoint }));
  const again = await train(base({ epochs: 2, checkpoint, resume: true }));
  expect(again.steps).toBe(first.steps);
  expect(again.checkpoint).toBe(first.checkpoint);
  const more = await train(base({ epochs: 3, checkpoint, resume: true }));
  const whole = await train(base({ epochs: 3, checkpoint: { directory: join(directory, "whole") } }));
  expect(await finalState(more)).toEqual(await finalState(whole));
});

test("without a checkpoint yet, a resume begins at the beginning", async () => {
  const { steps } = await train(base({ epochs: 1, checkpoint: { directory }, resume: true }));
  expect(steps).toBe(4);
});

test("checkpoints: when they are due, how many stay, and one at the end", async () => {
  await train(base({ epochs: 2, checkpoint: { directory, every: 3, keep: 2 } }));
  expect((await listCheckpoints(directory)).map(({ step }) => step)).toEqual([8, 6]);
  expect(readdirSync(directory).filter((name) => name.includes(".tmp"))).toEqual([]);
});

test("a new run moves the checkpoints of an earlier one aside", async () => {
  await train(base({ epochs: 1, checkpoint: { directory } }));
  await train(base({ epochs: 1, checkpoint: { directory } }));
  await train(base({ epochs: 1, checkpoint: { directory } }));
  expect(readdirSync(directory).sort()).toEqual(["earlier-1", "earlier-2", "step-00000004.safetensors"]);
  expect(readdirSync(join(directory, "earlier-1"))).toEqual(["step-00000004.safetensors"]);
});

test("names in the file are PyTorch's", async () => {
  const { checkpoint } = await train(base({ epochs: 1, checkpoint: { directory } }));
  const { tensors, position, step } = await loadCheckpoint(checkpoint as string);
  expect([...tensors.keys()].filter((name) => name.startsWith("params/")).sort()).toEqual([
    "params/0.bias",
    "params/0.weight",
    "params/4.bias",
    "params/4.weight",
    "params/7.bias",
    "params/7.weight",
  ]);
  expect(tensors.has("optimizer/expAvgSq.4.weight")).toBe(true);
  expect({ step, position }).toEqual({ step: 4, position: { epoch: 1, step: 0 } });
});

test.each([
  [{ seed: 4 }, /its seed is 3, this run's is 4/],
  [{ optimizer: optim.sgd({ learningRate: 0.1 }) }, /its optimizer is adam, this run's is sgd/],
  [{ data: bars(60).shuffle().batch(15) }, /its data has batchSize 16, this run's has 15/],
  [{ data: bars(60).batch(16) }, /its data has chain \["shuffle 60 seed 3"\], this run's has \[\]/],
  [{ dtype: "f64" }, /its params\/0\.weight is f32\[3,1,3,3\], this run's is f64\[3,1,3,3\]/],
  [{ model: options().model }, /it has no params\/1\.weight/],
] as const)("a run with %o refuses the checkpoint of another", async (change, message) => {
  await train(base({ epochs: 1, checkpoint: { directory } }));
  await expect(train(base({ ...change, checkpoint: { directory }, resume: true }))).rejects.toThrow(message);
});

test("a path that does not exist", async () => {
  const resume = join(directory, "step-00000001.safetensors");
  await expect(train(base({ resume }))).rejects.toThrow(/there is no checkpoint .*step-00000001\.safetensors/);
});

test("a resume that finds nothing says so and starts at the beginning", async () => {
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const checkpoint = { directory: join(directory, "none") };
  const result = await train(options({ checkpoint, resume: true, epochs: 1, report: "lines" }));
  const lines = written.mock.calls.map(([text]) => String(text)).join("");
  written.mockRestore();
  expect(lines).toContain(`no checkpoint in ${checkpoint.directory} yet: starting at the beginning`);
  expect(result.history).toHaveLength(1);
});
