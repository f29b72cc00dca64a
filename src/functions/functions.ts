/** @module Functions of several tensors, of none or of a table, which are no methods. */

import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { checkDType, checkWhole } from "../tensor/arguments.ts";
import { operate, operateAll, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { CreateOptions } from "./create.ts";
import type { SortOptions } from "./methods/order.ts";
import { selected } from "./selected.ts";
import { type Binary, binary } from "./spelling.ts";

/** The derivative of order n of digamma at x; n whole numbers from 0 to 170 in the dtype of x, and constant for gradients. */
export const polygamma: Binary = binary("polygamma", ops.polygamma);

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting; the condition is bool. */
export const select = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("select", condition, onTrue, onFalse);

/** Joins tensors along a dim. */
export function concat(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `concat: takes an array of at least one tensor, got ${shown(inputs)}`);
  return operate("concat", buildConcat, inputs, dim);
}

/** The dim comes last, after however many inputs there are. */
const buildConcat = (...given: (Node | number)[]): Node =>
  ops.concat(given.slice(0, -1) as Node[], given.at(-1) as number);

/** The elements in reverse order along `dims`; negative ones count from the end. @throws HeddleError `shape` when one repeats. */
export function reverse(x: Tensor, dims: readonly number[]): Tensor {
  checkWhole("reverse", "dims", dims);
  return operate("reverse", ops.reverse, [x], dims);
}

/**
 * A matrix that is zero but at (`rows`, `columns`), i32 vectors as long as the float `values`; entries of one place add up.
 * Compiled functions multiply it by other matrices, and differentiate that, on its entries alone, which an absent entry
 * times infinity shows: it counts as 0. Every other operation gets the dense matrix.
 *
 * @param shape rows and columns of the matrix
 * @throws HeddleError `value` from the run when an index lies outside.
 */
export const sparse = (values: Tensor, rows: Tensor, columns: Tensor, shape: readonly [number, number]): Tensor =>
  operate("sparse", ops.sparse, [values, rows, columns], shape);

/** 1 where the class is the index, else 0, along a new last dim of `classes`; f32, or `dtype`. Zeros for an index outside. */
export function oneHot(indices: Tensor, classes: number, options: CreateOptions = {}): Tensor {
  checkOptions("oneHot", options, ["dtype"]);
  const { dtype = "f32" } = options;
  checkDType("oneHot", dtype);
  checkInteger("oneHot", "classes", classes, 0);
  return operate("oneHot", ops.oneHot, [indices], classes, dtype);
}

/**
 * The general product of StableHLO (dot_general) of two tensors of one dtype (integers wrap): contracts the dims `xContract` of x with
 * `yContract` of y, for each position of the batch dims `xBatch` and `yBatch`. Dims are numbers from 0, in pairs of equal
 * size; those of the result are the batch dims, what is left of x, then of y.
 */
export const dotGeneral = (x: Tensor, y: Tensor, dims: Parameters<typeof ops.dotGeneral>[2]): Tensor =>
  operate("dotGeneral", ops.dotGeneral, [x, y], dims);

/** Tensors of one shape in the order of the first one's elements along a dim (default the last), stable. */
export function sortTogether(inputs: readonly Tensor[], dim = -1, options: SortOptions = {}): Tensor[] {
  if (!Array.isArray(inputs))
    throw new HeddleError("argument", `sortTogether: takes an array of tensors, got ${shown(inputs)}`);
  checkOptions("sortTogether", options, ["descending"]);
  const build = (...given: unknown[]) =>
    ops.sortTogether(
      given.slice(0, inputs.length) as Parameters<typeof ops.sortTogether>[0],
      given[inputs.length] as number,
      given[inputs.length + 1] as SortOptions,
    );
  return operateAll("sortTogether", build, inputs, dim, options);
}
