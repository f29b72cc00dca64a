/** @module Functions that are exported to ONNX, with the types of their inputs: rows of tests here and with ONNX Runtime. */

import {
  conv2d,
  dotGeneral,
  gather,
  isFinite,
  losses,
  maxPool2d,
  nn,
  random,
  type Tensor,
  type Tensors,
  vjp,
} from "heddle";
import type { ExportableFunction } from "../../src/io/onnx/export.ts";
import type { TensorType } from "../../src/ir/shape.ts";
import * as h from "../../src/tensor/index.ts";

export interface Exported {
  readonly name: string;
  readonly fn: ExportableFunction;
  readonly inputs: { readonly [name: string]: TensorType };
  readonly names?: Tensors;
}

const f32 = (...shape: number[]): TensorType => ({ dtype: "f32", shape });
const i32 = (...shape: number[]): TensorType => ({ dtype: "i32", shape });

function network(name: string, model: nn.Layer, input: TensorType): Exported {
  const { params, state } = model.init(random.key(1), input);
  return { name, fn: ({ x }) => model.apply({ params, state }, x as Tensor).y, inputs: { x: input }, names: params };
}

const one = (name: string, fn: (x: Tensor) => Tensor, type: TensorType): Exported => ({
  name,
  fn: ({ x }) => fn(x as Tensor),
  inputs: { x: type },
});
const two = (name: string, fn: (x: Tensor, y: Tensor) => Tensor, x: TensorType, y: TensorType): Exported => ({
  name,
  fn: (given) => fn(given["x"] as Tensor, given["y"] as Tensor),
  inputs: { x, y },
});

const unary = {
  neg: h.neg,
  abs: h.abs,
  sign: h.sign,
  exp: h.exp,
  expm1: h.expm1,
  tanh: h.tanh,
  sigmoid: h.sigmoid,
  softplus: h.softplus,
  erf: h.erf,
  sin: h.sin,
  cos: h.cos,
  floor: h.floor,
  ceil: h.ceil,
  round: h.round,
  relu: h.relu,
};
const binary = {
  add: h.add,
  sub: h.sub,
  mul: h.mul,
  div: h.div,
  rem: h.rem,
  maximum: h.maximum,
  minimum: h.minimum,
  eq: h.eq,
  ne: h.ne,
  lt: h.lt,
  le: h.le,
  gt: h.gt,
  ge: h.ge,
};

export const exported: readonly Exported[] = [
  network(
    "convolutional",
    nn.sequential(
      nn.conv2d({ out: 4, kernel: 3, padding: "same" }),
      nn.relu(),
      nn.maxPool2d(2),
      nn.conv2d({ out: 6, kernel: 3, strides: 2, dilation: 1 }),
      nn.gelu(),
      nn.flatten(),
      nn.dropout(0.5),
      nn.linear(10),
      nn.softmax(),
    ),
    f32(2, 1, 12, 12),
  ),
  network("perceptron", nn.sequential(nn.linear(8), nn.tanh(), nn.linear(3), nn.logSoftmax()), f32(5, 4)),
  ...Object.entries(unary).map(([name, fn]) => one(name, fn, f32(3, 4))),
  ...Object.entries(binary).map(([name, fn]) => two(name, fn, f32(3, 4), f32(4))),
  one(
    "log, sqrt, rsqrt, log1p, pow",
    (x) =>
      x
        .abs()
        .add(0.5)
        .log()
        .abs()
        .sqrt()
        .add(h.rsqrt(x.abs().add(1)))
        .add(h.log1p(x.abs()))
        .pow(2),
    f32(7),
  ),
  one(
    "sums",
    (x) =>
      x
        .sum(0)
        .add(x.mean([0, 1]))
        .add(x.max(0))
        .sub(x.min()),
    f32(3, 4),
  ),
  one("cumsum", (x) => h.cumsum(x, 0), f32(3, 4)),
  one("argMax", (x) => x.argMax(1), f32(3, 4)),
  one("logSumExp", (x) => h.logSumExp(x, -1), f32(3, 4)),
  one("moves", (x) => h.reverse(x.transpose().slice([1, 0], [4, 3], [2, 1]), [0]).reshape([-1]), f32(3, 4)),
  one(
    "pad and concat",
    (x) =>
      h.concat(
        [
          h.pad(
            x,
            [
              [1, 0],
              [0, 2],
            ],
            3,
          ),
          h.pad(x, [
            [0, 1],
            [2, 0],
          ]),
        ],
        1,
      ),
    f32(2, 3),
  ),
  one("select and casts", (x) => h.select(h.and(x.gt(0), isFinite(x)), x.cast("i32"), h.arange(4)), f32(3, 4)),
  two("batched product", (x, y) => x.matmul(y), f32(2, 3, 4), f32(2, 4, 5)),
  two(
    "dotGeneral",
    (x, y) => dotGeneral(x, y, { xBatch: [2], yBatch: [0], xContract: [0], yContract: [2] }),
    f32(3, 5, 2),
    f32(2, 4, 3),
  ),
  two(
    "conv in another layout",
    (x, y) => conv2d(x, y, { layout: "b01f,01io->b01f", padding: 1 }),
    f32(2, 5, 5, 3),
    f32(3, 3, 3, 4),
  ),
  // The gradient of a convolution with strides: a transposed one.
  two(
    "transposed conv",
    (x, y) => {
      const forward = (image: Tensor): Tensor => conv2d(image, y, { strides: 2, padding: 1 });
      return vjp(forward, h.zeros([1, 2, 7, 7])).pullback(x)[0] as Tensor;
    },
    f32(1, 3, 4, 4),
    f32(3, 2, 3, 3),
  ),
  one("maxPool2d with padding", (x) => maxPool2d(x, 3, { strides: 2, padding: 1 }), f32(1, 2, 7, 7)),
  two("gather", (x, y) => gather(x, y), f32(5, 3), i32(2, 4)),
  two("gather of a batch", (x, y) => gather(x, y, 1), f32(2, 5, 3), i32(2, 4)),
  two("cross-entropy", (x, y) => losses.softmaxCrossEntropy(x, y), f32(6, 5), i32(6)),
];
