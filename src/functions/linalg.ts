/**
 * @module Linear algebra: matrices in the last two dims, any dims before them being a batch; f32 or f64, f32 being computed
 * in f64 and rounded. Sources of the gradients are named in `src/ops/factor-gradient.ts`.
 */
import * as ops from "../ops/index.ts";
import { isTensor, operate, operateAll, type Tensor } from "../tensor/tensor.ts";
import type { Fault } from "../util/faults.ts";
import { checkOptions } from "../util/options.ts";
import { speakerNow, speakingAs } from "../util/source.ts";

export type { MatrixNorm } from "../ops/index.ts";

/** Runs a function of matrices; where there is one and no batch, errors of the run speak of it and not of number 0. */
function told<Made>(name: string, a: Tensor, body: () => Made): Made {
  if (!isTensor(a) || a.shape.length !== 2) return body();
  const says = (fault: Fault): Fault => ("matrix" in fault ? { ...fault, matrix: undefined } : fault);
  return speakingAs({ ...(speakerNow() ?? { name }), says }, body);
}

/**
 * The lower triangular L [..., n, n] with L Lᵀ = A, of a symmetric positive definite A, of which the lower triangle alone is
 * read: the gradient is there too.
 *
 * @throws HeddleError `value` from the run, with the index in the batch, when A is not positive definite.
 */
export const cholesky = (a: Tensor): Tensor => told("cholesky", a, () => operate("cholesky", ops.cholesky, [a]));

/** Options of {@link triangularSolve}. */
export interface TriangularOptions {
  /** Whether A is the lower triangle of the first operand, else the upper one; default true. */
  readonly lower?: boolean;
  /** Solve with Aᵀ; default false. */
  readonly transpose?: boolean;
  /** Take the diagonal for ones; default false. */
  readonly unit?: boolean;
}

/**
 * X [..., m, n] with A X = B for a triangle A [..., m, m] and B [..., m, n].
 *
 * @throws HeddleError `value` from the run, with the index in the batch, when the diagonal has a zero.
 */
export function triangularSolve(a: Tensor, b: Tensor, options: TriangularOptions = {}): Tensor {
  checkOptions("triangularSolve", options, ["lower", "transpose", "unit"]);
  return operate("triangularSolve", ops.triangularSolve, [a, b], options);
}

/**
 * Q [..., m, k] with orthonormal columns and upper triangular R [..., k, n] with Q R = A, k = min(m, n). R has no negative
 * number on its diagonal. The gradient needs the first k columns to be independent.
 */
export function qr(a: Tensor): { readonly q: Tensor; readonly r: Tensor } {
  const [q, r] = told("qr", a, () => operateAll("qr", ops.qr, [a])) as [Tensor, Tensor];
  return { q, r };
}

/**
 * U [..., m, k], singular values s [..., k], descending, and Vᵀ [..., k, n] with U diag(s) Vᵀ = A, k = min(m, n). In a column of
 * U the first component that is no less than 0.3 of the largest in size is positive. The gradient by vectors needs singular
 * values that differ and are not 0; by s alone it needs nothing. NaN where A has numbers that are not finite.
 */
export function svd(a: Tensor): { readonly u: Tensor; readonly s: Tensor; readonly vt: Tensor } {
  const [u, s, vt] = told("svd", a, () => operateAll("svd", ops.svd, [a])) as [Tensor, Tensor, Tensor];
  return { u, s, vt };
}

/**
 * Eigenvalues [..., n], ascending, and eigenvectors, the columns of [..., n, n], of a symmetric A, of which the lower triangle
 * alone is read. Signs as in {@link svd}. The gradient by vectors needs eigenvalues that differ.
 */
export function eigh(a: Tensor): { readonly values: Tensor; readonly vectors: Tensor } {
  const [values, vectors] = told("eigh", a, () => operateAll("eigh", ops.eigh, [a])) as [Tensor, Tensor];
  return { values, vectors };
}

/**
 * P, L and U [..., n, n] with P L U = A for square A, by elimination with partial pivoting: P a permutation, L lower triangular
 * with ones on its diagonal, U upper triangular, with a 0 on its diagonal where a column had no pivot. The gradient needs A that
 * is not singular.
 */
export function lu(a: Tensor): { readonly p: Tensor; readonly l: Tensor; readonly u: Tensor } {
  const [p, l, u] = told("lu", a, () => operateAll("lu", ops.lu, [a])) as [Tensor, Tensor, Tensor];
  return { p, l, u };
}

/**
 * X with A X = B for square A, by elimination with partial pivoting; B [..., n, k], or [..., n], a vector for each matrix.
 *
 * @throws HeddleError `value` from the run, with the index in the batch and the pivot, when a pivot is exactly 0.
 */
export const solve = (a: Tensor, b: Tensor): Tensor => told("solve", a, () => operate("solve", ops.solve, [a, b]));
/** {@link solve} for symmetric positive definite A, by {@link cholesky}: faster. */
export const choleskySolve = (a: Tensor, b: Tensor): Tensor =>
  told("choleskySolve", a, () => operate("choleskySolve", ops.choleskySolve, [a, b]));
/** X with the least |A X - B|, by QR, for A of full rank with at least as many rows as columns. */
export const lstsq = (a: Tensor, b: Tensor): Tensor => told("lstsq", a, () => operate("lstsq", ops.lstsq, [a, b]));
/** The inverse of square A; {@link solve} is better where a product with it is wanted. */
export const inverse = (a: Tensor): Tensor => told("inverse", a, () => operate("inverse", ops.inverse, [a]));
/** Moore and Penrose's inverse, by {@link svd}; singular values up to `tolerance` (default the larger size by the distance of 1 to the next number) times the largest count as 0. */
export const pinv = (a: Tensor, tolerance?: number): Tensor =>
  told("pinv", a, () => operate("pinv", ops.pinv, [a], tolerance));
/**
 * The determinant of square A, by elimination with partial pivoting: 0 for a singular A. Its gradient is the matrix of cofactors, of
 * a singular A too, by {@link svd}; that of {@link slogdet} takes less time.
 */
export const determinant = (a: Tensor): Tensor =>
  told("determinant", a, () => operate("determinant", ops.determinant, [a]));
/** The sign of the determinant and the logarithm of its size: 0 and -inf for a singular A, of which the gradient is an error of the run. */
export function slogdet(a: Tensor): { readonly sign: Tensor; readonly logSize: Tensor } {
  const [sign, logSize] = told("slogdet", a, () => operateAll("slogdet", ops.slogdet, [a])) as [Tensor, Tensor];
  return { sign, logSize };
}
/** Norm of each matrix: `"fro"` (default) the root of the sum of squares, `"nuc"` the sum and 2 the largest of the singular values, 1 and Infinity the largest sum of sizes in a column and a row. */
export const matrixNorm = (a: Tensor, kind: ops.MatrixNorm = "fro"): Tensor =>
  operate("matrixNorm", ops.matrixNorm, [a], kind);
/** Options of {@link norm}. */
export interface NormOptions {
  /** The exponent, above 0; Infinity for the largest size; default 2. */
  readonly p?: number;
  /** The dims of a vector; default all. */
  readonly dims?: number | readonly number[];
  /** Whether these dims stay, with size 1; default false. */
  readonly keepDims?: boolean;
}

/**
 * (Σ |x|^p)^(1/p) of floats over `dims`, computed in f64 and rounded once. Where all numbers are 0, so are the derivatives, as in
 * PyTorch; a number whose power is beyond the dtype makes no infinity.
 *
 * @throws HeddleError `dtype` for what is no float, `argument` for a p that is not above 0.
 */
export function norm(x: Tensor, options: NormOptions = {}): Tensor {
  checkOptions("norm", options, ["p", "dims", "keepDims"]);
  return operate("norm", ops.norm, [x], options.p ?? 2, options.dims, options.keepDims ?? false);
}

/**
 * The exponential of square A [..., n, n], by scaling, Padé's approximant and squaring (Higham, 2005); f32 and 16-bit floats are
 * computed in f64. NaN where A has numbers that are not finite. Every derivative is an exponential of a matrix twice as large.
 */
export const matrixExp = (a: Tensor): Tensor => operate("matrixExp", ops.matrixExp, [a]);
/** Sum of the diagonal of square matrices. */
export const trace = (a: Tensor): Tensor => operate("trace", ops.trace, [a]);
