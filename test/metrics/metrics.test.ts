/** Metrics against counting by hand, one example at a time. */
import { data, full, jit, losses, mesh, metrics, nn, optim, type Tensor, tensor, train } from "heddle";
import { describe, expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";
import { randomFrom } from "../support/tensors.ts";
import { bars, options } from "../train/synthetic.ts";

const random = randomFrom(5);
const [rows, classes] = [40, 4];
// Coarse, so that there are ties; the last class is never answered, the one before never asked for.
const logits = Array.from({ length: rows }, () =>
  Array.from({ length: classes }, (_unused, index) => (index === 3 ? -9 : Math.round(random() * 5))),
);
const labels = Array.from({ length: rows }, () => [0, 1, 3][Math.floor(random() * 3)] as number);
const answers = logits.map((row) => row.indexOf(Math.max(...row)));
const output = tensor(logits);
const target = tensor(labels, { dtype: "i32" });

const values = async (x: Tensor): Promise<number[]> => Array.from(await x.data());
const count = (test: (row: number) => boolean): number => labels.filter((_label, row) => test(row)).length;

/** A counted metric over two batches, as a training adds it up. */
async function overall({ counts, value }: metrics.CountedMetric, y: Tensor, t: Tensor): Promise<number> {
  const sums: number[] = [];
  const cut = (x: Tensor, from: number, to: number): Tensor =>
    x.slice([from, ...x.shape.slice(1).map(() => 0)], [to, ...x.shape.slice(1)]);
  const all = y.shape[0] as number;
  for (const [from, to] of [
    [0, 7],
    [7, all],
  ] as const) {
    const found = counts(cut(y, from, to), cut(t, from, to));
    expect(found.shape[0]).toBe(to - from);
    const data = await values(found);
    const n = found.shape.at(-1) as number;
    data.forEach((one, index) => {
      sums[index % n] = (sums[index % n] ?? 0) + one;
    });
  }
  return value(sums);
}

describe("of classes", () => {
  test("accuracy and top k", async () => {
    const ahead = (row: number, k: number): boolean => {
      const order = (logits[row] as number[]).map((value, index) => ({ value, index }));
      order.sort((a, b) => b.value - a.value || a.index - b.index);
      return order.slice(0, k).some(({ index }) => index === labels[row]);
    };
    for (const k of [1, 2, 3, 4]) {
      const expected = labels.map((_label, row) => Number(ahead(row, k)));
      expect(await values(metrics.topK(k)(output, target)), `k ${k}`).toEqual(expected);
    }
    expect(await values(metrics.topK(1)(output, target))).toEqual(await values(metrics.accuracy(output, target)));
    // NaN is before all numbers, for both.
    const odd = tensor([
      [1, Number.NaN, 2],
      [1, Number.NaN, Number.NaN],
      [Number.NaN, 0, 1],
    ]);
    const odder = tensor([2, 2, 0], { dtype: "i32" });
    expect(await values(metrics.accuracy(odd, odder))).toEqual([0, 0, 1]);
    expect(await values(metrics.topK(1)(odd, odder))).toEqual([0, 0, 1]);
    expect(await values(metrics.topK(2)(odd, odder))).toEqual([1, 1, 1]);
  });

  test("precision, recall and F1", async () => {
    const right = (c: number): number => count((row) => labels[row] === c && answers[row] === c);
    const answered = (c: number): number => count((row) => answers[row] === c);
    const actual = (c: number): number => count((row) => labels[row] === c);
    expect([answered(3), actual(2)]).toEqual([0, 0]);
    const each = [0, 1, 2, 3].map((c) => {
      const p = answered(c) === 0 ? 0 : right(c) / answered(c);
      const r = actual(c) === 0 ? 0 : right(c) / actual(c);
      return { precision: p, recall: r, f1: p + r === 0 ? 0 : (2 * p * r) / (p + r), share: actual(c) / rows };
    });
    const accuracy = count((row) => labels[row] === answers[row]) / rows;
    for (const name of ["precision", "recall", "f1"] as const) {
      const macro = each.reduce((sum, one) => sum + one[name] / classes, 0);
      const weighted = each.reduce((sum, one) => sum + one[name] * one.share, 0);
      expect(await overall(metrics[name](), output, target), name).toBeCloseTo(macro, 12);
      expect(await overall(metrics[name]({ average: "weighted" }), output, target), name).toBeCloseTo(weighted, 12);
      expect(await overall(metrics[name]({ average: "micro" }), output, target), name).toBeCloseTo(accuracy, 12);
    }
  });

  test("the same of yes and no", async () => {
    const scores = tensor([3, -1, 0.5, -2, 1, -0.5, 2, 1, -1]);
    const truth = tensor([1, 1, 0, 0, 1, 0, 1, 0, 0]);
    // Answers yes: 1, 3, 5, 7, 8; of these 3 are right, of 4 in truth.
    expect(await overall(metrics.precision(), scores, truth)).toBeCloseTo(3 / 5, 12);
    expect(await overall(metrics.recall(), scores, truth)).toBeCloseTo(3 / 4, 12);
    expect(await overall(metrics.f1(), scores, truth)).toBeCloseTo(6 / 9, 12);
    expect(await values(metrics.binaryAccuracy(scores, truth))).toEqual([1, 0, 0, 1, 1, 1, 1, 0, 1]);
  });

  test("the confusion matrix", async () => {
    const found = metrics.confusionMatrix(target, output.argMax(-1), classes);
    const expected = [0, 1, 2, 3].flatMap((c) =>
      [0, 1, 2, 3].map((a) => count((row) => labels[row] === c && answers[row] === a)),
    );
    expect([found.dtype, found.shape, await values(found)]).toEqual(["i32", [4, 4], expected]);
  });
});

describe("of curves and numbers", () => {
  const scores = Array.from({ length: 60 }, () => Math.round((random() * 8 - 4) * 10) / 10);
  const truth = scores.map((score) => Number(score + 4 * random() - 2 > 0));
  const pairs = (): number => {
    let [good, all] = [0, 0];
    scores.forEach((high, i) => {
      scores.forEach((low, j) => {
        if (truth[i] !== 1 || truth[j] !== 0) return;
        all++;
        good += high > low ? 1 : high === low ? 0.5 : 0;
      });
    });
    return good / all;
  };

  test("the area under the ROC curve", async () => {
    expect(metrics.rocAuc(scores, truth)).toBeCloseTo(pairs(), 12);
    const found = await overall(metrics.auc({ bins: 5000 }), tensor(scores), tensor(truth));
    expect(found).toBeCloseTo(pairs(), 3);
    expect(Math.abs((await overall(metrics.auc(), tensor(scores), tensor(truth))) - pairs())).toBeLessThan(0.01);
    expect(metrics.rocAuc([1, 2], [1, 1])).toBeNaN();
    expect(metrics.rocAuc([1, Number.NaN], [1, 0])).toBeNaN();
    expect(metrics.rocAuc([], [])).toBeNaN();
  });

  test("errors of numbers", async () => {
    const [y, t] = [
      tensor([
        [1, 2],
        [3, 4],
        [5, 6],
        [7, 8],
        [0, 0],
        [1, 1],
        [2, 2],
        [3, 3],
      ]),
      tensor([
        [1, 0],
        [3, 7],
        [5, 6],
        [7, 8],
        [0, 0],
        [1, 1],
        [2, 2],
        [3, 4],
      ]),
    ];
    expect(await metrics.meanSquaredError(y, t).mean().item()).toBeCloseTo(14 / 16, 6);
    expect(await metrics.meanAbsoluteError(y, t).mean().item()).toBeCloseTo(6 / 16, 6);
    expect(await overall(metrics.rootMeanSquaredError, y, t)).toBeCloseTo(Math.sqrt(14 / 16), 6);
    // Squares beyond f16, and sums of them.
    const [far, zeros] = [400, 0].map((value) => full([12, 4], value, { dtype: "f16" })) as [Tensor, Tensor];
    expect(await metrics.meanSquaredError(far, zeros).max().item()).toBe(160_000);
    expect(await overall(metrics.rootMeanSquaredError, far, zeros)).toBe(400);
  });

  test("perplexity", async () => {
    const nll = await values(losses.softmaxCrossEntropy(output, target, { reduction: "none" }));
    const mean = (list: number[]): number => list.reduce((sum, x) => sum + x, 0) / list.length;
    expect((await overall(metrics.perplexity(), output, target)) / Math.exp(mean(nll))).toBeCloseTo(1, 5);
    const kept = nll.filter((_value, row) => labels[row] !== 3);
    const found = await overall(metrics.perplexity({ ignoreIndex: 3 }), output, target);
    expect(found / Math.exp(mean(kept))).toBeCloseTo(1, 5);
  });
});

test("in a training, over every row, on one device and on two, in parts too", async () => {
  const task = {
    data: bars(50).batch(16),
    evaluate: bars(22, { seed: 8 }),
    epochs: 2,
    metrics: { accuracy: metrics.accuracy, f1: metrics.f1(), perplexity: metrics.perplexity() },
  };
  const run = async (more: object) => train(options({ ...task, dtype: "f64", ...more }));
  const one = await run({});
  const answered = (await one.predict(task.evaluate)).argMax(-1);
  const truth = tensor(Int32Array.from((await (task.evaluate.columns.get("y") as data.Column).load()) as Uint8Array));
  const table = await values(metrics.confusionMatrix(truth, answered, 3));
  const each = [0, 1, 2].map((c) => {
    const [row, column] = [table.slice(3 * c, 3 * c + 3), [0, 1, 2].map((r) => table[3 * r + c] as number)];
    const [actual, found] = [row, column].map((list) => list.reduce((sum, x) => sum + x, 0)) as [number, number];
    return actual + found === 0 ? 0 : (2 * (row[c] as number)) / (actual + found);
  });
  const { loss, metrics: found } = await one.evaluate(task.evaluate);
  expect(found).toEqual(one.history[1]?.validation?.metrics);
  expect(found["f1"]).toBeCloseTo(each.reduce((sum, x) => sum + x, 0) / 3, 12);
  expect(found["perplexity"]).toBeCloseTo(Math.exp(loss), 9);
  for (const more of [{ mesh: mesh({ data: 2 }) }, { accumulate: 4 }]) {
    const other = await run(more);
    for (const epoch of [0, 1]) {
      for (const [name, value] of Object.entries(one.history[epoch]?.metrics as object)) {
        expect(other.history[epoch]?.metrics[name], name).toBeCloseTo(value, 9);
      }
      expect(other.history[epoch]?.validation?.metrics["f1"]).toBeCloseTo(
        one.history[epoch]?.validation?.metrics["f1"] as number,
        12,
      );
    }
  }
});

interface Curve {
  readonly auc: string;
  readonly scores: readonly number[];
  readonly labels: readonly number[];
  readonly weights?: readonly number[];
  readonly area: number;
}
type Averages = { readonly [Average in metrics.ClassAverage]: number };
interface Classes {
  readonly classes: string;
  readonly scores: readonly (readonly number[])[];
  readonly labels: readonly number[];
  readonly accuracy: number;
  readonly top2?: number;
  readonly confusion: readonly number[];
  readonly precision: Averages;
  readonly recall: Averages;
  readonly f1: Averages;
}

describe("as scikit-learn's (test/fixtures/metrics.py)", () => {
  const cases = fixture<Curve | Classes>("metrics");

  test.each(cases.filter((one) => "auc" in one))("the area under the curve of scores: $auc", (one) => {
    const { scores, labels, weights, area } = one as Curve;
    expect(metrics.rocAuc(scores, labels, weights === undefined ? {} : { weights })).toBeCloseTo(area, 12);
  });

  test.each(cases.filter((one) => "classes" in one))("classes: $classes", async (one) => {
    const { scores, labels, accuracy, confusion, top2, ...each } = one as Classes;
    const [y, t] = [tensor(scores as number[][]), tensor([...labels], { dtype: "i32" })];
    const mean = async (found: Tensor): Promise<number> => found.cast("f64").mean().item();
    expect(await mean(metrics.accuracy(y, t))).toBeCloseTo(accuracy, 12);
    if (top2 !== undefined) expect(await mean(metrics.topK(2)(y, t))).toBeCloseTo(top2, 12);
    expect(await values(metrics.confusionMatrix(t, y.argMax(-1), 4))).toEqual(confusion);
    for (const name of ["precision", "recall", "f1"] as const) {
      for (const average of ["macro", "micro", "weighted"] as const) {
        const metric = metrics[name]({ average });
        const counts = metric.counts(y, t);
        const sums = await values(counts.cast("f64").sum(0));
        expect(metric.value(sums), `${name} ${average}`).toBeCloseTo(each[name][average], 12);
      }
    }
  });

  test("what it refuses is NaN, or an error", async () => {
    expect(metrics.rocAuc([], [])).toBeNaN();
    expect(metrics.rocAuc([1, 2], [1, 1])).toBeNaN();
    expect(metrics.rocAuc([1, Number.NaN], [1, 0])).toBeNaN();
    expect(metrics.rocAuc([Infinity, 0, -Infinity, 1], [1, 1, 0, 0])).toBe(0.75);
    expect(() => metrics.rocAuc([1, 2], [1, Number.NaN])).toThrow(/label 1 is NaN/);
    expect(() => metrics.rocAuc([1, 2], [1, 0], { weights: [1] })).toThrow(/2 scores and 1 weights/);
    expect(() => metrics.rocAuc([1, 2], [1, 0], { weights: [1, -1] })).toThrow(/weight 1 is -1/);
    const [odd, none] = [tensor([1, Number.NaN, -1, 2, 3, -2, 1, 0]), tensor([1, 0, 0, 1, 0, 0, 1, 0])];
    expect(await overall(metrics.auc(), odd, none)).toBeNaN();
    expect(await overall(metrics.auc(), none, none.mul(0))).toBeNaN();
    // NaN is no answer that is right, whatever the truth.
    expect(await values(metrics.binaryAccuracy(odd, none))).toEqual([1, 0, 1, 1, 0, 1, 1, 1]);
    const impossible = tensor([
      [0, -Infinity],
      [0, 0],
    ]);
    const sums = metrics
      .perplexity()
      .counts(impossible, tensor([1, 0], { dtype: "i32" }))
      .sum(0);
    expect(metrics.perplexity().value(await values(sums))).toBe(Infinity);
    expect(metrics.perplexity().value([0, 0])).toBeNaN();
  });
});

test("errors", async () => {
  expect(() => metrics.topK(0)).toThrow(/topK: k must be at least 1/);
  expect(() => metrics.f1({ average: "mean" as never })).toThrow(/f1: average must be macro, micro or weighted/);
  expect(() => metrics.precision().counts(output, tensor([1, 2], { dtype: "i32" }))).toThrow(
    /does not fit the target i32\[2\]/,
  );
  expect(() => metrics.confusionMatrix(target, tensor([1]), 4)).toThrow(/labels and answers of one shape/);
  const each = (...list: number[]) => tensor(list, { dtype: "i32" });
  expect(() => metrics.confusionMatrix([0, 1] as never, each(0, 1), 2)).toThrow(
    /confusionMatrix: labels and answers must be tensors, got \[0,1\] and i32\[2\].*hint: .*tensor\(/s,
  );
  expect(() => metrics.confusionMatrix(each(0, 3), each(0, 1), 3)).toThrow(
    /confusionMatrix: element 1 of the labels is 3, outside \[0, 3\)/,
  );
  expect(() => metrics.confusionMatrix(each(0, 1), each(-1, 1), 3)).toThrow(/element 0 of the answers is -1/);
  expect(() => metrics.confusionMatrix(each(0), tensor([0.5]), 3)).toThrow(/answers must be integers, got f32\[1\]/);
  // Of values that are not at hand, the run says it.
  const traced = jit((labels: Tensor) => metrics.confusionMatrix(labels, labels, 2));
  expect(() => traced(each(7, 1)).dataSync()).toThrow(
    /confusionMatrix: element 0 of the labels is 7, outside \[0, 2\)/,
  );
  expect(await values(traced(each(0, 1)))).toEqual([1, 0, 0, 1]);
  expect(() => metrics.rocAuc([1], [])).toThrow(/1 scores and 0 labels/);
  const wrong = { counts: () => tensor([1, 2, 3]), value: () => 1 };
  const regression = { model: nn.linear(1), loss: losses.mse, optimizer: optim.sgd({ learningRate: 0.1 }), epochs: 1 };
  const rowsOf = data.fromArrays({
    x: { shape: [4, 1], data: [0, 1, 2, 3] },
    y: { shape: [4, 1], data: [0, 1, 2, 3] },
  });
  await expect(train({ ...regression, data: rowsOf.batch(2), metrics: { wrong }, report: "silent" })).rejects.toThrow(
    /metric wrong gives f32\[3\], not counts \[batch, …, n\]/,
  );
});
