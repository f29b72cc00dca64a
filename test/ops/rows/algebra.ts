/** @module Rows of sorting, Fourier transforms and linear algebra, with values of NumPy and SciPy. */
import { isFloat } from "../../../src/ir/dtype.ts";
import type { Attrs, Node } from "../../../src/ir/node.ts";
import { range, sizeOf } from "../../../src/ir/shape.ts";
import { fixture } from "../../fixtures/fixture.ts";
import * as ops from "../../support/nodes.ts";
import type { Row } from "../../support/row.ts";
import { distinct, floats, given, ints, type Source } from "../../support/tensors.ts";

interface Case {
  readonly name: string;
  readonly shapes: readonly (readonly number[])[];
  readonly inputs: readonly (readonly number[])[];
  readonly outputs: readonly (readonly number[])[];
  readonly length?: readonly number[];
  readonly attrs?: Attrs;
  readonly kind?: string;
  readonly share?: number;
  readonly dim?: number;
}

const cases = fixture<Case>("algebra");
const sources = ({ shapes, inputs }: Case): Source[] =>
  inputs.map((values, index) => given("f32", shapes[index] as readonly number[], values));
const results =
  (op: string, attrs: Attrs) =>
  (...inputs: Node[]) =>
    ops.resultsOf(ops.call(op, inputs, attrs));

/** One splits the batch, as the dim before all others. */
const overBatch = (inputs: number, outputs: number): string => {
  const side = (count: number): string =>
    range(count)
      .map(() => "S(0)")
      .join(", ");
  return `${side(inputs)} -> ${side(outputs)}`;
};

const transforms = cases.flatMap((one): Row[] => {
  const [kind, ...title] = one.name.split(" ");
  if (one.length === undefined) return [];
  return [
    {
      op: "fft",
      title: one.name,
      inputs: sources(one),
      attrs: { kind: kind as string, length: one.length },
      expected: () => one.outputs,
      gradient: sizeOf(one.length) < 9,
      ...(title.join(" ") === "odd" ? { shardings: [overBatch(1, 1), "P(sum) -> P(sum)"] } : {}),
    },
  ];
});

const factorOps: { readonly [op: string]: number } = { cholesky: 1, triangularSolve: 1, lu: 3, qr: 3, svd: 3, eigh: 2 };

const factors = cases.flatMap((one, index): Row[] => {
  const op = one.name.split(" ")[0] as string;
  const count = factorOps[op];
  if (count === undefined) return [];
  const attrs = one.attrs ?? {};
  const build = (...inputs: Node[]) => results(op, attrs)(...inputs).slice(0, one.outputs.length);
  const first = cases.findIndex(({ name }) => name.split(" ")[0] === op) === index;
  const shardings =
    op === "triangularSolve" ? [overBatch(2, 1), "R, S(2) -> S(2)", "R, P(sum) -> P(sum)"] : [overBatch(1, count)];
  return [
    {
      op,
      title: [one.name, ...Object.keys(attrs).filter((name) => attrs[name] === true)].join(" "),
      inputs: sources(one),
      build,
      expected: () => one.outputs,
      gradient: { step: 1e-5, tolerance: 1e-6 },
      tolerance: 2e-5,
      ...(first ? { shardings } : {}),
      fixed: true,
    },
  ];
});

/** An op that its users give f64. */
const inDouble = (op: string, x: Node, attrs: Attrs = {}): Node[] => [
  ops.cast(ops.call(op, [ops.cast(x, "f64")], attrs), x.dtype),
];

const composedOf: { readonly [name: string]: (one: Case, ...inputs: Node[]) => readonly Node[] } = {
  solve: (_one, a, b) => [ops.solve(a as Node, b as Node)],
  choleskySolve: (_one, a, b) => [ops.choleskySolve(a as Node, b as Node)],
  inverse: (_one, a) => [ops.inverse(a as Node)],
  determinant: (_one, a) => [ops.determinant(a as Node)],
  // Of integers the op has none: cut off, they would be one less where an executor's lie just below.
  cofactors: (_one, a) =>
    isFloat((a as Node).dtype) ? inDouble("cofactors", a as Node) : [ops.call("cofactors", [a as Node])],
  matrixExp: (_one, a) => [ops.matrixExp(a as Node)],
  slogdet: (_one, a) => Object.values(ops.slogdet(a as Node)),
  lstsq: (_one, a, b) => [ops.lstsq(a as Node, b as Node)],
  pinv: (_one, a) => [ops.pinv(a as Node)],
  trace: (_one, a) => [ops.trace(a as Node)],
  matrixNorm: ({ kind }, a) => [ops.matrixNorm(a as Node, kind === "fro" || kind === "nuc" ? kind : Number(kind))],
  argsort: (_one, x) => [ops.argsort(x as Node)],
  median: (_one, x) => [ops.median(x as Node)],
  quantile: ({ share, dim }, x) => [ops.quantile(x as Node, share as number, dim)],
};
const madeOf: { readonly [name: string]: string } = {
  solve: "solve",
  inverse: "solve",
  determinant: "determinant",
  cofactors: "cofactors",
  matrixExp: "matrixExp",
  slogdet: "lu",
  choleskySolve: "cholesky",
  pinv: "svd",
  argsort: "sort",
  median: "sort",
  quantile: "sort",
  trace: "reduce",
};

const composed = cases.flatMap((one, index): Row[] => {
  const build = composedOf[one.name];
  if (build === undefined) return [];
  return [
    {
      op: madeOf[one.name] ?? "qr",
      title: `${one.name} ${index}`,
      inputs: sources(one),
      build: (...inputs) => build(one, ...inputs),
      expected: () => one.outputs,
      gradient: one.name === "argsort" ? false : { step: 1e-5, tolerance: 1e-6 },
      tolerance: one.name === "argsort" ? 0 : 5e-5,
      fixed: true,
    },
  ];
});

const [nan, inf] = [Number.NaN, Infinity];
const sortRow = (
  title: string,
  inputs: readonly Source[],
  descending: boolean,
  expected: readonly (readonly number[])[],
): Row => ({
  op: "sort",
  title,
  inputs,
  build: results("sort", { descending }),
  expected: () => expected,
  gradient: false,
  tolerance: 0,
});
const vector = (dtype: Source["dtype"], values: readonly number[]): Source => given(dtype, [values.length], values);
const counts = (length: number): number[] => range(length);

/** Longer than what is sorted by comparing: digits that many share, ties, and -0 beside 0. */
const long = range(3000).map((index) => Math.fround((((index * 7919) % 997) / 7 - 60) * (index % 3 === 0 ? 1e-3 : 1)));
const longOrder = counts(3000).sort((a, b) => (long[a] as number) - (long[b] as number) || a - b);

const sorts: readonly Row[] = [
  {
    op: "sort",
    title: "keys and values",
    inputs: [distinct([4, 8]), floats([4, 8])],
    build: results("sort", { descending: true }),
    expected: (keys, values) => {
      const order = range(4).map((row) =>
        range(8).sort((a, b) => (keys.data[8 * row + b] as number) - (keys.data[8 * row + a] as number)),
      );
      const follow = (data: ArrayLike<number>) =>
        order.flatMap((list, row) => list.map((at) => data[8 * row + at] as number));
      return [follow(keys.data), follow(values.data)];
    },
    gradient: true,
    shardings: [overBatch(2, 2)],
  },
  sortRow("stable, -0 beside 0", [vector("f32", [2, 0, 1, -0, 1, 2]), vector("i32", counts(6))], false, [
    [0, -0, 1, 1, 2, 2],
    [1, 3, 2, 4, 0, 5],
  ]),
  sortRow("stable when descending", [vector("f32", [2, 0, 1, -0, 1, 2]), vector("i32", counts(6))], true, [
    [2, 2, 1, 1, 0, -0],
    [0, 5, 2, 4, 1, 3],
  ]),
  sortRow("NaN is last", [vector("f32", [nan, 1, inf, nan, -inf]), vector("i32", counts(5))], false, [
    [-inf, 1, inf, nan, nan],
    [4, 1, 2, 0, 3],
  ]),
  sortRow("NaN is first when descending", [vector("f32", [1, nan, inf])], true, [[nan, inf, 1]]),
  sortRow("signed integers", [vector("i32", [3, -2147483648, 0, 2147483647, -1])], false, [
    [-2147483648, -1, 0, 3, 2147483647],
  ]),
  sortRow("unsigned integers", [vector("u32", [4294967295, 0, 2147483648])], true, [[4294967295, 2147483648, 0]]),
  sortRow("truth values", [vector("bool", [1, 0, 1, 0]), vector("u8", [1, 2, 3, 4])], false, [
    [0, 0, 1, 1],
    [2, 4, 1, 3],
  ]),
  sortRow("16-bit floats beside keys", [vector("f32", [3, 1, 2]), vector("bf16", [-0.5, 1, 2.5])], false, [
    [1, 2, 3],
    [1, 2.5, -0.5],
  ]),
  sortRow("nothing", [given("f32", [0, 3], [])], false, [[]]),
  sortRow("rows of nothing", [given("f32", [3, 0], [])], false, [[]]),
  sortRow("a long row", [vector("f32", long), vector("i32", counts(3000))], false, [
    longOrder.map((at) => long[at] as number),
    longOrder,
  ]),
  {
    op: "sort",
    title: "along the first dim",
    inputs: [ints([4, 3], -9, 9)],
    build: (x) => [ops.sort(x as Node, 0)],
    expected: ({ data }) => {
      const columns = range(3).map((column) =>
        range(4)
          .map((row) => data[3 * row + column] as number)
          .sort((a, b) => a - b),
      );
      return [range(12).map((index) => columns[index % 3]?.[Math.floor(index / 3)] as number)];
    },
    gradient: false,
  },
];

const topRows: readonly Row[] = [
  {
    op: "topK",
    title: "floats",
    inputs: [distinct([4, 8])],
    build: (x) => ops.topK(x as Node, 3).slice(0, 1),
    gradient: true,
    expected: ({ data }) => [
      range(4).flatMap((row) => [...data.slice(8 * row, 8 * row + 8)].sort((a, b) => b - a).slice(0, 3)),
    ],
  },
  {
    op: "topK",
    title: "values and indices",
    inputs: [given("f32", [4, 4], [1, 3, 3, 2, nan, 1, 2, inf, -1, -2, -3, -4, 0, -0, 0, 5])],
    build: results("topK", { k: 2 }),
    expected: () => [
      [3, 3, nan, inf, -1, -2, 5, 0],
      [1, 2, 0, 3, 0, 1, 3, 0],
    ],
    gradient: false,
    tolerance: 0,
    shardings: [overBatch(1, 2)],
  },
  {
    op: "topK",
    title: "none and all",
    inputs: [vector("i32", [5, 9, 7])],
    build: (x) => [...ops.topK(x as Node, 0), ...ops.topK(x as Node, 3)],
    expected: () => [[], [], [9, 7, 5], [1, 2, 0]],
    gradient: false,
  },
  {
    op: "topK",
    title: "of a long row",
    inputs: [vector("f32", long)],
    build: results("topK", { k: 50 }),
    expected: () => {
      const order = counts(3000)
        .sort((a, b) => (long[b] as number) - (long[a] as number) || a - b)
        .slice(0, 50);
      return [order.map((at) => long[at] as number), order];
    },
    gradient: false,
    tolerance: 0,
  },
];

const eye = [1, 0, 0, 1];
const singular: readonly (readonly [string, readonly number[]])[] = [
  ["rank 2 of 3", [1, 2, 3, 2, 4, 6, 1, 0, 1]],
  ["rank 1 of 3", [1, 2, 3, 2, 4, 6, 3, 6, 9]],
  ["rank 0 of 3", [0, 0, 0, 0, 0, 0, 0, 0, 0]],
];
const wrong: readonly Row[] = [
  {
    op: "cholesky",
    title: "not positive definite",
    inputs: [given("f32", [2, 2, 2], [...eye, 1, 2, 2, 1])],
    fails: /matrix 1 of the batch is not positive definite/,
    gradient: false,
  },
  {
    op: "triangularSolve",
    title: "singular",
    inputs: [given("f32", [2, 2, 2], [...eye, 1, 0, 3, 0]), given("f32", [2, 2, 1], [1, 1, 1, 1])],
    attrs: { lower: true, transpose: false, unit: false },
    fails: /matrix 1 of the batch is singular: pivot 1 is 0/,
    gradient: false,
  },
  ...["solve", "inverse"].map(
    (title): Row => ({
      op: "solve",
      title: `${title} of a singular matrix`,
      inputs: [given("f32", [2, 2, 2], [...eye, 1, 2, 2, 4])],
      build: (a) => [title === "solve" ? ops.solve(a as Node, a as Node) : ops.inverse(a as Node)],
      fails: /matrix 1 of the batch is singular: pivot 1 is 0/,
      gradient: false,
    }),
  ),
  ...singular.map(
    ([title, values]): Row => ({
      op: "determinant",
      title,
      inputs: [given("f32", [3, 3], values)],
      build: (a) => [ops.determinant(a as Node)],
      expected: () => [[0]],
      gradient: { step: 1e-5, tolerance: 1e-6 },
      fixed: true,
    }),
  ),
  {
    op: "lu",
    title: "a column without a pivot, pivots of one size, NaN",
    inputs: [given("f32", [3, 2, 2], [0, 1, 0, 2, 2, 1, -2, 1, 1, 1, nan, 1])],
    build: results("lu", {}),
    expected: () => [
      [0, 1, 0, 2, 2, 1, -1, 2, nan, 1, nan, nan],
      [0, 1, 0, 1, 1, 0],
      [1, 1, -1],
    ],
    gradient: false,
    tolerance: 0,
  },
  {
    op: "lu",
    title: "no rows",
    inputs: [given("f32", [2, 0, 0], [])],
    build: (a) => [
      ops.determinant(a as Node),
      ...Object.values(ops.slogdet(a as Node)),
      ops.inverse(a as Node),
      ops.matrixExp(a as Node),
    ],
    expected: () => [[1, 1], [1, 1], [0, 0], [], []],
    gradient: false,
  },
  {
    op: "matrixExp",
    title: "far from 0, a nilpotent matrix, what is not finite",
    inputs: [given("f32", [4, 2, 2], [-1e30, 0, 0, -1e30, 0, 2 ** 100, 0, 0, inf, 0, 0, 1, 0, 0, 0, 0])],
    build: (a) => [ops.matrixExp(a as Node)],
    expected: () => [[0, 0, 0, 0, 1, 2 ** 100, 0, 1, nan, nan, nan, nan, ...eye]],
    gradient: false,
  },
  {
    op: "lu",
    title: "slogdet of singular matrices",
    inputs: [given("f32", [2, 2, 2], [0, 0, 0, 0, 1, 2, 2, 4])],
    build: (x) => Object.values(ops.slogdet(x as Node)),
    expected: () => [
      [0, 0],
      [-inf, -inf],
    ],
    gradient: false,
  },
  {
    op: "svd",
    title: "what is not finite",
    inputs: [given("f32", [2, 2], [1, nan, 0, 1])],
    build: (x) => [ops.svd(x as Node)[1] as Node],
    expected: () => [[nan, nan]],
    gradient: false,
  },
  {
    op: "svd",
    title: "singular values of a matrix of rank 1",
    inputs: [given("f32", [2, 2], [1, 2, 2, 4])],
    build: (x) => [ops.svd(x as Node)[1] as Node],
    expected: () => [[5, 0]],
    gradient: false,
  },
  {
    op: "qr",
    title: "no rows",
    inputs: [given("f32", [0, 2, 2], [])],
    build: (x) => ops.resultsOf(ops.call("qr", [x as Node])),
    expected: () => [[], [], []],
    gradient: false,
  },
];

/** Four matrices for the devices of a mesh, as the op itself has them. */
const four = (values: readonly number[], size = 2): Source =>
  given("f32", [4, 2, size], [values, values, values, values].flat());
const parted = (
  op: string,
  inputs: readonly Source[],
  expected: readonly number[],
  shardings: readonly string[],
  attrs: Attrs = {},
): Row => ({
  op,
  title: `four matrices ${JSON.stringify(attrs)}`,
  inputs,
  attrs,
  expected: () => [[expected, expected, expected, expected].flat()],
  gradient: { step: 1e-5, tolerance: 1e-6 },
  tolerance: 1e-6,
  shardings,
  fixed: true,
});
const systems = ["S(0), S(0) -> S(0)", "R, S(2) -> S(2)", "R, P(sum) -> P(sum)"];
const partedRows: readonly Row[] = [
  parted("solve", [four([2, 1, 0, 4]), four([4, 8], 1)], [1, 2], systems, { transpose: false }),
  parted("solve", [four([2, 1, 0, 4]), four([2, 9], 1)], [1, 2], systems, { transpose: true }),
  parted("determinant", [four([2, 1, 0, 4])], [8], [overBatch(1, 1)]),
  parted("cofactors", [four([2, 1, 0, 4])], [4, 0, -1, 2], [overBatch(1, 1)]),
  parted("matrixExp", [four([0, 1, 0, 0])], [1, 1, 0, 1], [overBatch(1, 1)]),
];

export const algebraTable: readonly Row[] = [
  ...sorts,
  ...topRows,
  ...transforms,
  ...factors,
  ...composed,
  ...partedRows,
  ...wrong,
];
