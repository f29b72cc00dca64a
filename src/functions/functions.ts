/** @module Functions of several tensors or of none, which are not methods. */

import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { checkDType, checkWhole, checkWide } from "../tensor/arguments.ts";
import { operate, operateAll, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { CreateOptions } from "./create.ts";
import type { SortOptions } from "./methods/order.ts";
import { selected } from "./selected.ts";
import { type Binary, binary } from "./spelling.ts";

/** The derivative of order n of digamma at x, of floats; n is whole numbers from 0 to 170 in the dtype of x (others give NaN), without a gradient. */
export const polygamma: Binary = binary("polygamma", ops.polygamma);

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting; the condition is bool. */
export const select = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("select", condition, onTrue, onFalse);

/** Joins tensors of one dtype along a dim (default 0); all other dims agree. @throws HeddleError `argument` without tensors, `shape` */
export function concat(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `concat: takes an array of at least one tensor, got ${shown(inputs)}`);
  return operate("concat", buildConcat, inputs, dim);
}

/** The dim comes last, after any number of inputs. */
const buildConcat = (...operands: (Node | number)[]): Node =>
  ops.concat(operands.slice(0, -1) as Node[], operands.at(-1) as number);

/** The elements in reverse order along `dims`; negative dims count from the end. @throws HeddleError `shape` for a dim that repeats or is out of range. */
export function reverse(x: Tensor, dims: readonly number[]): Tensor {
  checkWhole("reverse", "dims", dims);
  return operate("reverse", ops.reverse, [x], dims);
}

/**
 * A matrix with `values` (float vector) at (`rows`, `columns`) (i32 vectors of the same length) and zeros elsewhere; entries of the
 * same position add up. Compiled functions multiply the matrix by other matrices, forwards and backwards, by its entries only. So an
 * absent entry times infinity is 0. Every other operation gets the dense matrix.
 *
 * @param shape rows and columns of the matrix
 * @throws HeddleError `shape` unless the vectors have one length; `value` when it runs and an index lies outside.
 */
export const sparse = (values: Tensor, rows: Tensor, columns: Tensor, shape: readonly [number, number]): Tensor =>
  operate("sparse", ops.sparse, [values, rows, columns], shape);

/**
 * 1 where the class is the index, else 0, along a new last dim of `classes`, in f32 or `dtype`. Zeros for an index outside.
 *
 * @throws HeddleError `option` for a number of classes that is not a whole number from 0 on
 */
export function oneHot(indices: Tensor, classes: number, options: CreateOptions = {}): Tensor {
  checkOptions("oneHot", options, ["dtype"]);
  const { dtype = "f32" } = options;
  checkDType("oneHot", dtype);
  checkInteger("oneHot", "classes", classes, 0);
  return operate("oneHot", ops.oneHot, [indices], classes, dtype);
}

/**
 * The general product of StableHLO (dot_general) of two tensors of one dtype (integers wrap): contracts the dims `xContract` of x with
 * `yContract` of y, for each position of the batch dims `xBatch` and `yBatch`. Dims count from 0 and come in pairs of equal size. The
 * result has the batch dims, then the remaining dims of x, then those of y.
 *
 * @param dims the dims, and `dtype`, the dtype of the result as in {@link matmul}
 * @throws HeddleError `shape` for dims that do not pair; `dtype` for bool and for two dtypes; `option` for a `dtype` of bool
 */
export function dotGeneral(x: Tensor, y: Tensor, dims: Parameters<typeof ops.dotGeneral>[2]): Tensor {
  checkWide("dotGeneral", asRecord("dotGeneral", dims).dtype);
  return operate("dotGeneral", ops.dotGeneral, [x, y], dims);
}

/** Sorts tensors of one shape by the first tensor's elements along a dim (default the last), stable; options as {@link sort}. */
export function sortTogether(inputs: readonly Tensor[], dim = -1, options: SortOptions = {}): Tensor[] {
  if (!Array.isArray(inputs))
    throw new HeddleError("argument", `sortTogether: takes an array of tensors, got ${shown(inputs)}`);
  checkOptions("sortTogether", options, ["descending"]);
  const build = (...all: unknown[]) =>
    ops.sortTogether(
      all.slice(0, inputs.length) as Parameters<typeof ops.sortTogether>[0],
      all[inputs.length] as number,
      all[inputs.length + 1] as SortOptions,
    );
  return operateAll("sortTogether", build, inputs, dim, options);
}
