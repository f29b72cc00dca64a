/** @module Shared parts of the functions of matrices: checks, errors of one matrix or a batch, and computing in f64. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { isTensor, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { speakerNow, speakingAs } from "../util/source.ts";

/**
 * Runs a function of matrices; where there is one and no batch, errors of the run speak of it and not of number 0. They carry the
 * hint, if there is one.
 */
export function told<Made>(name: string, a: Tensor, body: () => Made, hint?: string): Made {
  if (!isTensor(a) || (a.shape.length !== 2 && hint === undefined)) return body();
  const more = { ...(a.shape.length === 2 ? { matrix: undefined } : {}), ...(hint === undefined ? {} : { hint }) };
  const says = (fault: Fault): Fault => ("matrix" in fault ? { ...fault, ...more } : fault);
  return speakingAs({ ...(speakerNow() ?? { name }), says }, body);
}

/** The number of columns of the matrices. */
export const last = (x: Node): number => x.shape.at(-1) as number;
/** The number of rows of the matrices. */
export const rows = (x: Node): number => x.shape.at(-2) as number;

/** Checks dtypes. It runs on the user's operands, before casts and reshapes, so that the error shows them. */
export function checkFloats(name: string, ...inputs: readonly Node[]): void {
  if (!inputs.every(({ dtype }) => isFloat(dtype) && dtype === inputs[0]?.dtype))
    throw new HeddleError("dtype", `${name}: needs floats of one dtype, got ${inputs.map(formatType).join(", ")}`);
}

/** Checks that the last two dims are one size. @throws HeddleError `shape` */
export function checkSquare(name: string, a: Node, hint?: string): void {
  if (a.shape.length >= 2 && rows(a) === last(a)) return;
  const text = `${name}: needs square matrices in the last two dims, got ${formatType(a)}`;
  throw new HeddleError("shape", text, hint === undefined ? {} : { hint });
}

/**
 * Computes in f64 from floats of one dtype and rounds once at the end. Rounding the factors first would lose as many digits as the
 * condition of the matrix has, and executors would differ by as many.
 */
export function inDouble(inputs: readonly Node[], build: (inputs: readonly Node[]) => readonly Node[]): Node[] {
  const [first] = inputs as [Node];
  const isAlike = isFloat(first.dtype) && inputs.every(({ dtype }) => dtype === first.dtype);
  if (!isAlike) return [...build(inputs)];
  return build(inputs.map((x) => ops.cast(x, "f64"))).map((y) => ops.cast(y, first.dtype));
}

/** Identity matrices of the shape and dtype of `like`. */
export function unit(like: Node): Node {
  const { shape } = like;
  const rank = shape.length;
  return ops.cast(ops.eq(ops.iota("i32", shape, rank - 2), ops.iota("i32", shape, rank - 1)), like.dtype);
}

/** The diagonal of each matrix. */
export const diagonalOf = (x: Node): Node => ops.sum(ops.select(ops.eq(unit(x), 1), x, 0), -1);
