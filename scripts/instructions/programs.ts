/** @module The ten small programs whose instructions are counted: together they pass through most kernels of a training. */
import {
  conv2d,
  losses,
  maxPool2d,
  nn,
  optim,
  scaledDotProductAttention,
  softmaxCrossEntropy,
  type Tensor,
  type Tensors,
  valueAndGrad,
} from "heddle";
import type { TensorType } from "heddle/ir";
import { evalShape } from "heddle/tensor";

const f32 = (...shape: number[]): TensorType => ({ shape, dtype: "f32" });
const i32 = (...shape: number[]): TensorType => ({ shape, dtype: "i32" });

/** A function and the types of its arguments. Integers are below `classes`. */
export interface CountedProgram {
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: functions of any arguments
  readonly fn: (...inputs: any[]) => unknown;
  readonly inputs: readonly unknown[];
  readonly classes?: number;
}

/** What a training holds between steps. */
type Held = { readonly params: Tensors; readonly state: Tensors };

/** The types of what is held for a layer and an optimizer. */
function heldBy(layer: nn.Layer, optimizer: optim.Optimizer, input: TensorType): unknown {
  const first = (key: Tensor): Held => {
    const params = layer.init(key, input).params as Tensors;
    return { params, state: optimizer.init(params) };
  };
  return evalShape(first, { shape: [2], dtype: "u32" });
}

/** A step that trains a layer on `x` and the labels `y`. */
const training =
  (layer: nn.Layer, optimizer: optim.Optimizer) =>
  ({ params, state }: Held, x: Tensor, y: Tensor): unknown => {
    const outputs = (values: Tensors): Tensor =>
      layer.apply({ params: values, state: {} }, x, { train: true }).y as Tensor;
    const { value, grad } = valueAndGrad((values: Tensors) => losses.softmaxCrossEntropy(outputs(values), y))(params);
    return [value, optimizer.update(grad, state, params, { step: 3 })];
  };

const sgd = optim.sgd({ learningRate: 0.01, momentum: 0.9, nesterov: true });
const adam = optim.adam({ learningRate: 0.01 });
const adagrad = optim.adagrad({ learningRate: 0.01 });
const mlp = nn.sequential(nn.linear(128), nn.relu(), nn.linear(10));
const lstm = nn.sequential(nn.lstm({ hidden: 64 }), nn.linear(16));
const bag = nn.sequential(nn.embeddingBag(2000, 16, { mode: "sum" }), nn.linear(10));
const norm = nn.layerNorm();

export const countedPrograms: readonly CountedProgram[] = [
  { name: "mlp", fn: training(mlp, sgd), inputs: [heldBy(mlp, sgd, f32(32, 196)), f32(32, 196), i32(32)], classes: 10 },
  {
    name: "convolution",
    fn: (kernel: Tensor, x: Tensor) =>
      valueAndGrad((k: Tensor) => maxPool2d(conv2d(x, k, { padding: "same" }).relu(), 2).sum())(kernel),
    inputs: [f32(16, 8, 5, 5), f32(4, 8, 14, 14)],
  },
  {
    name: "attention",
    fn: (q: Tensor, k: Tensor, v: Tensor) =>
      valueAndGrad((of: { q: Tensor; k: Tensor; v: Tensor }) =>
        scaledDotProductAttention(of.q, of.k, of.v, { causal: true }).square().sum(),
      )({ q, k, v }),
    inputs: [f32(2, 2, 64, 32), f32(2, 2, 64, 32), f32(2, 2, 64, 32)],
  },
  {
    name: "lstm",
    fn: training(lstm, adam),
    inputs: [heldBy(lstm, adam, f32(8, 16, 32)), f32(8, 16, 32), i32(8, 16)],
    classes: 16,
  },
  {
    name: "embeddings",
    fn: training(bag, adagrad),
    inputs: [heldBy(bag, adagrad, i32(256, 8)), i32(256, 8), i32(256)],
    classes: 10,
  },
  {
    name: "cross-entropy",
    fn: (logits: Tensor, labels: Tensor) => valueAndGrad((x: Tensor) => softmaxCrossEntropy(x, labels).mean())(logits),
    inputs: [f32(128, 512), i32(128)],
    classes: 512,
  },
  {
    name: "layer-norm",
    fn: (weight: Tensor, bias: Tensor, x: Tensor) =>
      valueAndGrad((params: { weight: Tensor; bias: Tensor }) =>
        (norm.apply({ params, state: {} }, x).y as Tensor).square().sum(),
      )({ weight, bias }),
    inputs: [f32(256), f32(256), f32(128, 256)],
  },
  { name: "product", fn: (a: Tensor, b: Tensor) => a.matmul(b), inputs: [f32(192, 200), f32(200, 256)] },
  { name: "product-of-few-rows", fn: (a: Tensor, b: Tensor) => a.matmul(b), inputs: [f32(4, 512), f32(512, 512)] },
  {
    name: "chain",
    fn: (a: Tensor, b: Tensor) => a.mul(b).add(1).sigmoid().mul(a.tanh()).sub(b.mul(0.5)).exp().sqrt(),
    inputs: [f32(200_000), f32(200_000)],
  },
];
