/** @module Rows from bug reports against other libraries, with the numbers of the reports. */
import { gradients } from "../../../src/autodiff/index.ts";
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import {
  add,
  broadcastInDim,
  call,
  concat,
  einsumPair,
  gather,
  logSoftmax,
  matmul,
  max,
  maximum,
  mean,
  mul,
  oneHot,
  pow,
  slice,
  sum,
} from "../../support/nodes.ts";
import type { Row } from "../../support/row.ts";
import { given, scalar } from "../../support/tensors.ts";

const nan = Number.NaN;
const matrix = (...rows: number[][]) => given("f32", [rows.length, rows[0]?.length as number], rows.flat());

const gradientOf =
  (value: (...inputs: Node[]) => Node, ...by: number[]) =>
  (...inputs: Node[]): Node[] =>
    gradients(
      value(...inputs),
      by.map((index) => inputs[index] as Node),
    );

const dilated = {
  layout: "b01f,01io->b01f",
  strides: [1, 1],
  padding: [
    [0, 0],
    [0, 0],
  ],
  inputDilation: [1, 1],
  kernelDilation: [2, 2],
};

const roll = (x: Node, dim: number): Node => {
  const cut = (from: number, to: number): Node =>
    slice(
      x,
      x.shape.map((_size, index) => (index === dim ? from : 0)),
      x.shape.map((size, index) => (index === dim ? to : size)),
    );
  const size = x.shape[dim] as number;
  return concat([cut(size - 1, size), cut(0, size - 1)], dim);
};

const gradientReports: readonly Row[] = [
  {
    op: "dot",
    title: "tfjs#8721: gradient of a batched product with a shared matrix",
    inputs: [given("f32", [2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]), matrix([9, 10], [11, 12])],
    build: gradientOf((a, b) => sum(matmul(a, b)), 0, 1),
    expected: () => [
      [19, 23, 19, 23, 19, 23, 19, 23],
      [16, 16, 20, 20],
    ],
    gradient: true,
  },
  {
    op: "max",
    title: "tfjs-core#635: gradient of maximum with a broadcast operand",
    inputs: [matrix([1, 5], [3, 0]), given("f32", [2], [2, 2])],
    build: gradientOf((a, b) => sum(maximum(a, b)), 1),
    expected: () => [[1, 1]],
    gradient: true,
  },
  {
    op: "max",
    title: "ties share the gradient",
    inputs: [given("f32", [2], [2, 1]), given("f32", [2], [2, 3])],
    build: gradientOf((a, b) => sum(maximum(a, b)), 0, 1),
    expected: () => [
      [0.5, 0],
      [0.5, 1],
    ],
    gradient: false,
  },
  {
    op: "reduce",
    title: "ties of max share the gradient",
    inputs: [given("f32", [4], [2, 7, 7, 1])],
    build: gradientOf((x) => max(x), 0),
    expected: () => [[0, 0.5, 0.5, 0]],
    gradient: false,
  },
  {
    op: "relu",
    title: "no gradient at 0",
    inputs: [given("f32", [4], [-1, 0, -0, 1])],
    build: gradientOf((x) => sum(call("relu", [x])), 0),
    expected: () => [[0, 0, 0, 1]],
    gradient: false,
  },
  {
    op: "stopGradient",
    title: "a factor that is held",
    inputs: [given("f32", [3], [-1, 0, 2])],
    build: gradientOf((x) => sum(mul(call("stopGradient", [x]), x)), 0),
    expected: () => [[-1, 0, 2]],
    gradient: false,
  },
  {
    op: "stopGradient",
    title: "log-softmax of many equal values and a larger one: no rounding of cotangents reaches the largest",
    inputs: [
      given(
        "f32",
        [20_001],
        Array.from({ length: 20_001 }, (_unused, index) => (index === 7 ? 1 : 0)),
      ),
    ],
    build: gradientOf((x) => sum(logSoftmax(x)), 0),
    expected: (x) => {
      const values = Array.from((x as HostTensor).data);
      const total = values.reduce((all, value) => all + Math.exp(value), 0);
      return [values.map((value) => 1 - (20_001 * Math.exp(value)) / total)];
    },
    tolerance: 1e-4,
    gradient: false,
  },
  {
    op: "dot",
    title: "tfjs#7722: gradient of einsum ij,jk->ik of x with itself",
    inputs: [matrix([1, 2], [3, 4])],
    build: gradientOf((x) => sum(einsumPair(x, ["i", "j"], x, ["j", "k"], ["i", "k"])), 0),
    expected: () => [[7, 11, 9, 13]],
    gradient: true,
  },
  {
    op: "conv",
    title: "tfjs#7906: gradient by a dilated kernel",
    inputs: [given("f32", [1, 5, 5, 1], new Array(25).fill(1)), given("f32", [2, 2, 1, 1], [1, 1, 1, 1])],
    build: gradientOf((x, kernel) => sum(call("conv", [x, kernel], dilated)), 1),
    expected: () => [[9, 9, 9, 9]],
    gradient: true,
  },
  {
    op: "pow",
    title: "tfjs#346: gradients of pow at and below 0",
    inputs: [given("f32", [4], [0, 0, -2, 0]), given("f32", [4], [2, 0, 2, 2])],
    build: gradientOf((x, y) => sum(pow(x, y)), 0, 1),
    expected: () => [
      [0, 0, -4, 0],
      [0, 0, 0, 0],
    ],
    gradient: false,
  },
  {
    op: "broadcast",
    title: "tfjs#4151: an input of size 1 gathers the gradients of all",
    inputs: [given("f32", [1], [1]), given("f32", [2], [2, 3])],
    build: gradientOf((x, y) => sum(mul(x, y)), 0),
    expected: () => [[5]],
    gradient: true,
  },
  {
    op: "abs",
    title: "gradient at 0 is 0",
    inputs: [given("f32", [2], [0, -3])],
    build: gradientOf((x) => sum(call("abs", [x])), 0),
    expected: () => [[0, -1]],
    gradient: false,
  },
];

const quarter = 4194304;
const means = [2132166414.05, 1061001875.34, -1378280739.46, 580317280.62, 189636615.93, 1046490414.98];

const valueReports: readonly Row[] = [
  {
    op: "reduce",
    title: "jax-js#186: mean of integers",
    inputs: [given("i32", [4], [1, 2, 3, 4])],
    build: (x) => [mean(x)],
    expected: () => [[2.5]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "jax-js#186: mean of truth values",
    inputs: [given("bool", [3], [1, 0, 1])],
    build: (x) => [mean(x)],
    expected: () => [[2 / 3]],
    gradient: false,
  },
  {
    op: "concat",
    title: "jax-js#146: roll by 1 on both dims",
    inputs: [matrix([1, 2, 3], [4, 5, 6], [7, 8, 9])],
    build: (x) => [roll(roll(x, 0), 1)],
    expected: () => [[9, 7, 8, 3, 1, 2, 6, 4, 5]],
    gradient: true,
  },
  ...[2, 3, 4].map(
    (count): Row => ({
      op: "reduce",
      title: `onnxruntime#10514: max with ${count} NaNs before 42`,
      inputs: [given("f32", [count + 1], [...new Array<number>(count).fill(nan), 42])],
      build: (x) => [max(x)],
      expected: () => [[nan]],
      gradient: false,
    }),
  ),
  {
    op: "iota",
    title: "tfjs#443: oneHot of classes out of range is all zeros",
    inputs: [given("i32", [3], [-1, 5, 12345])],
    build: (x) => [oneHot(x, 5)],
    expected: () => [new Array<number>(15).fill(0)],
    gradient: false,
  },
  {
    op: "gather",
    title: "tfjs#1147: index -1 is an error",
    inputs: [matrix([1, 2], [3, 4]), given("i32", [1], [-1])],
    build: (x, where) => [gather(x, where)],
    fails: /gather.*index -1 at position 0 is outside \[0, 2\)/,
    gradient: false,
  },
  {
    op: "slice",
    title: "tfjs#1588: splitting nothing",
    inputs: [given("f32", [0, 4], [])],
    build: (x) => [0, 1, 2, 3].map((part) => slice(x, [0, part], [0, part + 1])),
    expected: () => [[], [], [], []],
    gradient: true,
  },
  {
    op: "reduce",
    title: "tfjs#5641: exact sum of 4,194,304 integers",
    inputs: [scalar("i32", 239), scalar("i32", -1)],
    build: (x, last) => [add(sum(broadcastInDim(x, [quarter], [])), last)],
    expected: () => [[1002438655]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "tfjs#8401: mean of large floats",
    inputs: [given("f32", [6], means)],
    build: (x) => [mean(x)],
    // Exact is 605221984. The sum, 3.6e9, has neighbours 256 apart in f32, and one of them may be taken at each of five additions.
    expected: () => [[605221984]],
    tolerance: 3e-7,
    gradient: false,
  },
];

export const reportTable: readonly Row[] = [...gradientReports, ...valueReports];
