/**
 * @module Factorisations of matrices in the last two dims, any others being a batch: cholesky, triangularSolve, qr, svd, eigh;
 * lu is in `src/ops/lu.ts`.
 * f32 is computed in f64 and rounded once. Signs are made unique, so that executors agree: R has no negative diagonal; in a
 * singular vector of U or an eigenvector the first component that is no less than 0.3 of the largest in size is positive.
 */
import { dtypes, isFloat } from "../ir/dtype.ts";
import { type Equation, equationOf, letters } from "../ir/equation.ts";
import type { KernelCall, KernelContext, View } from "../ir/kernel.ts";
import { type Attrs, absent, type HostTensor, type Node, type OpDef } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, type Shape, sameShape, sizeOf, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import * as kernels from "../kernels/index.ts";
import { faultError, HeddleError } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { batchByEquation } from "./batch.ts";
import { choleskyGradient, eighGradient, qrGradient, svdGradient, triangularGradient } from "./factor-gradient.ts";
import * as host from "./factor-host.ts";
import { f32 } from "./movement.ts";
import { resultsOf } from "./results.ts";

type None = Record<string, never>;
export type TriangularAttrs = { lower: boolean; transpose: boolean; unit: boolean };

export const rowsOf = (x: { readonly shape: Shape }): number => x.shape.at(-2) as number;
const columnsOf = (x: { readonly shape: Shape }): number => x.shape.at(-1) as number;
const batchOf = (x: { readonly shape: Shape }): Shape => x.shape.slice(0, -2);

export function checked(name: string, inputs: readonly TensorType[], arity: number, square: boolean): TensorType {
  const [input] = inputs;
  if (input === undefined || inputs.length !== arity)
    throw new HeddleError("op", `${name}: takes ${arity} inputs, got ${inputs.length}`);
  const types = inputs.map(formatType).join(", ");
  if (!isFloat(input.dtype) || inputs.some(({ dtype }) => dtype !== input.dtype))
    throw new HeddleError("dtype", `${name}: needs floats of one dtype, got ${types}`);
  if (input.shape.length < 2 || (square && rowsOf(input) !== columnsOf(input)))
    throw new HeddleError(
      "shape",
      `${name}: needs ${square ? "square " : ""}matrices in the last two dims, got ${types}`,
    );
  return input;
}

/** An equation of the batch dims; the other dims of each operand may not be split. */
export function batchEquation(input: TensorType, inputs: readonly number[], outputs: readonly number[]): Equation {
  const batch = letters(input.shape.length - 2);
  const whole = new Set<string>();
  const operand =
    (side: string) =>
    (rank: number, index: number): string[] => {
      const matrixDims = letters(rank, `${side}${index}m`);
      for (const letter of matrixDims) whole.add(letter);
      return [...batch, ...matrixDims];
    };
  return equationOf(inputs.map(operand("x")), outputs.map(operand("y")), { whole });
}

/** Runs a rule on each matrix of a batch and joins the results; a rule that fails gives the fault by the number of the matrix. */
export function eachMatrix(
  inputs: readonly HostTensor[],
  outputs: readonly TensorType[],
  name: string,
  rule: (...matrices: host.Matrix[]) => readonly host.Matrix[] | ((matrix: number) => Fault),
) {
  const [first] = inputs as [HostTensor];
  const batch = sizeOf(batchOf(first));
  const results = outputs.map(({ dtype, shape }) => dtypes[dtype].create(sizeOf(shape)));
  for (let index = 0; index < batch; index++) {
    const matrices = inputs.map(({ data }) => {
      const size = data.length / batch;
      return Float64Array.from(data.subarray(index * size, (index + 1) * size));
    });
    const result = rule(...matrices);
    if (typeof result === "function") throw faultError({ ...result(index), by: name });
    result.forEach((values, output) => {
      results[output]?.set(values, index * values.length);
    });
  }
  return results;
}

export function factorCall<A extends Attrs>(
  what: Parameters<typeof kernels.factor.call>[0]["what"],
  columns: (inputs: readonly View[]) => number,
) {
  return (context: KernelContext<A>): KernelCall[] => {
    const [x] = context.inputs as [View];
    return [
      kernels.factor.call({
        what,
        dtype: x.dtype,
        batch: sizeOf(batchOf(x)),
        m: rowsOf(x),
        n: columns(context.inputs),
        in: context.inputs.map((input) => context.at(input)),
        out: context.outputs.map((output) => context.at(output)),
        ...context.attrs,
      }),
    ];
  };
}

export const cubic = ([input]: readonly TensorType[]): number => {
  const x = input as TensorType;
  return sizeOf(x.shape) * Math.min(rowsOf(x), columnsOf(x));
};

const choleskyOp: OpDef<None> = defineOp<None>({
  name: "cholesky",
  doc: "The lower triangular L with L Lᵀ the symmetric positive definite matrix whose lower triangle is given; zeros above. A matrix that is not positive definite is an error of the run.",
  example: { inputs: [f32([2, 2], [4, 0, 2, 5])], attrs: {}, outputs: [f32([2, 2], [2, 0, 1, 2])] },
  infer: (inputs) => checked("cholesky", inputs, 1, true),
  equation: ([input]) => batchEquation(input as TensorType, [2], [2]),
  linear: [],
  gradient: ({ node, cotangents }) => [choleskyGradient(node, cotangents[0] as Node)],
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: (inputs) => cubic(inputs) / 3,
  reference: (inputs, _attrs, outputs) =>
    eachMatrix(inputs, outputs, "cholesky", (a) => {
      const l = host.cholesky(a, rowsOf(inputs[0] as HostTensor));
      return l === undefined ? (matrix) => ({ kind: "notPositiveDefinite", matrix }) : [l];
    }),
  form: { kind: "kernel" },
  lower: { emit: factorCall("cholesky", ([x]) => rowsOf(x as View)) },
});

const triangularSolveOp: OpDef<TriangularAttrs> = defineOp<TriangularAttrs>({
  name: "triangularSolve",
  doc: "X with op(A) X = B, where A is the lower (or upper) triangle of the first input, op its transpose if `transpose`, and the diagonal counts as 1 if `unit`. A zero on the diagonal is an error of the run.",
  example: {
    inputs: [f32([2, 2], [2, 0, 1, 4]), f32([2, 1], [2, 9])],
    attrs: { lower: true, transpose: false, unit: false },
    outputs: [f32([2, 1], [1, 2])],
  },
  infer: (inputs) => {
    const a = checked("triangularSolve", inputs, 2, true);
    const b = inputs[1] as TensorType;
    if (b.shape.length !== a.shape.length || !sameShape(batchOf(a), batchOf(b)) || rowsOf(a) !== rowsOf(b))
      throw new HeddleError("shape", `triangularSolve: ${formatType(a)} does not go with ${formatType(b)}`);
    return b;
  },
  equation: ([input]) => {
    const batch = letters((input as TensorType).shape.length - 2);
    return equationOf(
      [
        [...batch, "i", "j"],
        [...batch, "k", "c"],
      ],
      [[...batch, "o", "c"]],
      {
        whole: ["i", "j", "k", "o"],
      },
    );
  },
  linear: [[1]],
  gradient: ({ node, cotangents }) => triangularGradient(node, cotangents[0] as Node),
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: ([a, b]) => sizeOf((b as TensorType).shape) * rowsOf(a as TensorType),
  reference: (inputs, attrs, outputs) => {
    const [m, n] = [rowsOf(inputs[1] as HostTensor), columnsOf(inputs[1] as HostTensor)];
    return eachMatrix(inputs, outputs, "triangularSolve", (a, b) => {
      const x = host.triangularSolve(a, b as host.Matrix, m, n, attrs);
      return typeof x === "number" ? (matrix) => ({ kind: "singular", matrix, pivot: x }) : [x];
    });
  },
  form: { kind: "kernel" },
  lower: { emit: factorCall("triangularSolve", ([, b]) => columnsOf(b as View)) },
});

const qrOp: OpDef<None> = defineOp<None>({
  name: "qr",
  doc: "Q with orthonormal columns [m, k] and upper triangular R [k, n] with Q R = A and k = min(m, n); R has no negative number on its diagonal. Also the determinant of Q if it is square, else 1.",
  example: {
    inputs: [f32([2, 2], [0, 2, 3, 0])],
    attrs: {},
    outputs: [f32([2, 2], [0, 1, 1, 0]), f32([2, 2], [3, 0, 0, 2]), f32([], [-1])],
  },
  infer: (inputs) => {
    const { dtype, shape } = checked("qr", inputs, 1, false);
    const [m, n] = shape.slice(-2) as [number, number];
    const batch = shape.slice(0, -2);
    const k = Math.min(m, n);
    return [[m, k], [k, n], []].map((last) => ({ dtype, shape: [...batch, ...last] }));
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2, 2, 0]),
  linear: [],
  gradient: ({ node, cotangents }) => [qrGradient(node, cotangents)],
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: (inputs) => 4 * cubic(inputs),
  reference: (inputs, _attrs, outputs) => {
    const [x] = inputs as [HostTensor];
    return eachMatrix(inputs, outputs, "qr", (a) => host.qr(a, rowsOf(x), columnsOf(x)));
  },
  form: { kind: "kernel" },
  lower: { emit: factorCall("qr", ([x]) => columnsOf(x as View)) },
});

const svdOp: OpDef<None> = defineOp<None>({
  name: "svd",
  doc: "U [m, k], singular values [k], descending, and Vᵀ [k, n] with U diag(s) Vᵀ = A and k = min(m, n); NaN all over for a matrix with numbers that are not finite.",
  example: {
    inputs: [f32([2, 2], [0, 2, 3, 0])],
    attrs: {},
    outputs: [f32([2, 2], [0, 1, 1, 0]), f32([2], [3, 2]), f32([2, 2], [1, 0, 0, 1])],
  },
  infer: (inputs) => {
    const { dtype, shape } = checked("svd", inputs, 1, false);
    const [m, n] = shape.slice(-2) as [number, number];
    const k = Math.min(m, n);
    return [[m, k], [k], [k, n]].map((last) => ({ dtype, shape: [...shape.slice(0, -2), ...last] }));
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2, 1, 2]),
  linear: [],
  gradient: ({ node, cotangents }) => [svdGradient(node, cotangents)],
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: (inputs) => 20 * cubic(inputs),
  reference: (inputs, _attrs, outputs) => {
    const [x] = inputs as [HostTensor];
    return eachMatrix(inputs, outputs, "svd", (a) => host.svd(a, rowsOf(x), columnsOf(x)));
  },
  form: { kind: "kernel" },
  lower: { emit: factorCall("svd", ([x]) => columnsOf(x as View)) },
});

const eighOp: OpDef<None> = defineOp<None>({
  name: "eigh",
  doc: "Eigenvalues [n], ascending, and eigenvectors, the columns of [n, n], of the symmetric matrix whose lower triangle is given; NaN all over for a matrix with numbers that are not finite.",
  example: {
    inputs: [f32([2, 2], [3, 0, 0, 2])],
    attrs: {},
    outputs: [f32([2], [2, 3]), f32([2, 2], [0, 1, 1, 0])],
  },
  infer: (inputs) => {
    const { dtype, shape } = checked("eigh", inputs, 1, true);
    return [
      { dtype, shape: shape.slice(0, -1) },
      { dtype, shape },
    ];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [1, 2]),
  linear: [],
  gradient: ({ node, cotangents }) => [eighGradient(node, cotangents)],
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: (inputs) => 10 * cubic(inputs),
  reference: (inputs, _attrs, outputs) =>
    eachMatrix(inputs, outputs, "eigh", (a) => host.eigh(a, rowsOf(inputs[0] as HostTensor))),
  form: { kind: "kernel" },
  lower: { emit: factorCall("eigh", ([x]) => rowsOf(x as View)) },
});

/**
 * The lower triangular L [..., n, n] with L Lᵀ = A; only the lower triangle of A is read. A matrix that is not positive
 * definite is an error of the run.
 */
export const cholesky = (a: Node): Node => apply(choleskyOp, [a], {});
/**
 * X with op(A) X = B for a triangle A [..., m, m]. Defaults: the lower triangle, not transposed, with the diagonal that it has.
 * A zero on the diagonal is an error of the run.
 */
export const triangularSolve = (a: Node, b: Node, attrs: Partial<TriangularAttrs> = {}): Node =>
  apply(triangularSolveOp, [a, b], { lower: true, transpose: false, unit: false, ...attrs });
/** Q and R. */
export const qr = (a: Node): Node[] => resultsOf(apply(qrOp, [a], {})).slice(0, 2);
/** U, the singular values, and the transpose of V. */
export const svd = (a: Node): Node[] => resultsOf(apply(svdOp, [a], {}));
/** Eigenvalues and eigenvectors. */
export const eigh = (a: Node): Node[] => resultsOf(apply(eighOp, [a], {}));
