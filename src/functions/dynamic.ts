/** @module Rows added into zeros, and slices whose start is a value. */

import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { checkWhole } from "../tensor/arguments.ts";
import { operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { counted } from "./counted.ts";
import { fromEnd, wrapped } from "./nodes.ts";

/**
 * Adds the rows of `updates` into zeros of `size` rows at `indices` (i32): the transpose of {@link take} along dim 0. Negative
 * indices count from the end.
 *
 * @throws HeddleError `option` for a size that is not a whole number from 0 on; `value` when it runs and an index lies outside
 */
export function scatterAdd(updates: Tensor, indices: Tensor, size: number): Tensor {
  checkInteger("scatterAdd", "size", size, 0);
  const build = (by: Node, at: Node, rows: number): Node => ops.scatterAdd(by, wrapped(at, rows), rows);
  return counted("scatterAdd", () => operate("scatterAdd", build, [updates, indices], size));
}

/**
 * A slice of `sizes` that starts at `starts` (i32 scalars or numbers, one per dim), JAX's `dynamic_slice`. A negative start counts
 * from the end; starts are then clamped so that the slice fits.
 *
 * @throws HeddleError `argument` unless starts and sizes are lists; `shape` if the sizes do not fit
 */
export function dynamicSlice(x: Tensor, starts: readonly TensorLike[], sizes: readonly number[]): Tensor {
  checkStarts("dynamicSlice", starts);
  checkWhole("dynamicSlice", "sizes", sizes);
  const values = starts.filter((start) => typeof start !== "number");
  return operate("dynamicSlice", buildDynamicSlice, [x, ...values], starts.map(placeOf), sizes);
}

/**
 * x with `update` written over it from `starts` (i32 scalars or numbers, one per dim) on; starts are counted and clamped as in
 * {@link dynamicSlice}.
 *
 * @throws HeddleError `argument` unless starts are a list; `shape` if the update does not fit
 */
export function dynamicUpdateSlice(x: Tensor, update: Tensor, starts: readonly TensorLike[]): Tensor {
  checkStarts("dynamicUpdateSlice", starts);
  const values = starts.filter((start) => typeof start !== "number");
  return operate("dynamicUpdateSlice", buildDynamicUpdate, [x, update, ...values], starts.map(placeOf));
}

function checkStarts(what: string, starts: unknown): void {
  if (Array.isArray(starts)) return;
  throw new HeddleError("argument", `${what}: starts must be an array, one per dim, got ${shown(starts)}`);
}

/** The start as a number, or null if it is a tensor. */
const placeOf = (start: TensorLike): number | null => (typeof start === "number" ? start : null);

function startNodes({ shape }: Node, starts: readonly (number | null)[], values: readonly Node[]): Node[] {
  let next = 0;
  return starts.map((start, dim) => {
    const size = shape[dim] ?? 0;
    return start === null ? wrapped(values[next++] as Node, size) : ops.constant("i32", fromEnd(start, size));
  });
}

function buildDynamicSlice(...all: unknown[]): Node {
  const [starts, sizes] = all.slice(-2) as [readonly (number | null)[], readonly number[]];
  const [x, ...values] = all.slice(0, -2) as [Node, ...Node[]];
  return ops.call("dynamicSlice", [x, ...startNodes(x, starts, values)], { sizes });
}

function buildDynamicUpdate(...all: unknown[]): Node {
  const starts = all.at(-1) as readonly (number | null)[];
  const [x, update, ...values] = all.slice(0, -1) as [Node, Node, ...Node[]];
  return ops.call("dynamicUpdateSlice", [x, update, ...startNodes(x, starts, values)]);
}
