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
import type { ExportableFunction } from "../../src/adapters/onnx/export.ts";
import { reduceWindows } from "../../src/adapters/onnx/windows.ts";
import * as h from "../../src/functions/index.ts";
import type { TensorType } from "../../src/ir/shape.ts";
import { exportedControl } from "./exported-control.ts";

/** Windows whose elements are two apart. */
const gapped = {
  sizes: [2, 3],
  strides: [1, 2],
  dilations: [2, 2],
  padding: [
    [0, 1],
    [1, 0],
  ],
} as const;

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
  tan: h.tan,
  asin: (x: Tensor) => h.asin(h.sin(x)),
  acos: (x: Tensor) => h.acos(h.sin(x)),
  atan: h.atan,
  sinh: h.sinh,
  cosh: h.cosh,
  asinh: h.asinh,
  acosh: (x: Tensor) => h.acosh(x.abs().add(1)),
  atanh: (x: Tensor) => h.atanh(h.sin(x)),
  exp2: h.exp2,
  log2: (x: Tensor) => h.log2(x.abs()),
  cbrt: h.cbrt,
  erfc: h.erfc,
  trunc: (x: Tensor) => h.trunc(x.mul(3)),
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
  two("product of integers", (x, y) => x.matmul(y), i32(3, 4), i32(4, 2)),
  two("product of bytes", (x, y) => x.cast("u8").matmul(y.cast("u8").mul(90)), i32(3, 4), i32(4, 2)),
  two("power of integers", (x, y) => x.pow(y.abs()).add(x.cast("i8").pow(2).cast("i32")), i32(3, 4), i32(4)),
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
  two("grouped conv", (x, y) => conv2d(x, y, { groups: 2, padding: 1 }), f32(2, 4, 5, 5), f32(6, 2, 3, 3)),
  two(
    "grouped conv in another layout",
    (x, y) => conv2d(x, y, { layout: "b01f,01io->b01f", groups: 3, strides: 2 }),
    f32(2, 7, 5, 3),
    f32(3, 3, 1, 6),
  ),
  two(
    "transposed grouped conv",
    (x, y) => {
      const forward = (image: Tensor): Tensor => conv2d(image, y, { strides: 2, groups: 2 });
      return vjp(forward, h.zeros([2, 4, 7, 7])).pullback(x)[0] as Tensor;
    },
    f32(2, 6, 3, 3),
    f32(6, 2, 3, 3),
  ),
  two(
    "conv with gaps in its input and strides",
    (x, y) => conv2d(x, y, { inputDilation: [2, 3], strides: [3, 2], padding: 1, groups: 2 }),
    f32(2, 4, 4, 3),
    f32(6, 2, 2, 3),
  ),
  one("least of windows", (x) => h.reduceWindow(x, [2, 3], { op: "min", strides: 2, padding: [1, 0] }), f32(5, 7)),
  one("maxPool2d with gaps", (x) => maxPool2d(x, 2, { dilation: 2, strides: 1 }), f32(1, 2, 7, 7)),
  one("sums of windows with gaps", (x) => reduceWindows("sum", x, gapped, 0), f32(2, 2, 7, 7)),
  ...[false, true].map((descending) => one(`sort ${descending}`, (x) => h.sort(x, 0, { descending }), f32(5, 3))),
  one("sort of whole numbers, with ties", (x) => h.argsort(x, -1), i32(4, 9)),
  two("sort of several", (x, y) => h.sortTogether([x, y], 1)[1] as Tensor, f32(4, 5), i32(4, 5)),
  one("topK", (x) => h.topK(x, 3, 0).values.mul(h.topK(x, 3, 0).indices.cast("f32")), f32(6, 2)),
  ...(["sum", "prod", "max", "min"] as const).map((op) =>
    two(`scatter ${op}`, (x, y) => h.scatter(h.ones([5, 2]), y, x, { op }), f32(3, 4, 2), i32(3, 4)),
  ),
  one(
    "scatter replace",
    (x) => h.scatter(h.ones([5, 2]), h.tensor([3, 0], { dtype: "i32" }), x, { op: "replace" }),
    f32(2, 2),
  ),
  two("scatterAlongDim", (x, y) => h.scatterAlongDim(h.ones([2, 4]), y, x, 1, { op: "sum" }), f32(2, 7), i32(2, 7)),
  two("scatterAdd", (x, y) => h.scatterAdd(x, y, 4), f32(6, 3), i32(6)),
  two(
    "dynamic slices",
    (x, y) => {
      const start = (place: number): Tensor => y.slice([place], [place + 1]).reshape([]);
      const part = h.dynamicSlice(x, [start(0), start(1)], [2, 3]);
      return h.dynamicUpdateSlice(x, part.neg(), [start(2), start(3)]);
    },
    f32(4, 5),
    i32(4),
  ),
  one("fft", (x) => h.fft(x, 2), f32(2, 4, 6, 2)),
  one("ifft", (x) => h.ifft(x), f32(5, 2)),
  one("rfft", (x) => h.rfft(x, 2), f32(3, 4, 6)),
  one("irfft, even", (x) => h.irfft(x, 6, 2), f32(3, 4, 4, 2)),
  one("irfft, odd", (x) => h.irfft(x, 7), f32(3, 4, 2)),
  one(
    "gradient of a slice with steps",
    (x) => vjp((y) => y.slice([1, 0], [8, 5], [3, 2]), h.zeros([9, 6])).pullback(x)[0] as Tensor,
    f32(3, 3),
  ),
  network("norms", nn.sequential(nn.layerNorm(), nn.linear(6), nn.rmsNorm()), f32(3, 8)),
  one("maxPool2d with padding", (x) => maxPool2d(x, 3, { strides: 2, padding: 1 }), f32(1, 2, 7, 7)),
  two("gather", (x, y) => gather(x, y), f32(5, 3), i32(2, 4)),
  two("gather of a batch", (x, y) => gather(x, y, 1), f32(2, 5, 3), i32(2, 4)),
  two("cross-entropy", (x, y) => losses.softmaxCrossEntropy(x, y), f32(6, 5), i32(6)),
  ...exportedControl,
];
