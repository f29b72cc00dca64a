/** `train` on servers in this process: the values, history and checkpoints of a training without servers. */
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { data, losses, nn, optim, type Tensor, type TrainOptions, train } from "heddle";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-servers-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const rows = 20;
const points = data.fromArrays({
  x: { shape: [rows, 3], data: Float32Array.from({ length: 3 * rows }, (_unused, index) => Math.sin(index * 1.7)) },
  y: { shape: [rows], data: Int32Array.from({ length: rows }, (_unused, index) => index % 3) },
});

const options = (more: Partial<TrainOptions> = {}): TrainOptions => ({
  model: nn.sequential(nn.linear(8), nn.tanh(), nn.linear(3)),
  data: points.shuffle().batch(8),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.05 }),
  epochs: 3,
  dtype: "f64",
  report: "silent",
  evaluate: points.batch(rows),
  ...more,
});

async function values(tree: unknown): Promise<Record<string, number[]>> {
  const { leaves, paths } = flattenTree(tree, isTensor);
  const read = await Promise.all(leaves.map(async (leaf) => [...(await (leaf as Tensor).data())].map(Number)));
  return Object.fromEntries(paths.map((path, index) => [path, read[index] as number[]]));
}

function expectClose(one: Record<string, number[]>, other: Record<string, number[]>, within: number): void {
  expect(Object.keys(one)).toEqual(Object.keys(other));
  for (const [name, list] of Object.entries(one))
    for (const [index, value] of list.entries())
      expect(Math.abs(value - (other[name]?.[index] as number))).toBeLessThan(within);
}

test.each(["bsp", "async"])("one worker, %s: as without servers", async (policy) => {
  const plain = await train(options());
  const served = await train(options({ server: { policy } }));
  expectClose(await values(served.params), await values(plain.params), 1e-9);
  expectClose(await values(served.optimizerState), await values(plain.optimizerState), 1e-9);
  expect(served.steps).toBe(plain.steps);
  for (const [index, { loss, metrics, validation }] of plain.history.entries()) {
    expect(served.history[index]?.loss).toBeCloseTo(loss, 9);
    expect(served.history[index]?.metrics).toEqual(metrics);
    expect(served.history[index]?.validation?.loss).toBeCloseTo(validation?.loss as number, 9);
  }
});

test("a training goes on from a checkpoint, with servers or without", async () => {
  const whole = await train(options());
  const checkpoint = { directory };
  await train(options({ epochs: 1, checkpoint, server: {} }));
  const second = await train(options({ epochs: 2, checkpoint, resume: true }));
  expect(second.history).toHaveLength(2);
  const third = await train(options({ checkpoint, resume: true, server: {} }));
  expect(third.history).toHaveLength(3);
  expectClose(await values(third.params), await values(whole.params), 1e-9);
});

test("parameters that are not trained stay, and a callback ends the training", async () => {
  const stop = { onEpoch: (_record: unknown, control: { stop(): void }) => control.stop() };
  const more = { trainable: "2", callbacks: stop } as const;
  const plain = await train(options(more));
  const served = await train(options({ ...more, server: {} }));
  expect(served.history).toHaveLength(1);
  expectClose(await values(served.params), await values(plain.params), 1e-9);
});

test.each([
  ["async", optim.adam({ learningRate: 0.05 }), "f32"],
  ["bsp", optim.sgd({ learningRate: 0.05, momentum: 0.9 }), "f64"],
] as const)("%s: the log replays to the same bits", async (policy, optimizer, dtype) => {
  vi.stubEnv("HEDDLE_RUN_DIR", directory);
  const served = await train(options({ optimizer, dtype, server: { policy } }));
  vi.unstubAllEnvs();
  const log = join(directory, "updates.jsonl");
  const again = await train(options({ optimizer, dtype, server: { replay: log } }));
  expect(await values(again.params)).toEqual(await values(served.params));
  expect(await values(again.optimizerState)).toEqual(await values(served.optimizerState));
  appendFileSync(log, '{"index":1000,"entry":{"type":"close","group":0}}\n');
  await expect(train(options({ server: { replay: log } }))).rejects.toThrow(/has a gap/);
});

test.each([
  [{ server: { policy: "sps:3" } }, /there is no policy 'sps'.*did you mean 'ssp'/s],
  [{ server: { policies: "ssp:3" } as never }, /policies/],
  [{ server: { policy: "ssp" } }, /lacks STALENESS/],
  [{ server: {}, ema: 0.9 }, /ema does not go with parameter servers/],
  [{ server: {}, nan: "skip" as const }, /nan is "error" or "continue"/],
])("%o is refused", async (more, message) => {
  await expect(train(options(more))).rejects.toThrow(message);
});
