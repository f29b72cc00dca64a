/** Bad losses: a training that goes back and leaves the batch out trains as if the data had never had it. */
import { data, losses, mesh, nn, optim, type StepRecord, type Tensor, type TrainOptions, train } from "heddle";
import { describe, expect, test } from "vitest";

const rows = 96;
const size = 8;

const x = Float32Array.from({ length: rows }, (_unused, row) => (row % 13) / 13 - 0.5);
const y = x.map((value, row) => 3 * value + 1 + ((row * 7) % 5) / 50);
const batchOf = (row: number): number => Math.floor(row / size);

/** Some rows of a line with noise; the rows of a batch have the targets that `bad` gives. */
function line(
  bad: { readonly [batch: number]: number } = {},
  kept: (batch: number) => boolean = () => true,
): data.Dataset {
  const found = [...x.keys()].filter((row) => kept(batchOf(row)));
  const column = (of: (row: number) => number) => ({ shape: [found.length, 1], data: Float32Array.from(found, of) });
  return data.fromArrays({
    x: column((row) => x[row] as number),
    y: column((row) => bad[batchOf(row)] ?? (y[row] as number)),
  });
}

async function trained(dataset: data.Dataset, more: Partial<TrainOptions> = {}) {
  const steps: StepRecord[] = [];
  const result = await train({
    model: nn.linear(1),
    data: dataset.batch(size),
    loss: losses.mse,
    optimizer: optim.adam({ learningRate: 0.05 }),
    epochs: 1,
    report: "silent",
    callbacks: { onStep: (record) => void steps.push(record) },
    ...more,
  });
  const weight = Array.from(await (result.params as { weight: Tensor }).weight.data());
  return { steps, weight, result };
}

describe("goes back", () => {
  test.each<[string, { readonly [batch: number]: number }, number, Partial<TrainOptions>]>([
    ["NaN in the middle", { 5: Number.NaN }, 3, {}],
    ["the first batch", { 0: Number.POSITIVE_INFINITY }, 10, {}],
    ["the last batch", { 11: Number.NaN }, 4, {}],
    ["two batches, one after the other", { 6: Number.NaN, 7: Number.NaN }, 4, {}],
    ["two devices", { 5: Number.NaN }, 3, { mesh: mesh({ data: 2 }) }],
    ["a spike", { 11: 1e6 }, 4, { spike: 50 }],
  ])("%s: the bits of a training without the batch", async (_what, bad, rollback, more) => {
    const { spike: _spike, ...alike } = more;
    const found = await trained(line(bad), { nan: "rollback", rollback, ...more });
    const wanted = await trained(
      line({}, (batch) => !(batch in bad)),
      alike,
    );
    expect(found.weight).toEqual(wanted.weight);
    expect(found.result.steps).toBe(rows / size - Object.keys(bad).length);
    expect(found.result.history[0]?.loss).toBe(wanted.result.history[0]?.loss);
    expect(found.steps.every(({ loss }) => Number.isFinite(loss))).toBe(true);
  });

  test("but not for ever: an epoch may leave out ten batches", async () => {
    const all = Object.fromEntries(Array.from({ length: 12 }, (_unused, batch) => [batch, Number.NaN]));
    await expect(trained(line(all), { nan: "rollback" })).rejects.toThrow(
      /the loss is NaN at step 1 \(epoch 1 of 1, batch 11\), after as many batches were left out as an epoch may leave out/,
    );
  });

  test("later epochs leave it out again, each after going back once", async () => {
    const { result } = await trained(line({ 5: Number.NaN }), { nan: "rollback", epochs: 3 });
    expect(result.steps).toBe(33);
    expect(result.history.every(({ loss }) => Number.isFinite(loss))).toBe(true);
  });
});

test("a spike is an error by default, with the mean that it is above", async () => {
  await expect(trained(line({ 11: 1e3 }), { spike: 50 })).rejects.toThrow(
    /the loss is [\d.e+]+, far above the mean of the last losses, [\d.]+, at step 12 \(epoch 1 of 1, batch 12\)/,
  );
  // Of a spike among the first losses nothing is known.
  expect((await trained(line({ 2: 1e3 }), { spike: 50 })).result.steps).toBe(12);
});

test.each<[Partial<TrainOptions>, RegExp]>([
  [{ spike: 3, nan: "skip" }, /spike says which losses are bad, and nan: "skip" lets them be/],
  [{ rollback: 3 }, /rollback goes with nan: "rollback", not with nan: "error"/],
  [{ rollback: 0, nan: "rollback" }, /rollback/],
  [{ spike: 0.5 }, /spike/],
])("%j is refused", async (more, says) => {
  await expect(trained(line(), more)).rejects.toThrow(says);
});
