/** Losses weighted by row and by class: against the plain sum, on one device and several, in parts, in evaluation. */
import { data, losses, nn, optim, type TrainOptions, train } from "heddle";
import { describe, expect, test } from "vitest";
import { mesh } from "../../src/plan/index.ts";

const rows = 7;
const numbers = (count: number, of: (index: number) => number): Float64Array =>
  Float64Array.from({ length: count }, (_unused, index) => of(index));
const x = numbers(2 * rows, (index) => Math.sin(3 * index));
const labels = Int32Array.from({ length: rows }, (_unused, index) => (index * index) % 3);
const weight = numbers(rows, (index) => (index % 4) / 2);

const dataset = (size: number, more: { [name: string]: data.ArrayColumn } = {}): data.Dataset =>
  data.fromArrays({ x: { shape: [rows, 2], data: x }, y: { shape: [rows], data: labels }, ...more }).batch(size);
const weighted = (size: number): data.Dataset => dataset(size, { w: { shape: [rows, 1], data: weight } });

const run = (more: Partial<TrainOptions>) =>
  train({
    model: nn.linear(3),
    data: weighted(4),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.sgd({ learningRate: 0 }),
    epochs: 1,
    dtype: "f64",
    executor: "reference",
    report: "silent",
    ...more,
  });

/** Losses of the single rows, of the same parameters. */
const single = (
  await Promise.all(
    Array.from({ length: rows }, async (_unused, index) => {
      const one = data.fromArrays({
        x: { shape: [1, 2], data: x.slice(2 * index, 2 * index + 2) },
        y: { shape: [1], data: labels.slice(index, index + 1) },
      });
      return (await run({ data: one.batch(1) })).history[0]?.loss as number;
    }),
  )
).flat();
const mean = (weights: ArrayLike<number>): number =>
  single.reduce((sum, loss, row) => sum + loss * (weights[row] as number), 0) / rows;
const classWeight = { 0: 2, 2: 0.25 };
const byClass = Array.from(labels, (label) => ({ 0: 2, 1: 1, 2: 0.25 })[label] as number);

const cases: readonly (readonly [what: string, options: Partial<TrainOptions>, wanted: number])[] = [
  ["none", { data: dataset(4) }, mean(numbers(rows, () => 1))],
  ["of rows", { weight: "w" }, mean(weight)],
  ["of classes", { classWeight }, mean(byClass)],
  ["of both", { weight: "w", classWeight }, mean(byClass.map((one, row) => one * (weight[row] as number)))],
  ["of rows, in parts", { weight: "w", accumulate: 2 }, mean(weight)],
  ["of rows, on three devices", { weight: "w", mesh: mesh({ data: 3 }) }, mean(weight)],
  [
    "by a function that knows no options",
    { weight: "w", loss: (y, t) => losses.softmaxCrossEntropy(y, t) },
    mean(weight),
  ],
  [
    "of one-hot targets",
    {
      classWeight,
      data: dataset(3, {
        y: { shape: [rows, 3], data: numbers(3 * rows, (at) => Number(labels[Math.floor(at / 3)] === at % 3)) },
      }),
    },
    mean(byClass),
  ],
];

describe("weights", () => {
  test.each(cases)("%s: the epoch's loss is Σ weight · loss / rows", async (_what, options, wanted) => {
    expect((await run(options)).history[0]?.loss).toBeCloseTo(wanted, 12);
  });

  test("a row of weight 2 is trained on as two of half of the batch's rows", async () => {
    const twice = (values: Float64Array | Int32Array, width: number) =>
      [0, 0, 1, 1, 2, 3].flatMap((row) => Array.from(values.slice(row * width, (row + 1) * width)));
    const doubled = data.fromArrays({
      x: { shape: [6, 2], dtype: "f64", data: twice(x, 2) },
      y: { shape: [6], dtype: "i32", data: twice(labels, 1) },
    });
    const once = data.fromArrays({
      x: { shape: [4, 2], data: x.slice(0, 8) },
      y: { shape: [4], data: labels.slice(0, 4) },
      w: { shape: [4], data: new Float64Array([2, 2, 1, 1]) },
    });
    const optimizer = (learningRate: number) => optim.sgd({ learningRate });
    const [left, right] = [
      await run({ data: doubled.batch(6), optimizer: optimizer(0.6) }),
      await run({ data: once.batch(4), weight: "w", optimizer: optimizer(0.4) }),
    ];
    const values = async (tree: unknown) =>
      Array.from(await (tree as { weight: { data(): Promise<Float64Array> } }).weight.data());
    const [one, other] = [await values(left.params), await values(right.params)];
    one.forEach((value, index) => {
      expect(value).toBeCloseTo(other[index] as number, 12);
    });
  });

  test("evaluation weighs rows where its dataset has weights, and no classes", async () => {
    const result = await run({ weight: "w", classWeight, evaluate: dataset(4) });
    expect(result.history[0]?.validation?.loss).toBeCloseTo(mean(numbers(rows, () => 1)), 12);
    expect((await result.evaluate(weighted(3))).loss).toBeCloseTo(mean(weight), 12);
  });

  test.each<[string, Partial<TrainOptions>, RegExp]>([
    ["a column that is not there", { weight: "v" }, /has no column "v"[\s\S]*name one with the option weight/],
    ["weights by name", { classWeight: { a: 1 } as never }, /classes of classWeight are numbers from 0, got 'a'/],
    ["a negative weight", { classWeight: { 0: -1 } }, /classWeight\[0\] must be at least 0/],
    ["weights of elements", { weight: "x" }, /weights of examples are one per row, \[4\], got f64\[4,2\]/],
  ])("%s", async (_what, options, says) => {
    await expect(run(options)).rejects.toThrow(says);
  });
});
