/** @module Users' options of windows, resolved to one entry per spatial dim. */

import { checkWhole } from "../tensor/arguments.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** One number for all spatial dims, one per dim, `[low, high]` per dim, or TensorFlow's rule: `"same"`, `"valid"` (none). */
export type Padding = number | readonly (number | readonly [number, number])[] | "same" | "valid";

/** One number per spatial dim, from a number or a list. @throws HeddleError `argument` for another length */
export function perSpatial(what: string, name: string, value: number | readonly number[], rank: number): number[] {
  checkWhole(what, name, value, true);
  const list = typeof value === "number" ? new Array<number>(rank).fill(value) : [...value];
  if (list.length === rank) return list;
  const wanted =
    ["a number or [width]", "one number or two", "one number or three"][rank - 1] ?? `one number or ${rank} of them`;
  throw new HeddleError("argument", `${what}: ${name} must be ${wanted}, got ${shown(value)}`);
}

/** Low and high padding per spatial dim, for windows of these spans. */
export function resolvedPadding(
  padding: Padding,
  sizes: readonly number[],
  spans: readonly number[],
  strides: readonly number[],
): [number, number][] {
  if (padding === "valid") return spans.map(() => [0, 0]);
  if (padding === "same") {
    return spans.map((span, dim) => {
      const [size, stride] = [sizes[dim] as number, strides[dim] as number];
      const total = Math.max(0, (Math.ceil(size / stride) - 1) * stride + span - size);
      return [Math.floor(total / 2), Math.ceil(total / 2)];
    });
  }
  const list = typeof padding === "number" ? spans.map(() => padding) : padding;
  return list.map((amount) => (typeof amount === "number" ? [amount, amount] : [amount[0], amount[1]]));
}

/** Padding that completes the last window of a dim; the window must begin before the padding at the end. */
export function withLastWindow(
  size: number,
  span: number,
  stride: number,
  [low, high]: readonly [number, number],
): [number, number] {
  const steps = Math.ceil((size + low + high - span) / stride);
  const last = steps * stride >= size + low ? steps - 1 : steps;
  // Unneeded padding is dropped.
  return [low, Math.max(0, last * stride + span - size - low)];
}
