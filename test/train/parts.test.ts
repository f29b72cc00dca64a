/** Batches computed in parts of which some rows do not count: the step is that of the whole batch. */
import {
  data,
  layouts,
  logSoftmax,
  losses,
  nn,
  optim,
  select,
  type Tensor,
  type Tensors,
  type TrainOptions,
  tensor,
  train,
} from "heddle";
import { describe, test } from "vitest";
import { mesh } from "../../src/plan/index.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";

const rows = 10;
const x = Float64Array.from({ length: 3 * rows }, (_unused, index) => Math.sin(3 * index));
// Of the first eight in four parts the fourth does not count at all: parts take every fourth row.
const labels = Int32Array.from([0, 2, 1, -1, -1, 1, 2, -1, 0, 0]);
const batchOf = (count: number): data.Dataset =>
  data
    .fromArrays({
      x: { shape: [count, 3], data: x.slice(0, 3 * count) },
      y: { shape: [count], data: labels.slice(0, count) },
    })
    .batch(count);

const own = (y: Tensor, t: Tensor): Tensor => {
  const counts = t.ge(0);
  return losses.weightedMean(losses.softmaxCrossEntropy(y, select(counts, t, 0), { reduction: "none" }), counts);
};
const ignoring: TrainOptions["loss"] = (y, t, options = {}) =>
  losses.softmaxCrossEntropy(y, t, { ...options, ignoreIndex: -1, labelSmoothing: 0.1 });
const byClass = (y: Tensor, t: Tensor): Tensor => {
  const weight = tensor([1, 2, 0.25], { dtype: "f64" });
  return losses.nll(logSoftmax(y), t, { weight, ignoreIndex: -1 });
};
const both = (y: Tensor, t: Tensor): Tensor => own(y, t).add(byClass(y, t).mul(0.5)).add(y.mul(y).mean());

/** Parameters and the history's loss after two epochs. */
async function trained(options: Partial<TrainOptions>): Promise<number[]> {
  const result = await train({
    model: nn.sequential(nn.linear(4), nn.tanh(), nn.linear(3)),
    data: batchOf(8),
    loss: ignoring,
    optimizer: optim.sgd({ learningRate: 0.5, momentum: 0.9 }),
    epochs: 2,
    dtype: "f64",
    executor: "reference",
    report: "silent",
    metrics: {},
    ...options,
  });
  const values: number[] = result.history.map(({ loss }) => loss);
  const walk = async (tree: Tensors | Tensor): Promise<void> => {
    if ("dtype" in tree) values.push(...(await (tree as Tensor).data()));
    else for (const one of Object.values(tree)) await walk(one as Tensors);
  };
  await walk(result.params);
  return values;
}

const variants: { readonly [what: string]: Partial<TrainOptions> } = {
  "labels that are ignored": {},
  "weights of classes": { loss: byClass },
  "a mask of one's own": { loss: own },
  "two means and a plain one": { loss: both },
  "weights of rows and classes too": { classWeight: { 0: 2, 2: 0 } },
  "bounds, averages and steps that may be skipped": { clip: { norm: 0.1 }, ema: 0.9, nan: "skip" },
  "a loss scale": { lossScale: { initial: 1024 } },
};

describe.each(Object.entries(variants).map(([what, options], at) => [what, options, at] as const))(
  "%s",
  (_what, options, at) => {
    test("in two or four parts", async () => {
      const whole = await trained(options);
      for (const accumulate of partOf([2, 4], 2, at))
        expectClose(await trained({ ...options, accumulate }), whole, 1e-9);
    });
  },
);

test.each<[string, Partial<TrainOptions>]>([
  ["two devices", { mesh: mesh({ data: 2 }) }],
  ["parameters in parts", { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() }],
  ["shares of 1 and 4", { mesh: mesh({ data: 2 }, { shares: { data: [1, 4] } }), data: batchOf(10) }],
])("on %s", async (_what, options) => {
  const whole = await trained({ data: options.data ?? batchOf(8) });
  expectClose(await trained({ ...options, accumulate: 2 }), whole, 1e-9);
});
