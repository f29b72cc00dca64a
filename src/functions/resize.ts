/** @module Resampling of tensors to other sizes: each element of the result is a weighted sum of a few elements along each dim. */

import { isFloat, isHalf } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, formatType, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { traced } from "../tensor/nested.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { tensor } from "./create.ts";
import { take } from "./methods/lookup.ts";
import { perSpatial } from "./window-options.ts";

/** How a value between elements is interpolated. */
export interface TapKernel {
  readonly mode: "nearest" | "linear" | "cubic";
  /** The parameter a of `cubic` (Keys, 1981). */
  readonly cubic: number;
  /** How many times wider than one element the kernel is: more than 1 for antialiasing. */
  readonly stretch: number;
  /** Whether elements outside are left out and the other weights scaled up; else the outermost element stands for them. */
  readonly exclude: boolean;
}

/** For each position of a result, the indices of its elements and their weights, tap by tap; all positions have as many taps. */
export interface Taps {
  readonly indices: readonly Int32Array[];
  readonly weights: readonly Float64Array[];
}

/** Weight of an element at a distance. */
function weightAt({ mode, cubic: a, stretch }: TapKernel, distance: number): number {
  const d = Math.abs(distance) / stretch;
  if (mode === "linear") return Math.max(0, 1 - d);
  if (d <= 1) return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1;
  return d < 2 ? a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a : 0;
}

/** The elements, among `size`, that give the value at each of these coordinates; `nearest` takes whole coordinates. */
export function tapsOf(coordinates: readonly number[], size: number, kernel: TapKernel): Taps {
  const reach = (kernel.mode === "cubic" ? 2 : 1) * kernel.stretch;
  const all = coordinates.map((x) => {
    const found = new Map<number, number>();
    const put = (at: number, weight: number): void => {
      const inside = Math.max(0, Math.min(size - 1, at));
      if (weight !== 0 && !(kernel.exclude && inside !== at)) found.set(inside, (found.get(inside) ?? 0) + weight);
    };
    if (kernel.mode === "nearest") put(Math.max(0, Math.min(size - 1, x)), 1);
    else for (let at = Math.ceil(x - reach); at <= Math.floor(x + reach); at++) put(at, weightAt(kernel, at - x));
    const total = [...found.values()].reduce((sum, weight) => sum + weight, 0);
    const scale = total !== 0 && (kernel.stretch > 1 || kernel.exclude) ? total : 1;
    return [...found].map(([at, weight]) => [at, weight / scale] as const);
  });
  const count = Math.max(1, ...all.map((taps) => taps.length));
  const nth = (tap: number) => all.map((taps) => taps[tap] ?? [taps[0]?.[0] ?? 0, 0]);
  return {
    indices: range(count).map((tap) => Int32Array.from(nth(tap), ([at]) => at)),
    weights: range(count).map((tap) => Float64Array.from(nth(tap), ([, weight]) => weight)),
  };
}

/** x resampled along a dim by these taps. */
export function resampled(x: Tensor, dim: number, { indices, weights }: Taps): Tensor {
  const parts = indices.map((at, tap) => {
    const elements = take(x, tensor(at), dim);
    const weight = weights[tap] as Float64Array;
    if (weight.every((factor) => factor === 1)) return elements;
    const shape = elements.shape.map((size, other) => (other === dim ? size : 1));
    const factors = tensor(weight, { shape }).cast(x.dtype);
    // An element of weight 0 contributes nothing, even if it is not finite.
    return weight.includes(0) ? operate("resize", weighed, [elements, factors]) : elements.mul(factors);
  });
  return parts.reduce((sum, part) => sum.add(part));
}

const weighed = (x: Node, factors: Node): Node => ops.select(ops.eq(factors, 0), ops.zerosLike(x), ops.mul(x, factors));

/** Options of {@link resize}. */
export interface ResizeOptions {
  /**
   * `"bilinear"` (default, also `"linear"`) and `"bicubic"` (also `"cubic"`) in each dim between the two or four elements around;
   * `"nearest"` the element at `floor(position · from / to)`, `"nearestExact"` at `floor((position + 0.5) · from / to)`.
   */
  readonly mode?: "nearest" | "nearestExact" | "linear" | "bilinear" | "cubic" | "bicubic";
  /** Whether the outermost elements keep their positions, else their outer edges do; default false. Not for the nearest modes. */
  readonly alignCorners?: boolean;
}

const kernels: { readonly [mode: string]: TapKernel["mode"] } = {
  nearest: "nearest",
  nearestExact: "nearest",
  linear: "linear",
  bilinear: "linear",
  cubic: "cubic",
  bicubic: "cubic",
};

/** The coordinates among `from` elements of each position of a result of size `to`, as in PyTorch's `interpolate`. */
function coordinatesOf(mode: string, alignCorners: boolean, from: number, to: number): number[] {
  if (alignCorners) return range(to).map((position) => (to === 1 ? 0 : (position * (from - 1)) / (to - 1)));
  if (mode === "nearest") return range(to).map((position) => Math.floor((position * from) / to));
  if (mode === "nearestExact") return range(to).map((position) => Math.floor(((2 * position + 1) * from) / (2 * to)));
  return range(to).map((position) => ((2 * position + 1) * from) / (2 * to) - 0.5);
}

/**
 * Resizes images `[batch, channels, …]`, with 1 to 3 further dims, to another size (one number, or one per dim): PyTorch's
 * `interpolate`, with a = -0.75 for cubic and no antialiasing when shrinking. Floats; nearest modes take any dtype. 16-bit floats are
 * computed in f32. The gradient goes to the elements that were read, by their weights.
 *
 * @throws HeddleError `shape` unless there are 1 to 3 such dims, none of them empty; `dtype` for integers between elements; `option` for
 * another mode
 * @example resize(x, [32, 32], { mode: "nearest" })
 */
export function resize(x: Tensor, size: number | readonly number[], options: ResizeOptions = {}): Tensor {
  checkTensor("resize", x);
  checkOptions("resize", options, ["mode", "alignCorners"]);
  const { mode = "bilinear", alignCorners = false } = options;
  const kind = Object.hasOwn(kernels, mode) ? (kernels[mode] as TapKernel["mode"]) : undefined;
  if (kind === undefined)
    throw new HeddleError("option", `resize: mode is ${shown(mode)}`, {
      hint: `it can be ${Object.keys(kernels).join(", ")}`,
    });
  if (alignCorners && kind === "nearest")
    throw new HeddleError(
      "option",
      `resize: alignCorners is not for mode "${mode}", which has no positions between elements`,
    );
  const rank = x.shape.length - 2;
  if (rank < 1 || rank > 3)
    throw new HeddleError("shape", `resize: takes [batch, channels, …] with 1 to 3 dims behind, got ${formatType(x)}`);
  const sizes = perSpatial("resize", "size", size, rank);
  if (x.shape.slice(2).includes(0) || sizes.some((length) => length < 1))
    throw new HeddleError("shape", `resize: cannot resize ${formatType(x)} to ${formatShape(sizes)}`);
  if (kind !== "nearest" && !isFloat(x.dtype))
    throw new HeddleError("dtype", `resize: takes floats, or mode "nearest", got ${formatType(x)}`);
  const kernel: TapKernel = { mode: kind, cubic: -0.75, stretch: 1, exclude: false };
  const body = (): Tensor => {
    const start = isHalf(x.dtype) && kind !== "nearest" ? x.cast("f32") : x;
    const result = sizes.reduce((y, to, dim) => {
      const from = y.shape[dim + 2] as number;
      if (from === to) return y;
      const coordinates = coordinatesOf(mode, alignCorners, from, to);
      return resampled(y, dim + 2, tapsOf(coordinates, from, kernel));
    }, start);
    return result.cast(x.dtype);
  };
  return within("resize", () => traced("resize", body));
}
