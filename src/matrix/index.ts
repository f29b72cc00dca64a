/** @module Matrices: linear algebra in f64 whose expressions are computed together, when a value is read. */

export {
  cholesky,
  concatenate,
  dense,
  det,
  diag,
  eigh,
  entries,
  evaluate,
  eye,
  flip,
  full,
  gradient,
  inv,
  lstsq,
  lu,
  matrix,
  ones,
  qr,
  type RandOptions,
  rand,
  seq,
  solve,
  svd,
  table,
  triangle,
  where,
  zeros,
} from "./create.ts";
export { type ConnectOptions, connect, rowBlocks } from "./distributed/workers.ts";
export { type Axis, aggregate, binary, cumulative, Matrix, type MatrixLike, unary } from "./matrix.ts";
export type { AggregateName, BinaryName, CumulativeName, UnaryName } from "./operators.ts";
export { type MatrixProgram, matrixPrograms, type Together, type TogetherLine } from "./programs.ts";
