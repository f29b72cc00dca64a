/** @module ONNX's Resize: each dim by its rules of coordinates. */

import { HeddleError } from "../../extend/index.ts";
import * as h from "../../functions/index.ts";
import { resampled, type TapKernel, type Taps, type Tensor, tapsOf } from "../../functions/index.ts";
import { range } from "../../ir/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";

/** One dim: its sizes, the scale, and the part of the input that is read. */
interface Dim {
  readonly from: number;
  readonly to: number;
  readonly scale: number;
  readonly start: number;
  readonly end: number;
}

/** Where an element of the result lies in the input. */
function coordinate(mode: string, { from, to, scale, start, end }: Dim, position: number): number {
  const length = scale * from;
  switch (mode) {
    case "half_pixel":
      return (position + 0.5) / scale - 0.5;
    case "half_pixel_symmetric": {
      const centre = (from / 2) * (1 - to / length);
      return centre + (position + 0.5) / scale - 0.5;
    }
    case "pytorch_half_pixel":
      return to > 1 ? (position + 0.5) / scale - 0.5 : 0;
    case "align_corners":
      return to === 1 ? 0 : (position * (from - 1)) / (length - 1);
    case "asymmetric":
      return position / scale;
    case "tf_crop_and_resize":
      if (to === 1) return 0.5 * (start + end) * (from - 1);
      return start * (from - 1) + (position * (end - start) * (from - 1)) / (to - 1);
    default:
      throw new HeddleError("op", `coordinate_transformation_mode ${mode} is not imported`);
  }
}

function nearest(mode: string, x: number): number {
  switch (mode) {
    case "floor":
      return Math.floor(x);
    case "ceil":
      return Math.ceil(x);
    case "round_prefer_ceil":
      return Math.floor(x + 0.5);
    default:
      return Math.ceil(x - 0.5);
  }
}

/** How a dim is sampled. */
interface Rules {
  readonly mode: string;
  readonly coordinates: string;
  readonly rounding: string;
  readonly exclude: boolean;
  readonly antialias: boolean;
  readonly cubic: number;
}

/** The rules of a node; those of Upsample, and of Resize of opset 10, are fixed. */
function rulesOf(c: NodeContext): Rules {
  const mode = c.string("mode", "nearest");
  const old = c.opset < 11;
  return {
    mode,
    coordinates: old ? "asymmetric" : c.string("coordinate_transformation_mode", "half_pixel"),
    rounding: old ? "floor" : c.string("nearest_mode", "round_prefer_floor"),
    exclude: c.flag("exclude_outside", false),
    antialias: c.flag("antialias", false) && mode !== "nearest",
    cubic: c.float("cubic_coeff_a", -0.75),
  };
}

/**
 * The input elements that each position of a dim is made of, and the positions outside of the input, where these have a value
 * of their own.
 */
function tapsOfDim(rules: Rules, dim: Dim): { taps: Taps; outside: readonly number[] } {
  const { mode, coordinates, rounding, exclude, antialias, cubic } = rules;
  const at = range(dim.to).map((position) => coordinate(coordinates, dim, position));
  const crops = coordinates === "tf_crop_and_resize";
  const kernel: TapKernel = {
    mode: mode as TapKernel["mode"],
    cubic,
    // With antialiasing the kernel is as wide as what one element of the result stands for.
    stretch: antialias ? Math.max(1, 1 / dim.scale) : 1,
    exclude,
  };
  return {
    taps: tapsOf(mode === "nearest" ? at.map((x) => nearest(rounding, x)) : at, dim.from, kernel),
    outside: range(dim.to).filter(
      (position) => crops && ((at[position] as number) < 0 || (at[position] as number) > dim.from - 1),
    ),
  };
}

/** The dims of the result, from scales or sizes of some axes, in proportion where the policy says so. */
function dimsOf(c: NodeContext): Dim[] {
  const rank = c.rank();
  const axes = c.dims(c.ints("axes", range(rank)));
  const old = c.opset < 11;
  const region = !old && c.has(1) ? c.numbers(1) : [];
  const scaled = old ? 1 : 2;
  const listed = c.listed(scaled, "scales");
  const scales = listed !== undefined && listed.length > 0 ? listed : undefined;
  const sizes = scales === undefined ? c.numbers(3) : undefined;
  const policy = c.string("keep_aspect_ratio_policy", "stretch");
  const ratios = sizes?.map((size, index) => size / (c.shape()[axes[index] as number] as number));
  const shared =
    policy === "stretch" || ratios === undefined
      ? undefined
      : policy === "not_larger"
        ? Math.min(...ratios)
        : Math.max(...ratios);
  return c.shape().map((from, dim): Dim => {
    const index = axes.indexOf(dim);
    if (index < 0) return { from, to: from, scale: 1, start: 0, end: 1 };
    const [start, end] = [region[index] ?? 0, region[index + axes.length] ?? 1];
    const scale = scales?.[index] ?? shared ?? (ratios?.[index] as number);
    const to =
      scales !== undefined
        ? Math.floor(from * scale)
        : shared !== undefined
          ? Math.floor(from * shared + 0.5)
          : (sizes?.[index] as number);
    return { from, to, scale, start, end };
  });
}

function resize(c: NodeContext): Tensor {
  const outer = c.float("extrapolation_value", 0);
  const dims = dimsOf(c);
  const rules = rulesOf(c);
  const crops = rules.coordinates === "tf_crop_and_resize";
  let x = c.x().cast("f64");
  const outside: [dim: number, places: readonly number[]][] = [];
  dims.forEach((dim, axis) => {
    if (dim.from === dim.to && dim.scale === 1 && !crops) return;
    const sampled = tapsOfDim(rules, dim);
    if (sampled.outside.length > 0) outside.push([axis, sampled.outside]);
    x = resampled(x, axis, sampled.taps);
  });
  for (const [axis, positions] of outside) {
    const flags = Uint8Array.from({ length: x.shape[axis] as number }, (_unused, position) =>
      Number(positions.includes(position)),
    );
    const mask = h.tensor(flags, {
      shape: x.shape.map((_size, dim) => (dim === axis ? flags.length : 1)),
      dtype: "bool",
    });
    x = h.select(mask, outer, x);
  }
  return x.cast(c.dtype());
}

export const resizeRows: Rows = {
  Resize: row(10, resize),
  Upsample: { since: 7, until: 9, build: resize },
};
