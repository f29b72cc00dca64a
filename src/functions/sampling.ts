/** @module Images read between their elements, at positions that are values: weighted sums of gathered neighbours. */
import { isFloat, isHalf } from "../ir/dtype.ts";
import { formatType, type Shape, sizeOf, stridesOf } from "../ir/shape.ts";
import { traced } from "../tensor/nested.ts";
import { checkTensor, type Tensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { zerosLike } from "./create.ts";
import { select } from "./functions.ts";
import { rowsById } from "./indices.ts";
import { add, and, floor, or, round, sub, trunc } from "./methods/index.ts";
import { pick } from "./methods/rearrange.ts";

/** How values between elements, and outside of the image, are computed. */
export interface Sampling {
  readonly mode: "nearest" | "linear" | "cubic";
  readonly outside: "zeros" | "border" | "reflection";
  /** Whether reflection is at the centres of the outermost elements, else at their edges. */
  readonly atCentres: boolean;
}

/** One neighbour along a dim: its position, whether the position is in the image, and its weight. */
interface Tap {
  readonly index: Tensor;
  readonly inside: Tensor;
  readonly weight: Tensor | undefined;
}

/** Places reflected at both ends until they lie in between. */
function reflected(x: Tensor, size: number, atCentres: boolean): Tensor {
  const [low, high] = atCentres ? [0, size - 1] : [-0.5, size - 0.5];
  const span = high - low;
  if (span === 0) return zerosLike(x);
  const distance = x.sub(low).abs();
  const turns = floor(distance.div(span));
  const rest = distance.sub(turns.mul(span));
  const odd = turns.sub(floor(turns.mul(0.5)).mul(2)).ne(0);
  return select(odd, sub(high, rest), rest.add(low));
}

/** Places outside of the image moved into it, as `outside` says. */
function broughtIn(x: Tensor, size: number, { outside, atCentres }: Sampling): Tensor {
  if (outside === "zeros") return x;
  const beyond = atCentres ? or(x.lt(0), x.gt(size - 1)) : or(x.lt(-0.5), x.gt(size - 0.5));
  return select(beyond, outside === "border" ? x.maximum(0).minimum(size - 1) : reflected(x, size, atCentres), x);
}

/** Weights of the four elements around a position, by its distance from the second element (Keys, 1981, with a = -0.75). */
function cubicWeights(part: Tensor): Tensor[] {
  const a = -0.75;
  const near = (t: Tensor): Tensor =>
    t
      .mul(a + 2)
      .sub(a + 3)
      .mul(t)
      .mul(t)
      .add(1);
  const far = (t: Tensor): Tensor =>
    t
      .mul(a)
      .sub(5 * a)
      .mul(t)
      .add(8 * a)
      .mul(t)
      .sub(4 * a);
  return [far(part.add(1)), near(part), near(sub(1, part)), far(sub(2, part))];
}

function taps(x: Tensor, size: number, sampling: Sampling): Tap[] {
  const { mode } = sampling;
  const at = broughtIn(mode === "nearest" ? round(x) : x, size, sampling);
  const first = floor(at);
  const part = at.sub(first);
  const tap = (point: Tensor, weight: Tensor | undefined): Tap => {
    const mirrored = sampling.outside === "reflection" ? trunc(reflected(point, size, sampling.atCentres)) : point;
    const inside = and(mirrored.ge(0), mirrored.le(size - 1));
    const nearest = select(inside, mirrored, select(mirrored.gt(0), size - 1, zerosLike(mirrored)));
    return { index: nearest.cast("i32"), inside, weight };
  };
  if (mode === "nearest") return [tap(trunc(at), undefined)];
  if (mode === "linear") return [tap(first, sub(1, part)), tap(first.add(1), part)];
  return cubicWeights(part).map((weight, index) => tap(first.add(index - 1), weight));
}

/**
 * Values of images `[batch, channels, …]` at positions: for each spatial dim, coordinates `[batch, points]` in elements.
 * Gives `[batch, points, channels]`: the sum of the weighted neighbours, or their combination by `combine`.
 */
export function sampleAt(
  images: Tensor,
  coordinates: readonly Tensor[],
  sampling: Sampling,
  combine: (x: Tensor, y: Tensor) => Tensor = add,
): Tensor {
  const [batch, channels, ...sizes] = images.shape as [number, number, ...number[]];
  const rows = images.reshape([batch, channels, sizeOf(sizes)]).transpose([0, 2, 1]);
  const strides = stridesOf(sizes as Shape);
  let corners: Tap[] = [];
  coordinates.forEach((x, dim) => {
    const along = taps(x, sizes[dim] as number, sampling).map((tap) => ({
      ...tap,
      index: tap.index.mul(strides[dim] as number),
    }));
    corners = dim === 0 ? along : corners.flatMap((corner) => along.map((tap) => joined(corner, tap)));
  });
  const values = corners.map(({ index, inside, weight }) => {
    const read = rowsById(rows, index, 1);
    const deep = (x: Tensor): Tensor => x.reshape([...x.shape, 1]);
    // A selection, as a weight of 0 would turn values that are not finite into NaN.
    const value = sampling.outside === "zeros" ? select(deep(inside), read, zerosLike(read)) : read;
    return weight === undefined ? value : value.mul(deep(weight).cast(value.dtype));
  });
  return values.reduce((x, y) => combine(x, y));
}

function joined(x: Tap, y: Tap): Tap {
  const weight = x.weight === undefined || y.weight === undefined ? undefined : x.weight.mul(y.weight);
  return { index: x.index.add(y.index), inside: and(x.inside, y.inside), weight };
}

/** Options of {@link gridSample}. */
export interface GridSampleOptions {
  /** Interpolation between the elements around a position (default), or the nearest element, with halves to the even one. */
  readonly mode?: "bilinear" | "nearest";
  /** Values outside of the image: 0 (default), the nearest element, or the mirror image. */
  readonly padding?: Sampling["outside"];
  /** Whether -1 and 1 are the centres of the outermost elements, else their outer edges; default false. */
  readonly alignCorners?: boolean;
}

/** Places from -1 to 1, the last spatial dim first, as coordinates in elements per dim. */
export function gridPlaces(grid: Tensor, sizes: Shape, atCentres: boolean): Tensor[] {
  const points = grid.reshape([grid.shape[0] as number, sizeOf(grid.shape.slice(1, -1)), sizes.length]);
  return sizes.map((size, dim) => {
    const from = pick(points, sizes.length - 1 - dim).add(1);
    return atCentres ? from.mul((size - 1) / 2) : from.mul(size).sub(1).mul(0.5);
  });
}

/**
 * Images `[batch, channels, height, width]` read at positions `[batch, rows, columns, 2]` from -1 to 1, x before y:
 * `[batch, channels, rows, columns]`, PyTorch's `grid_sample`. With a further dim in both it reads volumes, at positions x, y, z. Floats of
 * one dtype; gradients by images and, between elements, by positions. 16-bit floats are computed in f32. A position that is NaN gives NaN, and
 * so does an infinite position, unless padding is `"border"`.
 *
 * @throws HeddleError `shape` or `dtype` if the two do not fit; `option` for another mode or padding
 */
export function gridSample(images: Tensor, grid: Tensor, options: GridSampleOptions = {}): Tensor {
  const name = "gridSample";
  checkTensor(name, images);
  checkTensor(name, grid);
  checkOptions(name, options, ["mode", "padding", "alignCorners"]);
  const { mode = "bilinear", padding = "zeros", alignCorners = false } = options;
  checkChoice(name, "mode", mode, ["bilinear", "nearest"]);
  checkChoice(name, "padding", padding, ["zeros", "border", "reflection"]);
  const [batch, channels, ...sizes] = images.shape as [number, number, ...number[]];
  const [dims, points] = [grid.shape.at(-1), grid.shape.slice(1, -1)];
  const fits = [2, 3].includes(sizes.length) && dims === sizes.length && points.length === sizes.length;
  if (!fits || grid.shape[0] !== batch || sizes.includes(0))
    throw new HeddleError("shape", `${name}: ${formatType(images)} is not read at ${formatType(grid)}`, {
      hint: "images are [batch, channels, height, width], the grid is [batch, rows, columns, 2]",
    });
  if (!isFloat(images.dtype) || images.dtype !== grid.dtype)
    throw new HeddleError(
      "dtype",
      `${name}: takes floats of one dtype, got ${formatType(images)}, ${formatType(grid)}`,
    );
  const sampling: Sampling = { mode: mode === "nearest" ? mode : "linear", outside: padding, atCentres: alignCorners };
  const body = (): Tensor => {
    const [x, at] = isHalf(images.dtype) ? [images.cast("f32"), grid.cast("f32")] : [images, grid];
    return sampleAt(x, gridPlaces(at, sizes, alignCorners), sampling)
      .transpose([0, 2, 1])
      .reshape([batch, channels, ...points])
      .cast(images.dtype);
  };
  return within(name, () => traced(name, body));
}

function checkChoice(what: string, name: string, value: unknown, choices: readonly string[]): void {
  if ((choices as readonly unknown[]).includes(value)) return;
  throw new HeddleError("option", `${what}: ${name} is ${shown(value)}`, { hint: `it can be ${choices.join(", ")}` });
}
