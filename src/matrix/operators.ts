/** @module The operators of matrices, each in terms of the functions of tensors. All values are f64 with two dims. */

import type { Tensor } from "../functions/index.ts";
import * as t from "../functions/index.ts";
import { sampledDot } from "../ops/index.ts";
import { operate } from "../tensor/tensor.ts";
import { cells, type Expression, type MatrixAttrs, type Operator, type Size } from "./expression.ts";

type Build = Operator["build"];

const operator = (name: string, build: Build, work?: Operator["work"], more?: Partial<Operator>): Operator => ({
  name,
  build,
  ...(work && { work }),
  ...more,
});

/** Each element depends on those of its place, so all rows have to lie along one dim. */
const rowByRow: Partial<Operator> = {
  elementwise: true,
  rows: (dims) => {
    const [first, second] = new Set(dims.filter((dim) => dim !== undefined));
    return second === undefined ? first : undefined;
  },
};

const bit = (test: Tensor): Tensor => test.cast("f64");
const truth = (x: Tensor): Tensor => x.ne(0);
const unaryOf = (name: string, apply: (x: Tensor) => Tensor): Operator =>
  operator(name, ([x]) => apply(x as Tensor), undefined, rowByRow);
const binaryOf = (name: string, apply: (x: Tensor, y: Tensor) => Tensor): Operator =>
  operator(name, ([x, y]) => apply(x as Tensor, y as Tensor), undefined, rowByRow);

/** Elementwise functions of one matrix. */
export const unaries = {
  neg: unaryOf("neg", t.neg),
  exp: unaryOf("exp", t.exp),
  log: unaryOf("log", t.log),
  sqrt: unaryOf("sqrt", t.sqrt),
  abs: unaryOf("abs", t.abs),
  sign: unaryOf("sign", t.sign),
  floor: unaryOf("floor", t.floor),
  ceil: unaryOf("ceil", t.ceil),
  round: unaryOf("round", t.round),
  roundHalfUp: unaryOf("roundHalfUp", (x) => {
    // floor(x + 0.5) rounds the number below 0.5, and odd numbers above 2^52, to the wrong side.
    const low = t.floor(x);
    return low.add(bit(x.sub(low).ge(0.5)));
  }),
  sin: unaryOf("sin", t.sin),
  cos: unaryOf("cos", t.cos),
  tan: unaryOf("tan", t.tan),
  asin: unaryOf("asin", t.asin),
  acos: unaryOf("acos", t.acos),
  atan: unaryOf("atan", t.atan),
  sinh: unaryOf("sinh", t.sinh),
  cosh: unaryOf("cosh", t.cosh),
  tanh: unaryOf("tanh", t.tanh),
  sigmoid: unaryOf("sigmoid", t.sigmoid),
  square: unaryOf("square", t.square),
  erf: unaryOf("erf", t.erf),
  not: unaryOf("not", (x) => bit(x.eq(0))),
  isnan: unaryOf("isnan", (x) => bit(t.isNaN(x))),
  isinf: unaryOf("isinf", (x) => bit(t.isInf(x))),
} satisfies Record<string, Operator>;

/** The name of an elementwise function of one matrix. */
export type UnaryName = keyof typeof unaries;

const whole = (apply: (x: Tensor, y: Tensor) => Tensor) => (x: Tensor, y: Tensor) =>
  apply(x.cast("i64"), y.cast("i64")).cast("f64");

/** Elementwise functions of two matrices, with NumPy's broadcasting. */
export const binaries = {
  add: binaryOf("add", t.add),
  sub: binaryOf("sub", t.sub),
  mul: binaryOf("mul", t.mul),
  div: binaryOf("div", t.div),
  pow: binaryOf("pow", t.pow),
  mod: binaryOf("mod", (x, y) => x.sub(t.floor(x.div(y)).mul(y))),
  intdiv: binaryOf("intdiv", (x, y) => t.floor(x.div(y))),
  rem: binaryOf("rem", t.rem),
  quotient: binaryOf("quotient", (x, y) => t.trunc(x.div(y))),
  min: binaryOf("min", t.minimum),
  max: binaryOf("max", t.maximum),
  eq: binaryOf("eq", (x, y) => bit(x.eq(y))),
  ne: binaryOf("ne", (x, y) => bit(x.ne(y))),
  lt: binaryOf("lt", (x, y) => bit(x.lt(y))),
  le: binaryOf("le", (x, y) => bit(x.le(y))),
  gt: binaryOf("gt", (x, y) => bit(x.gt(y))),
  ge: binaryOf("ge", (x, y) => bit(x.ge(y))),
  and: binaryOf("and", (x, y) => bit(t.and(truth(x), truth(y)))),
  or: binaryOf("or", (x, y) => bit(t.or(truth(x), truth(y)))),
  xor: binaryOf("xor", (x, y) => bit(truth(x).ne(truth(y)))),
  bitwAnd: binaryOf("bitwAnd", whole(t.and)),
  bitwOr: binaryOf("bitwOr", whole(t.or)),
  bitwXor: binaryOf("bitwXor", whole(t.xor)),
  bitwShiftL: binaryOf("bitwShiftL", whole(t.shiftLeft)),
  bitwShiftR: binaryOf("bitwShiftR", whole(t.shiftRightArithmetic)),
} satisfies Record<string, Operator>;

/** The name of an elementwise function of two matrices. */
export type BinaryName = keyof typeof binaries;

/** Over what an aggregate runs: all elements, each row, or each column. */
export type Over = "all" | "rows" | "columns";

/** The dims that an aggregate sums up: a row's elements lie along dim 1. */
const dimsOf = ({ over }: MatrixAttrs): readonly number[] => (over === "all" ? [0, 1] : over === "rows" ? [1] : [0]);
const keep = { keepDims: true } as const;
/** Aggregates within rows; over the rows, sums alone are sums of those of blocks. */
const rowsOfAggregate =
  (name: string): NonNullable<Operator["rows"]> =>
  ([dim], { over }) =>
    over === (dim === 0 ? "rows" : "columns") ? dim : name === "sum" ? "sum" : undefined;
const aggregateOf = (name: string, apply: (x: Tensor, dims: readonly number[]) => Tensor): Operator =>
  operator(name, ([x], attrs) => apply(x as Tensor, dimsOf(attrs)), undefined, {
    rows: rowsOfAggregate(name),
    reads: true,
  });

const positionOf = (find: (x: Tensor, dim?: number) => Tensor) => (x: Tensor, dims: readonly number[]) =>
  t.expandDims(find(x, dims[0]), dims[0] as number).cast("f64");

/** Aggregates, over all elements, each row or each column; the result keeps two dims. */
export const aggregates = {
  sum: aggregateOf("sum", (x, dims) => t.sum(x, dims, keep)),
  mean: aggregateOf("mean", (x, dims) => t.mean(x, dims, keep)),
  min: aggregateOf("min", (x, dims) => t.min(x, dims, keep)),
  max: aggregateOf("max", (x, dims) => t.max(x, dims, keep)),
  prod: aggregateOf("prod", (x, dims) => t.prod(x, dims, keep)),
  argmax: aggregateOf("argmax", positionOf(t.argMax)),
  argmin: aggregateOf("argmin", positionOf(t.argMin)),
} satisfies Record<string, Operator>;

/** The name of an aggregate. */
export type AggregateName = keyof typeof aggregates;

const cumulativeOf = (name: string, apply: (x: Tensor, dim?: number) => Tensor): Operator =>
  operator(name, ([x], { dim }) => apply(x as Tensor, dim as number));

/** Aggregates of the elements so far, down the rows (dim 0) or along them (dim 1). */
export const cumulatives = {
  cumsum: cumulativeOf("cumsum", t.cumsum),
  cumprod: cumulativeOf("cumprod", t.cumprod),
  cummin: cumulativeOf("cummin", t.cummin),
  cummax: cumulativeOf("cummax", t.cummax),
} satisfies Record<string, Operator>;

/** The name of an aggregate of the elements so far. */
export type CumulativeName = keyof typeof cumulatives;

const productWork = ([x]: readonly Expression[], [rows, columns]: Size): number =>
  2 * rows * columns * (x as Expression).size[1];
const cubed = ([x]: readonly Expression[]): number => cells((x as Expression).size) * 20 * (x as Expression).size[1];

/** Rows of x times y, columns of y, or the sum over the rows of xᵀ and y. */
const rowsOfProduct: NonNullable<Operator["rows"]> = ([x, y]) => {
  if (x === 0 && y === undefined) return 0;
  if (x === undefined && y === 1) return 1;
  return x === 1 && y === 0 ? "sum" : undefined;
};

/** The other operators. */
export const others = {
  matmul: operator("matmul", ([x, y]) => t.matmul(x as Tensor, y as Tensor), productWork, {
    rows: rowsOfProduct,
    reads: true,
  }),
  transpose: operator("transpose", ([x]) => t.transpose(x as Tensor), undefined, {
    rows: ([dim]) => (dim === 0 ? 1 : 0),
    view: true,
  }),
  reshape: operator("reshape", ([x], _attrs, size) => t.reshape(x as Tensor, size)),
  fill: operator("fill", ([x], _attrs, size) => t.broadcastTo(x as Tensor, size)),
  select: operator(
    "select",
    ([test, x, y], _attrs, size) =>
      t.select(
        ...([truth(test as Tensor), x, y].map((value) => t.broadcastTo(value as Tensor, size)) as [
          Tensor,
          Tensor,
          Tensor,
        ]),
      ),
    undefined,
    rowByRow,
  ),
  concat: operator("concat", (inputs, { dim }) => t.concat(inputs, dim as number)),
  reverse: operator("reverse", ([x]) => t.reverse(x as Tensor, [0])),
  slice: operator("slice", ([x, row, column], _attrs, size) => t.dynamicSlice(x as Tensor, starts(row, column), size)),
  update: operator("update", ([x, part, row, column]) =>
    t.dynamicUpdateSlice(x as Tensor, part as Tensor, starts(row, column)),
  ),
  take: operator("take", ([x, at], { dim }) => t.take(x as Tensor, at as Tensor, dim as number)),
  put: operator("put", ([x, at, rows]) => t.scatter(x as Tensor, at as Tensor, rows as Tensor)),
  diag: operator("diag", ([x]) => t.diag(t.reshape(x as Tensor, [(x as Tensor).size]))),
  diagonal: operator("diagonal", ([x]) => t.expandDims(t.diagonal(x as Tensor), 1)),
  triangle: operator("triangle", ([x], { lower, k }) =>
    lower === true ? t.tril(x as Tensor, k as number) : t.triu(x as Tensor, k as number),
  ),
  solve: operator("solve", ([a, b]) => t.linalg.solve(a as Tensor, b as Tensor), cubed),
  lstsq: operator("lstsq", ([a, b]) => t.linalg.lstsq(a as Tensor, b as Tensor), cubed),
  inverse: operator("inverse", ([a]) => t.linalg.inverse(a as Tensor), cubed),
  cholesky: operator("cholesky", ([a]) => t.linalg.cholesky(a as Tensor), cubed),
  determinant: operator("determinant", ([a]) => t.reshape(t.linalg.determinant(a as Tensor), [1, 1]), cubed),
  eigenvalues: operator("eigenvalues", ([a]) => t.expandDims(t.linalg.eigh(a as Tensor).values, 1), cubed),
  eigenvectors: operator("eigenvectors", ([a]) => t.linalg.eigh(a as Tensor).vectors, cubed),
  svdU: operator("svdU", ([a]) => t.linalg.svd(a as Tensor).u, cubed),
  svdS: operator("svdS", ([a]) => t.expandDims(t.linalg.svd(a as Tensor).s, 1), cubed),
  svdV: operator("svdV", ([a]) => t.transpose(t.linalg.svd(a as Tensor).vt), cubed),
  qrQ: operator("qrQ", ([a]) => t.linalg.qr(a as Tensor).q, cubed),
  qrR: operator("qrR", ([a]) => t.linalg.qr(a as Tensor).r, cubed),
  luP: operator("luP", ([a]) => t.linalg.lu(a as Tensor).p, cubed),
  luL: operator("luL", ([a]) => t.linalg.lu(a as Tensor).l, cubed),
  luU: operator("luU", ([a]) => t.linalg.lu(a as Tensor).u, cubed),
  /** Weights added up at rows and columns: values, rows (i32) and columns (i32). */
  table: operator("table", ([values, at], _attrs, [rows, columns]) =>
    t.reshape(t.scatterAdd(t.reshape(values as Tensor, [(values as Tensor).size]), at as Tensor, rows * columns), [
      rows,
      columns,
    ]),
  ),
  /** A matrix that is kept as entries: a program gets them as a sparse tensor, whose format the planner chooses. */
  entries: {
    name: "entries",
    kept: true,
    build: ([values, rows, columns], _attrs, size) =>
      t.sparse(t.reshape(values as Tensor, [(values as Tensor).size]), rows as Tensor, columns as Tensor, size),
  },
  /** Products of rows of two matrices at pairs of rows (i32) and columns (i32), a column of them. */
  sampled: operator(
    "sampled",
    (inputs) => t.expandDims(operate("sampled", sampledDot, inputs as readonly [Tensor, Tensor, Tensor, Tensor]), 1),
    ([x], [count]) => 2 * count * (x as Expression).size[1],
  ),
  random: operator("random", ([key], { normal }, size) =>
    normal === true
      ? t.random.normal(key as Tensor, size, { dtype: "f64" })
      : t.random.uniform(key as Tensor, size, { dtype: "f64" }),
  ),
} satisfies Record<string, Operator>;

function starts(row: Tensor | undefined, column: Tensor | undefined): Tensor[] {
  return [t.reshape(row as Tensor, []), t.reshape(column as Tensor, [])];
}
