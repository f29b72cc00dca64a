/**
 * Losses where a logit is infinite, or a target or a weight is 0: a term that counts nothing is 0, in value and gradient. The gradients
 * are PyTorch's, and so are the values; where a row is 0 times an infinity there, which is NaN, they are what they tend to.
 */
import { data, grad, jit, losses, nn, optim, select, type Tensor, tensor, train } from "heddle";
import { expect, test } from "vitest";

const inf = Infinity;
const ln2 = Math.log(2);
const f64 = (values: unknown): Tensor => tensor(values as number[], { dtype: "f64" });
const i32 = (values: unknown): Tensor => tensor(values as number[], { dtype: "i32" });
const ce = losses.softmaxCrossEntropy;
const logits = losses.binaryCrossEntropyWithLogits;
const third = 1 / 3;

interface Row {
  readonly title: string;
  readonly loss: (x: Tensor) => Tensor;
  readonly x: unknown;
  readonly value: number;
  readonly gradient: readonly number[];
}

const rows: readonly Row[] = [
  {
    title: "cross-entropy, a probability of 0 beside a logit of -inf",
    loss: (x) => ce(x, f64([[1, 0, 0]])),
    x: [[0, 0, -inf]],
    value: ln2,
    gradient: [-0.5, 0.5, 0],
  },
  {
    title: "cross-entropy, a probability beside a logit of -inf",
    loss: (x) => ce(x, f64([[0.5, 0, 0.5]])),
    x: [[0, 0, -inf]],
    value: inf,
    gradient: [0, 0.5, -0.5],
  },
  {
    title: "cross-entropy, a class of weight 0 with a logit of -inf, of probabilities",
    loss: (x) => ce(x, f64([[0.5, 0, 0.5]]), { weight: f64([1, 1, 0]) }),
    x: [[0, 0, -inf]],
    value: ln2 / 2,
    gradient: [-0.25, 0.25, 0],
  },
  {
    title: "cross-entropy, a label beside a logit of -inf",
    loss: (x) => ce(x, i32([0])),
    x: [[0, 0, -inf]],
    value: ln2,
    gradient: [-0.5, 0.5, 0],
  },
  {
    title: "cross-entropy, a label at a logit of -inf",
    loss: (x) => ce(x, i32([2])),
    x: [[0, 0, -inf]],
    value: inf,
    gradient: [0.5, 0.5, -1],
  },
  {
    title: "cross-entropy, a label of weight 0 at a logit of -inf",
    loss: (x) => ce(x, i32([2, 0]), { weight: f64([1, 1, 0]) }),
    x: [
      [0, 0, -inf],
      [0, 0, 0],
    ],
    value: Math.log(3),
    gradient: [0, 0, 0, third - 1, third, third],
  },
  {
    title: "cross-entropy, a label that is ignored",
    loss: (x) => ce(x, i32([-1, 0]), { ignoreIndex: -1 }),
    x: [
      [-inf, 0, 0],
      [0, 0, 0],
    ],
    value: Math.log(3),
    gradient: [0, 0, 0, third - 1, third, third],
  },
  {
    title: "cross-entropy, label smoothing gives a class of logit -inf a probability",
    loss: (x) => ce(x, i32([0]), { labelSmoothing: 0.1 }),
    x: [[0, 0, -inf]],
    value: inf,
    gradient: [0.5 - (0.9 + 0.1 / 3), 0.5 - 0.1 / 3, -0.1 / 3],
  },
  {
    title: "cross-entropy, label smoothing, but a weight of 0",
    loss: (x) => ce(x, i32([0]), { labelSmoothing: 0.1, weight: f64([1, 1, 0]) }),
    x: [[0, 0, -inf]],
    value: ln2 * (0.9 + 0.2 / 3),
    gradient: [-0.45, 0.45, 0],
  },
  {
    title: "negative log-likelihood, a label of weight 0 at -inf",
    loss: (x) => losses.nll(x, i32([1, 0]), { weight: f64([1, 0]) }),
    x: [
      [0, -inf],
      [-1, -1],
    ],
    value: 1,
    gradient: [0, 0, -1, 0],
  },
  ...(
    [
      [inf, 0, inf, 1],
      [inf, 1, 0, 0],
      [inf, 0.5, inf, 0.5],
      [-inf, 0, 0, 0],
      [-inf, 1, inf, -1],
      [-inf, 0.5, inf, -0.5],
    ] as const
  ).map(
    ([x, target, value, slope]): Row => ({
      title: `binary cross-entropy of a logit of ${x} for ${target}`,
      loss: (one) => logits(one, f64([target])),
      x: [x],
      value,
      gradient: [slope],
    }),
  ),
  {
    title: "binary cross-entropy of a logit of -inf for 1 of weight 0",
    loss: (x) => logits(x, f64([1]), { weight: f64([0]) }),
    x: [-inf],
    value: 0,
    gradient: [0],
  },
  {
    title: "binary cross-entropy of a logit of -inf for 1, positives of weight 0",
    loss: (x) => logits(x, f64([1]), { posWeight: f64([0]) }),
    x: [-inf],
    value: 0,
    gradient: [0],
  },
  {
    // The slopes of -log(1 - p) at 0 and of -log(p) at 1; PyTorch's formula gives 0.
    title: "binary cross-entropy of certain probabilities, right",
    loss: (x) => losses.binaryCrossEntropy(x, f64([0, 1])),
    x: [0, 1],
    value: 0,
    gradient: [0.5, -0.5],
  },
  {
    title: "binary cross-entropy of certain probabilities, wrong, of weight 0",
    loss: (x) => losses.binaryCrossEntropy(x, f64([1, 0]), { weight: f64([0, 0]) }),
    x: [0, 1],
    value: 0,
    gradient: [0, 0],
  },
  {
    title: "divergence, a target of 0 beside -inf",
    loss: (x) => losses.klDivergence(x, f64([[1, 0]]), { reduction: "sum" }),
    x: [[0, -inf]],
    value: 0,
    gradient: [-1, 0],
  },
  {
    title: "divergence, a target beside -inf",
    loss: (x) => losses.klDivergence(x, f64([[0.5, 0.5]]), { reduction: "sum" }),
    x: [[0, -inf]],
    value: inf,
    gradient: [-0.5, -0.5],
  },
  {
    title: "divergence, logarithms of 0 on both sides",
    loss: (x) => losses.klDivergence(x, f64([[0, -inf]]), { reduction: "sum", logTarget: true }),
    x: [[0, -inf]],
    value: 0,
    gradient: [-1, 0],
  },
  {
    title: "Poisson, a count of 0 at a rate of exp(-inf)",
    loss: (x) => losses.poissonNll(x, f64([0])),
    x: [-inf],
    value: 0,
    gradient: [0],
  },
  {
    title: "Poisson, a count of 0 at a rate of 0 without epsilon",
    loss: (x) => losses.poissonNll(x, f64([0]), { logInput: false, epsilon: 0 }),
    x: [0],
    value: 0,
    gradient: [1],
  },
  {
    title: "hinge of embeddings, beyond the margin",
    loss: (x) => losses.hingeEmbedding(x, f64([1, -1])),
    x: [0, inf],
    value: 0,
    gradient: [0.5, 0],
  },
  { title: "Huber", loss: (x) => losses.huber(x, f64([0])), x: [inf], value: inf, gradient: [1] },
  { title: "smooth absolute", loss: (x) => losses.smoothL1(x, f64([0])), x: [-inf], value: inf, gradient: [-1] },
  {
    title: "a weighted mean, a weight of 0 of an infinity",
    loss: (x) => losses.weightedMean(x, f64([0, 2])),
    x: [inf, 3],
    value: 3,
    gradient: [0, 1],
  },
];

// All in one program.
const found = jit(() =>
  Object.fromEntries(
    rows.map(({ title, loss, x }) => [title, { value: loss(f64(x)), gradient: grad(loss)(f64(x)) }] as const),
  ),
)();

test.each(rows)("$title", async ({ title, value, gradient }) => {
  const near = (one: number): unknown => (Number.isFinite(one) ? expect.closeTo(one, 12) : one);
  const { value: total, gradient: slopes } = found[title] as { value: Tensor; gradient: Tensor };
  expect(await total.item()).toEqual(near(value));
  expect([...(await slopes.data())]).toEqual(gradient.map(near));
});

test("by the target, too, a term of probability 0 has a slope that is finite", async () => {
  const x = f64([[0, 0, -inf]]);
  const slope = grad((target: Tensor) => losses.klDivergence(x, target, { reduction: "sum" }))(f64([[1, 0, 0]]));
  expect(await slope.array()).toEqual([[1, 0, 0]]);
});

test("a row of weight 0 counts nothing in a training, also where its loss is infinite", async () => {
  const never = tensor([[0, -inf]]);
  const { history } = await train({
    model: nn.linear(2, { bias: false, init: { weight: nn.init.zeros() } }),
    data: data
      .fromArrays({
        x: { shape: [2, 2], data: [1, 0, 0, 1] },
        y: { shape: [2], dtype: "i32", data: [0, 1] },
        w: { shape: [2], data: [1, 0] },
      })
      .batch(2),
    weight: "w",
    loss: (y, t, options = {}) => ce(select(t.eq(1).reshape([2, 1]), never, y), t, options),
    optimizer: optim.sgd({ learningRate: 1 }),
    epochs: 1,
    metrics: {},
    report: "silent",
  });
  expect(history[0]?.loss).toBeCloseTo(ln2 / 2, 6);
});
