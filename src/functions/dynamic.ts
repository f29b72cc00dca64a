/** @module Rows added into zeros, and slices that begin where values say. */

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
 * Rows of `updates` added into zeros of `size` rows at `indices` (i32), from the end where negative: the transpose of
 * {@link take} along dim 0.
 */
export function scatterAdd(updates: Tensor, indices: Tensor, size: number): Tensor {
  checkInteger("scatterAdd", "size", size, 0);
  const build = (by: Node, at: Node, rows: number): Node => ops.scatterAdd(by, wrapped(at, rows), rows);
  return counted("scatterAdd", () => operate("scatterAdd", build, [updates, indices], size));
}

/**
 * A slice of `sizes` that starts at `starts` (i32 scalars or numbers), each counted from the end where negative and then moved
 * so that the slice fits: JAX's `dynamic_slice`.
 */
export function dynamicSlice(x: Tensor, starts: readonly TensorLike[], sizes: readonly number[]): Tensor {
  checkStarts("dynamicSlice", starts);
  checkWhole("dynamicSlice", "sizes", sizes);
  const given = starts.filter((start) => typeof start !== "number");
  return operate("dynamicSlice", buildDynamicSlice, [x, ...given], starts.map(placeOf), sizes);
}

/** x with `update` written over it from `starts` (i32 scalars or numbers) on, counted and moved as those of {@link dynamicSlice}. */
export function dynamicUpdateSlice(x: Tensor, update: Tensor, starts: readonly TensorLike[]): Tensor {
  checkStarts("dynamicUpdateSlice", starts);
  const given = starts.filter((start) => typeof start !== "number");
  return operate("dynamicUpdateSlice", buildDynamicUpdate, [x, update, ...given], starts.map(placeOf));
}

function checkStarts(what: string, starts: unknown): void {
  if (Array.isArray(starts)) return;
  throw new HeddleError("argument", `${what}: starts must be an array, one per dim, got ${shown(starts)}`);
}

/** A number, or null where the next tensor says it. */
const placeOf = (start: TensorLike): number | null => (typeof start === "number" ? start : null);

function startNodes({ shape }: Node, places: readonly (number | null)[], given: readonly Node[]): Node[] {
  let next = 0;
  return places.map((place, dim) => {
    const size = shape[dim] ?? 0;
    return place === null ? wrapped(given[next++] as Node, size) : ops.constant("i32", fromEnd(place, size));
  });
}

function buildDynamicSlice(...all: unknown[]): Node {
  const [places, sizes] = all.slice(-2) as [readonly (number | null)[], readonly number[]];
  const [x, ...given] = all.slice(0, -2) as [Node, ...Node[]];
  return ops.call("dynamicSlice", [x, ...startNodes(x, places, given)], { sizes });
}

function buildDynamicUpdate(...all: unknown[]): Node {
  const places = all.at(-1) as readonly (number | null)[];
  const [x, update, ...given] = all.slice(0, -1) as [Node, Node, ...Node[]];
  return ops.call("dynamicUpdateSlice", [x, update, ...startNodes(x, places, given)]);
}
