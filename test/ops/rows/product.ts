/** @module Rows of products and convolutions, by sums over indices. */

import { roundTo } from "../../../src/ir/dtype.ts";
import type { HostTensor } from "../../../src/ir/node.ts";
import { convDims, matmul } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import { at, build, floats, given, indices, ints, total } from "../../support/tensors.ts";

const linear = ["P(sum), R -> P(sum)", "R, P(sum) -> P(sum)"];
const dims = (xContract: number[], yContract: number[], xBatch: number[] = [], yBatch: number[] = []) => ({
  xBatch,
  yBatch,
  xContract,
  yContract,
});

const dotRows: readonly Row[] = [
  {
    op: "dot",
    title: "matrix product",
    inputs: [floats([4, 8]), floats([8, 4])],
    attrs: dims([1], [0]),
    expected: (x, y) => [build([4, 4], (m, n) => total(build([8], (k) => at(x, [m, k]) * at(y, [k, n]))))],
    gradient: true,
    shardings: ["S(0), R -> S(0)", "R, S(1) -> S(1)", "S(1), S(0) -> P(sum)", ...linear],
  },
  {
    op: "dot",
    title: "batched, batch in the middle",
    inputs: [floats([4, 8, 3]), floats([8, 3, 4])],
    attrs: dims([2], [1], [1], [0]),
    expected: (x, y) => [build([8, 4, 4], (b, m, n) => total(build([3], (k) => at(x, [m, b, k]) * at(y, [b, k, n]))))],
    gradient: true,
    shardings: ["S(1), S(0) -> S(0)", "S(0), R -> S(1)", "R, S(2) -> S(2)", "S(2), S(1) -> P(sum)", ...linear],
  },
  {
    op: "dot",
    title: "two contracted dims",
    inputs: [floats([4, 2, 4]), floats([4, 4, 2])],
    attrs: dims([1, 2], [2, 0]),
    expected: (x, y) => [build([4, 4], (m, n) => total(build([2, 4], (j, k) => at(x, [m, j, k]) * at(y, [k, n, j]))))],
    gradient: true,
    shardings: ["S(0), R -> S(0)", "R, S(1) -> S(1)", "S(1), S(2) -> P(sum)", "S(2), S(0) -> P(sum)", ...linear],
  },
  {
    op: "dot",
    title: "outer product",
    inputs: [floats([4]), floats([8])],
    attrs: dims([], []),
    expected: (x, y) => [build([4, 8], (m, n) => at(x, [m]) * at(y, [n]))],
    gradient: true,
    shardings: ["S(0), R -> S(0)", "R, S(0) -> S(1)", ...linear],
  },
  {
    op: "dot",
    title: "matmul of two vectors",
    inputs: [floats([8]), floats([8])],
    build: (x, y) => [matmul(x, y)],
    expected: (x, y) => [[total(build([8], (k) => at(x, [k]) * at(y, [k])))]],
    gradient: true,
  },
  {
    op: "dot",
    title: "inner product",
    inputs: [floats([8]), floats([8])],
    attrs: dims([0], [0]),
    expected: (x, y) => [[total(build([8], (k) => at(x, [k]) * at(y, [k])))]],
    gradient: true,
    shardings: ["S(0), S(0) -> P(sum)", ...linear],
  },
  {
    op: "dot",
    title: "all batch",
    inputs: [floats([4, 4]), floats([4, 4])],
    attrs: dims([], [], [0, 1], [1, 0]),
    expected: (x, y) => [build([4, 4], (a, b) => at(x, [a, b]) * at(y, [b, a]))],
    gradient: true,
    shardings: ["S(0), S(1) -> S(0)", "S(1), S(0) -> S(1)", ...linear],
  },
  ...(["i32", "u8", "i8", "u32"] as const).map(
    (dtype): Row => ({
      op: "dot",
      title: `integers wrap (${dtype})`,
      inputs: [ints([4, 8], 0, 100, dtype), ints([8, 4], 50, 100, dtype)],
      attrs: dims([1], [0]),
      expected: (x, y) => [
        build([4, 4], (m, n) => roundTo(dtype, total(build([8], (k) => at(x, [m, k]) * at(y, [k, n]))))),
      ],
      gradient: false,
      shardings: ["S(0), R -> S(0)", "R, S(1) -> S(1)", "S(1), S(0) -> P(sum)", ...linear],
    }),
  ),
  {
    op: "dot",
    title: "large integers wrap",
    inputs: [given("i32", [1, 3], [65536, 123456789, -1]), given("i32", [3, 2], [65536, 2, 987654321, 0, 5, 7])],
    attrs: dims([1], [0]),
    expected: () => [[-67153024, 131065]],
    gradient: false,
  },
  {
    op: "dot",
    title: "contracting nothing gives 0",
    inputs: [given("f32", [2, 0], []), given("f32", [0, 2], [])],
    attrs: dims([1], [0]),
    expected: () => [[0, 0, 0, 0]],
    gradient: true,
  },
  {
    op: "dot",
    title: "NaN times 0",
    inputs: [given("f32", [1, 2], [Number.NaN, 1]), given("f32", [2, 1], [0, 1])],
    attrs: dims([1], [0]),
    expected: () => [[Number.NaN]],
    gradient: false,
  },
  {
    op: "dot",
    title: "odd sizes beyond a tile",
    inputs: [floats([17, 33]), floats([33, 19])],
    attrs: dims([1], [0]),
    expected: (x, y) => [build([17, 19], (m, n) => total(build([33], (k) => at(x, [m, k]) * at(y, [k, n]))))],
    gradient: false,
  },
];

interface Conv {
  readonly layout: string;
  readonly strides: number[];
  readonly padding: [number, number][];
  readonly inputDilation: number[];
  readonly kernelDilation: number[];
}

/** The definition: a sum over features and taps, with dilated input and kernel spelled out. */
function convolve(x: HostTensor, kernel: HostTensor, conv: Conv, out: readonly number[]): number[] {
  const letters = convDims(conv.layout);
  const sizes = new Map([...letters.kernel].map((letter, dim) => [letter, kernel.shape[dim] as number]));
  const read = (tensor: HostTensor, order: string, where: ReadonlyMap<string, number>): number =>
    at(
      tensor,
      [...order].map((letter) => where.get(letter) as number),
    );
  const taps = indices([sizes.get("i") as number, ...letters.spatial.map((digit) => sizes.get(digit) as number)]);
  const place = (position: number, tap: number, d: number): number => {
    const dilated =
      position * (conv.strides[d] as number) +
      tap * (conv.kernelDilation[d] as number) -
      (conv.padding[d]?.[0] as number);
    const step = conv.inputDilation[d] as number;
    return dilated % step === 0 ? dilated / step : -1;
  };
  return build(out, (...index) => {
    const position = new Map([...letters.out].map((letter, dim) => [letter, index[dim] as number]));
    return total(
      taps.map(([i, ...tap]) => {
        const spots = letters.spatial.map(
          (digit, d) => [digit, place(position.get(digit) as number, tap[d] as number, d)] as const,
        );
        const group = ["g", position.get("g") ?? 0] as const;
        const where = new Map<string, number>([
          ["b", position.get("b") as number],
          ["f", i as number],
          group,
          ...spots,
        ]);
        const weight = new Map<string, number>([
          ["i", i as number],
          ["o", position.get("f") as number],
          group,
          ...letters.spatial.map((digit, d) => [digit, tap[d] as number] as const),
        ]);
        return read(x, letters.x, where) * read(kernel, letters.kernel, weight);
      }),
    );
  });
}

const convRow = (
  title: string,
  conv: Conv,
  x: number[],
  kernel: number[],
  out: number[],
  shardings?: readonly string[],
): Row => ({
  op: "conv",
  title,
  inputs: [floats(x), floats(kernel)],
  attrs: { ...conv },
  expected: (a, b) => [convolve(a, b, conv, out)],
  gradient: true,
  ...(shardings === undefined ? {} : { shardings: [...shardings, ...linear] }),
});

const plain: Conv = {
  layout: "bf01,oi01->bf01",
  strides: [1, 1],
  padding: [
    [0, 0],
    [0, 0],
  ],
  inputDilation: [1, 1],
  kernelDilation: [1, 1],
};
const line: Conv = { layout: "bf0,oi0->bf0", strides: [1], padding: [[0, 0]], inputDilation: [1], kernelDilation: [1] };

const convRows: readonly Row[] = [
  convRow(
    "channels first",
    {
      ...plain,
      padding: [
        [1, 1],
        [1, 1],
      ],
    },
    [4, 4, 3, 3],
    [4, 4, 3, 3],
    [4, 4, 3, 3],
    ["S(0), R -> S(0)", "R, S(0) -> S(1)", "S(1), S(1) -> P(sum)"],
  ),
  convRow(
    "channels last",
    { ...plain, layout: "b01f,01io->b01f" },
    [4, 4, 3, 4],
    [2, 2, 4, 8],
    [4, 3, 2, 8],
    ["S(0), R -> S(0)", "R, S(3) -> S(3)", "S(3), S(2) -> P(sum)"],
  ),
  convRow(
    "strides and uneven padding",
    {
      ...plain,
      strides: [2, 3],
      padding: [
        [1, 0],
        [2, 1],
      ],
    },
    [2, 2, 5, 6],
    [3, 2, 2, 3],
    [2, 3, 3, 3],
  ),
  convRow(
    "kernel dilation",
    {
      ...plain,
      kernelDilation: [2, 1],
      padding: [
        [1, 1],
        [0, 0],
      ],
    },
    [1, 2, 5, 4],
    [2, 2, 2, 2],
    [1, 2, 5, 3],
  ),
  convRow(
    "input dilation: a transposed convolution",
    {
      ...plain,
      inputDilation: [2, 2],
      padding: [
        [1, 1],
        [1, 2],
      ],
    },
    [1, 2, 3, 3],
    [2, 2, 3, 3],
    [1, 2, 5, 6],
  ),
  convRow(
    "negative padding",
    {
      ...plain,
      padding: [
        [-1, 0],
        [0, -1],
      ],
    },
    [1, 1, 5, 5],
    [2, 1, 2, 2],
    [1, 2, 3, 3],
  ),
  convRow("window as large as the input", plain, [2, 3, 4, 4], [5, 3, 4, 4], [2, 5, 1, 1]),
  convRow("one by one", plain, [2, 3, 4, 4], [5, 3, 1, 1], [2, 5, 4, 4]),
  convRow("stride beyond the input's end", { ...plain, strides: [3, 3] }, [1, 1, 6, 5], [1, 1, 2, 2], [1, 1, 2, 2]),
  convRow(
    "one spatial dim",
    { ...line, strides: [2], padding: [[1, 1]] },
    [4, 4, 5],
    [4, 4, 3],
    [4, 4, 3],
    ["S(0), R -> S(0)", "R, S(0) -> S(1)", "S(1), S(1) -> P(sum)"],
  ),
  convRow(
    "batch and features in each other's place",
    { ...plain, layout: "fb01,io01->fb01" },
    [2, 3, 4, 4],
    [2, 5, 3, 3],
    [5, 3, 2, 2],
  ),
  convRow("no images", plain, [0, 2, 3, 3], [2, 2, 2, 2], [0, 2, 2, 2]),
];

/** Groups: lanes of vectors where they are many, one convolution after another where they are few. */
const groupedRows: readonly Row[] = [
  convRow(
    "groups",
    {
      ...plain,
      layout: "bgf01,goi01->bgf01",
      padding: [
        [1, 1],
        [0, 1],
      ],
      strides: [1, 2],
    },
    [4, 4, 4, 3, 3],
    [4, 4, 4, 2, 2],
    [4, 4, 4, 4, 2],
    ["S(0), R -> S(0)", "S(1), S(0) -> S(1)", "R, S(1) -> S(2)", "S(2), S(2) -> P(sum)"],
  ),
  convRow(
    "depthwise, strides and padding",
    {
      ...plain,
      layout: "b01gf,01goi->b01gf",
      strides: [2, 1],
      padding: [
        [1, 1],
        [1, 1],
      ],
    },
    [2, 5, 7, 19, 1],
    [3, 3, 19, 1, 1],
    [2, 3, 7, 19, 1],
  ),
  convRow(
    "depthwise, one channel to two, dilated",
    {
      ...plain,
      layout: "bgf01,goi01->bgf01",
      kernelDilation: [1, 2],
      padding: [
        [0, 0],
        [2, 1],
      ],
    },
    [1, 5, 1, 4, 6],
    [5, 2, 1, 2, 3],
    [1, 5, 2, 3, 5],
  ),
  convRow(
    "depthwise, transposed",
    {
      ...plain,
      layout: "bgf01,goi01->bgf01",
      inputDilation: [2, 3],
      padding: [
        [1, 2],
        [-1, 1],
      ],
    },
    [2, 9, 1, 3, 3],
    [9, 1, 1, 3, 2],
    [2, 9, 1, 6, 6],
  ),
  convRow(
    "groups, transposed",
    {
      ...plain,
      layout: "bgf01,goi01->bgf01",
      inputDilation: [2, 2],
      padding: [
        [1, 1],
        [0, 1],
      ],
    },
    [2, 2, 3, 3, 2],
    [2, 1, 3, 2, 2],
    [2, 2, 1, 6, 3],
  ),
  convRow(
    "transposed, gaps between taps",
    { ...line, inputDilation: [3], kernelDilation: [2], padding: [[2, -1]] },
    [2, 4, 3],
    [1, 4, 3],
    [2, 1, 4],
  ),
  convRow("depthwise, no rows", { ...line, layout: "bg0f,go0i->bg0f" }, [2, 5, 3, 1], [5, 1, 3, 1], [2, 5, 1, 1]),
];

const volume: Conv = {
  layout: "bf012,oi012->bf012",
  strides: [1, 1, 1],
  padding: [
    [0, 0],
    [0, 0],
    [1, 0],
  ],
  inputDilation: [1, 1, 1],
  kernelDilation: [1, 1, 1],
};

const volumes: readonly Row[] = [
  convRow("three spatial dims", volume, [1, 2, 3, 3, 2], [2, 2, 2, 2, 2], [1, 2, 2, 2, 2]),
  convRow(
    "three spatial dims, strides and dilations",
    {
      ...volume,
      strides: [2, 1, 1],
      inputDilation: [1, 2, 1],
      kernelDilation: [1, 1, 2],
      padding: [
        [1, 1],
        [0, 1],
        [1, 1],
      ],
    },
    [2, 2, 4, 2, 4],
    [3, 2, 2, 2, 2],
    [2, 3, 3, 3, 4],
  ),
  convRow(
    "three spatial dims, depthwise",
    {
      ...volume,
      layout: "b012gf,012goi->b012gf",
      padding: [
        [1, 0],
        [0, 0],
        [1, 1],
      ],
    },
    [1, 3, 3, 4, 10, 1],
    [2, 2, 3, 10, 1, 1],
    [1, 3, 2, 4, 10, 1],
  ),
];

export const productTable: readonly Row[] = [...dotRows, ...convRows, ...groupedRows, ...volumes];
