/** Every layer under jit, vmap, gradients of gradients, and on two devices: the same numbers, in f64. */
import { distribute, grad, jit, jvp, mesh, nn, random, type Tensor, tensor, vmap } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import { isTensor } from "../../src/functions/index.ts";
import { shardedOn } from "../../src/plan/index.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";

type Params = nn.Variables["params"];

interface Row {
  readonly layer: nn.Layer;
  readonly input: { readonly shape: readonly number[]; readonly dtype: "f64" | "i32" };
  readonly train?: boolean;
}

const float = (...shape: number[]) => ({ shape, dtype: "f64" as const });
const ids = (...shape: number[]) => ({ shape, dtype: "i32" as const });
const recurrent = { hidden: 2, bidirectional: true, layers: 2, dropout: 0.5 };

const rows: { readonly [name: string]: Row } = {
  "batchNorm, training": { layer: nn.batchNorm(), input: float(4, 3, 2), train: true },
  "batchNorm, running": { layer: nn.batchNorm({ momentum: null }), input: float(4, 3) },
  layerNorm: { layer: nn.layerNorm({ dims: 2 }), input: float(4, 3, 2) },
  rmsNorm: { layer: nn.rmsNorm(), input: float(4, 3) },
  groupNorm: { layer: nn.groupNorm(2), input: float(4, 4, 2) },
  instanceNorm: {
    layer: nn.instanceNorm({ affine: true, trackRunningStats: true }),
    input: float(4, 2, 3),
    train: true,
  },
  rnn: { layer: nn.rnn({ hidden: 2 }), input: float(4, 3, 2) },
  "gru, dropping": { layer: nn.gru(recurrent), input: float(4, 2, 2), train: true },
  "lstm, last": { layer: nn.lstm({ hidden: 2, output: "last" }), input: float(4, 3, 2) },
  lstmCell: { layer: nn.lstmCell({ hidden: 2 }), input: float(4, 3) },
  "multiHeadAttention, all options": {
    layer: nn.multiHeadAttention({ heads: 4, groups: 2, causal: true, rotary: true, dropout: 0.5 }),
    input: float(4, 3, 8),
    train: true,
  },
  "transformerEncoder, dropping": {
    layer: nn.transformerEncoder({ layers: 1, heads: 2, feedForward: 3, dropout: 0.25 }),
    input: float(4, 2, 4),
    train: true,
  },
  decoderBlock: { layer: nn.decoderBlock({ heads: 2, dropout: 0, norm: "rms", bias: false }), input: float(4, 3, 4) },
  sinusoidalPositions: { layer: nn.sinusoidalPositions(), input: float(4, 3, 4) },
  learnedPositions: { layer: nn.learnedPositions(5), input: float(4, 3, 4) },
  embedding: { layer: nn.embedding(5, 3, { dtype: "f64", paddingIdx: 1 }), input: ids(4, 3) },
  "embeddingBag, max": { layer: nn.embeddingBag(5, 3, { dtype: "f64", mode: "max", paddingIdx: 1 }), input: ids(4, 3) },
  "embeddingBag, mean": { layer: nn.embeddingBag(5, 3, { dtype: "f64" }), input: ids(4, 3) },
  dropout2d: { layer: nn.dropout2d(0.5), input: float(4, 3, 2, 2), train: true },
  "rrelu, training": { layer: nn.rrelu(), input: float(4, 3), train: true },
  softmax2d: { layer: nn.softmax2d(), input: float(4, 3, 2, 2) },
  adaptiveLogSoftmax: {
    layer: nn.adaptiveLogSoftmax({ classes: 6, cutoffs: [2, 4], divValue: 1.5 }),
    input: float(4, 3),
  },
  alphaDropout: { layer: nn.alphaDropout(0.25), input: float(4, 3), train: true },
};

const key = random.key(3);

/** A tree of the same form. */
function mapTree<Form>(tree: Form, fn: (leaf: Tensor, place: number) => Tensor): Form {
  const { leaves, shape } = flattenTree(tree, isTensor);
  return unflattenTree(shape, leaves.map(fn)) as Form;
}

/** The layer's variables, an input, and the sum of its squared outputs, weighed by place. */
function prepared({ layer, input, train = false }: Row) {
  const { params, state } = layer.init(key, input);
  // Fresh biases are 0 and weights 1: other values hide nothing.
  const own = mapTree(params, (leaf, place) =>
    leaf.add(random.normal(random.foldIn(key, 50 + place), leaf.shape, { dtype: "f64" }).mul(0.3)),
  );
  const x =
    input.dtype === "i32"
      ? random.uniform(key, input.shape, { max: 5 }).cast("i32")
      : random.normal(key, input.shape, { dtype: "f64" });
  const apply = (given: Params, batch: Tensor): Tensor =>
    layer.apply({ params: given, state }, batch, { train, key: random.foldIn(key, 9) }).y;
  const loss = (given: Params, batch: Tensor): Tensor => {
    const y = apply(given, batch);
    const weights = random.uniform(random.foldIn(key, 2), y.shape, { dtype: "f64" });
    return y.mul(y.add(weights)).mul(weights).sum();
  };
  return { params: own, x, apply, loss };
}

const numbers = (tree: unknown): number[] =>
  flattenTree(tree, isTensor).leaves.flatMap((leaf) => [...(leaf as Tensor).dataSync()]);

const table = Object.entries(rows);

describe("compiled", () => {
  test.each(partOf(table, 4, 0))("%s", (_name, row) => {
    const { params, x, apply } = prepared(row);
    expectClose(numbers(jit(apply)(params, x)), numbers(apply(params, x)), 1e-12);
  });
});

describe("a batch of batches", () => {
  test.each(partOf(table, 4, 1))("%s", (_name, row) => {
    const { params, x, apply, loss } = prepared(row);
    const other = x.dtype === "i32" ? x.mul(-1).add(4) : x.mul(-0.5).add(0.25);
    const both = [x, other].map((part) => part.reshape([1, ...part.shape]));
    const all = tensor(
      both.flatMap((part) => [...part.dataSync()]),
      { shape: [2, ...x.shape], dtype: x.dtype },
    );
    const one = [x, other].flatMap((part) => numbers(apply(params, part)));
    expectClose(numbers(jit(vmap((batch: Tensor) => apply(params, batch)))(all)), one, 1e-11);
    const slopes = [x, other].flatMap((part) => numbers(jit(grad(loss))(params, part)));
    const each = jit(vmap((batch: Tensor) => grad(loss)(params, batch)))(all);
    const found = flattenTree(each, isTensor).leaves as Tensor[];
    const apart = [0, 1].flatMap((place) =>
      found.flatMap((leaf) => [...leaf.dataSync()].slice((place * leaf.size) / 2, ((place + 1) * leaf.size) / 2)),
    );
    expectClose(apart, slopes, 1e-10);
  });
});

describe("the gradient of the gradient is that of differences", () => {
  test.each(partOf(table, 4, 2))("%s", (_name, row) => {
    const { params, x, loss } = prepared(row);
    const { leaves } = flattenTree(params, isTensor);
    const isFloat = x.dtype === "f64";
    if (leaves.length === 0 && !isFloat) return;
    const start = isFloat ? { params, x } : { params };
    const total = (given: { params: Params; x?: Tensor }): Tensor => loss(given.params, given.x ?? x);
    const along = mapTree(start, (leaf, place) =>
      random.normal(random.foldIn(key, place), leaf.shape, { dtype: "f64" }),
    );
    const moved = (by: number): typeof start => {
      const steps = flattenTree(along, isTensor).leaves as Tensor[];
      return mapTree(start, (leaf, place) => leaf.add((steps[place] as Tensor).mul(by)));
    };
    const slope = jit(grad(total));
    const [after, before] = [numbers(slope(moved(1e-5))), numbers(slope(moved(-1e-5)))];
    const product = numbers(jit((given: typeof start) => jvp(grad(total), [given], [along]).tangent)(start));
    expectClose(
      product,
      after.map((value, place) => (value - (before[place] as number)) / 2e-5),
      1e-5,
      1e-5,
    );
    expect(product.some((value) => value !== 0)).toBe(leaves.length > 0 || isFloat);
  });
});

describe("on two devices, the batch in halves", () => {
  const axes = mesh({ data: 2 });
  const two = localRuntime({ axes: axes.axes });
  afterAll(() => two.close());
  test.each(partOf(table, 4, 3))("%s", (_name, row) => {
    const { params, x, loss } = prepared(row);
    const split = distribute(two, x.dataSync(), { dtype: x.dtype, shape: x.shape }, shardedOn(axes, { data: 0 }));
    const step = jit((given: Params, batch: Tensor) => ({
      loss: loss(given, batch),
      slopes: grad(loss)(given, batch),
    }));
    expectClose(numbers(step(params, split)), numbers(step(params, x)), 1e-11);
  });
});
