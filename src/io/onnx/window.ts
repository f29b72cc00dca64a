/** @module Windows of ONNX's convolutions and poolings: sizes, steps, and padding given or by a rule. */

import { resolvedPadding } from "../../functions/window-options.ts";
import { range } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import type { Window } from "../windows.ts";
import type { NodeContext } from "./context.ts";

export function perSpatial(c: NodeContext, name: string, rank: number, otherwise: number): readonly number[] {
  const list = c.ints(name, new Array<number>(rank).fill(otherwise));
  if (list.length === rank) return list;
  throw new HeddleError("format", `${name} has ${list.length} entries for ${rank} spatial dims`);
}

/** The window of a node over the spatial dims of input 0. */
export function autoPadding(c: NodeContext, sizes: readonly number[]): Window {
  const rank = sizes.length;
  if (rank !== c.rank() - 2 || rank === 0)
    throw new HeddleError("shape", `a window of ${rank} spatial dims on an input of ${c.rank()} dims`);
  const strides = perSpatial(c, "strides", rank, 1);
  const dilations = perSpatial(c, "dilations", rank, 1);
  const mode = c.string("auto_pad", "NOTSET");
  const pads = c.ints("pads", new Array<number>(2 * rank).fill(0));
  const spans = sizes.map((size, dim) => (size - 1) * (dilations[dim] as number) + 1);
  const given =
    mode === "NOTSET"
      ? range(rank).map((dim): [number, number] => [pads[dim] as number, pads[dim + rank] as number])
      : mode === "VALID"
        ? "valid"
        : "same";
  const upper = resolvedPadding(given, c.shape().slice(2), spans, strides);
  const padding = mode === "SAME_LOWER" ? upper.map(([low, high]): [number, number] => [high, low]) : upper;
  return { sizes, strides, dilations, padding };
}
