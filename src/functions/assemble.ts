/** @module Tensors assembled from other tensors or from their own borders, and selection by a condition. */

import type { Node } from "../ir/node.ts";
import { formatType, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkDType } from "../tensor/arguments.ts";
import { operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { arange, type CreateOptions } from "./create.ts";
import { diagonalNode, expandDim, offDiagonal, padBorderNode } from "./nodes.ts";
import { selected } from "./selected.ts";

function stackNode(inputs: readonly Node[], dim = 0): Node {
  return ops.concat(
    inputs.map((input) => expandDim(input, dim)),
    dim < 0 ? dim + (inputs[0]?.shape.length ?? 0) + 1 : dim,
  );
}

/** A square matrix with a vector as its diagonal `k`, zeros elsewhere. */
function diagonalMatrix(x: Node, k: number): Node {
  const zero = ops.constant(x.dtype, 0);
  const rows = ops.pad(x, zero, [Math.max(0, -k)], [Math.max(0, k)]);
  const size = rows.shape[0] as number;
  const wide = ops.broadcastInDim(rows, [size, size], [0]);
  return ops.select(ops.eq(offDiagonal("diag", wide.shape), k), wide, ops.zerosLike(wide));
}

function diagNode(x: Node, k = 0): Node {
  if (x.shape.length === 1) return diagonalMatrix(x, k);
  if (x.shape.length === 2) return diagonalNode(x, k);
  throw new HeddleError("shape", `diag: takes a vector or a matrix, got ${formatType(x)}`);
}

/** Coordinate vector `at` over the grid of all vectors; `order` lists the vectors by dim of the grid. */
function gridOf(vectors: readonly Node[], at: number, order: readonly number[]): Node {
  const shape = order.map((vector) => vectors[vector]?.shape[0] as number);
  return ops.broadcastInDim(vectors[at] as Node, shape, [order.indexOf(at)]);
}

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting; bool `condition`: NumPy's name of {@link select}. */
export const where = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("where", condition, onTrue, onFalse);

/** Joins tensors of one shape along a new dim `dim` of the result (default 0). @throws HeddleError `argument` without tensors */
export function stack(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `stack: takes an array of at least one tensor, got ${shown(inputs)}`);
  const build = (...operands: (Node | number)[]): Node =>
    stackNode(operands.slice(0, -1) as Node[], operands.at(-1) as number);
  return operate("stack", build, inputs, dim);
}

/** The matrix with a vector as its diagonal `k` (default 0, the main one), or diagonal `k` of a matrix. @throws HeddleError `shape` for other ranks */
export const diag = (x: Tensor, k = 0): Tensor => operate("diag", diagNode, [x], k);

/**
 * The identity matrix: ones on the diagonal, zeros elsewhere; f32 by default.
 *
 * @param columns default: the number of rows
 * @throws HeddleError `option` for a size that is not a whole number from 0 on, and for an unknown option
 */
export function eye(rows: number, columns?: number | CreateOptions, options: CreateOptions = {}): Tensor {
  const used = typeof columns === "object" ? columns : options;
  const wide = typeof columns === "object" ? rows : (columns ?? rows);
  checkOptions("eye", used, ["dtype"]);
  const { dtype = "f32" } = used;
  checkDType("eye", dtype);
  checkInteger("eye", "rows", rows, 0);
  checkInteger("eye", "columns", wide, 0);
  return arange(rows).reshape([rows, 1]).eq(arange(wide)).cast(dtype);
}

/** Options of {@link meshgrid}. */
export interface MeshgridOptions {
  /** `"ij"` (default): dim i follows vector i; `"xy"`: the first two dims are swapped, as in NumPy by default. */
  readonly indexing?: "ij" | "xy";
}

/**
 * The coordinates of a grid: for each vector a tensor of the grid's shape.
 *
 * @throws HeddleError `argument` for anything but an array of vectors; `option` for another indexing
 */
export function meshgrid(vectors: readonly Tensor[], options: MeshgridOptions = {}): Tensor[] {
  checkOptions("meshgrid", options, ["indexing"]);
  if (!Array.isArray(vectors) || vectors.some((vector) => vector?.shape?.length !== 1))
    throw new HeddleError("argument", `meshgrid: takes an array of vectors, got ${shown(vectors)}`);
  const { indexing = "ij" } = options;
  if (indexing !== "ij" && indexing !== "xy")
    throw new HeddleError("option", `meshgrid: indexing is ${shown(indexing)}`, { hint: 'it can be "ij" or "xy"' });
  const order = range(vectors.length);
  if (indexing === "xy" && order.length > 1) order.splice(0, 2, 1, 0);
  return vectors.map((_vector, at) =>
    operate(
      "meshgrid",
      (...operands: (Node | number | readonly number[])[]) =>
        gridOf(operands.slice(0, -2) as Node[], operands.at(-2) as number, operands.at(-1) as readonly number[]),
      vectors,
      at,
      order,
    ),
  );
}

/**
 * Pads with a border of `amounts[dim] = [low, high]` elements of the tensor: mirrored without the edge (`"reflect"`), the nearest
 * (`"replicate"`), or from the other side (`"circular"`).
 *
 * @throws HeddleError `shape` if a dim is too small for its border
 */
export const padBorder = (
  x: Tensor,
  amounts: readonly (readonly [number, number])[],
  mode: "reflect" | "replicate" | "circular",
): Tensor => operate("padBorder", padBorderNode, [x], amounts, mode);
