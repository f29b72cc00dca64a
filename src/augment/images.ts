/** @module Augmentation of images `[batch, channels, height, width]`: mirrored, moved, turned, coloured, erased, with noise. */
import { arange, flip as flipped, gridSample, random, select, stack, type Tensor, tensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type Augmentation, checkImages, ofInputs } from "./augmentation.ts";

/** A number for each image, equally likely between two bounds: `[batch, 1, 1, 1]`. */
const drawn = (key: Tensor, batch: number, low: number, high: number, x: Tensor): Tensor =>
  random
    .uniform(key, [batch, 1, 1, 1])
    .mul(high - low)
    .add(low)
    .cast(x.dtype);

const chosen = (key: Tensor, batch: number, probability: number): Tensor =>
  random.bernoulli(key, probability, [batch, 1, 1, 1]);

/** Options of {@link flip}. */
export interface FlipOptions {
  /** How likely an image is mirrored left to right; default 0.5. */
  readonly horizontal?: number;
  /** How likely it is turned upside down; default 0. */
  readonly vertical?: number;
}

/** Images mirrored at random. */
export function flip(options: FlipOptions = {}): Augmentation {
  checkOptions("flip", options, ["horizontal", "vertical"]);
  const { horizontal = 0.5, vertical = 0 } = options;
  checkNumber("flip", "horizontal", horizontal, 0, 1);
  checkNumber("flip", "vertical", vertical, 0, 1);
  return ofInputs((key, x) => {
    const [batch] = checkImages("flip", x);
    const turn = (image: Tensor, dim: number, probability: number): Tensor =>
      probability === 0
        ? image
        : select(chosen(random.foldIn(key, dim), batch, probability), flipped(image, dim), image);
    return turn(turn(x, 3, horizontal), 2, vertical);
  });
}

/** Options of {@link affine}. */
export interface AffineOptions {
  /** Turned by up to so many degrees to either side; default 0. */
  readonly degrees?: number;
  /** Moved by up to this share of height and width to either side; default 0. */
  readonly translate?: number;
  /** Made larger by a factor between these; default `[1, 1]`. */
  readonly scale?: readonly [lowest: number, highest: number];
  /** What is outside of the image: 0 (default), its border, or its mirror image. */
  readonly outside?: "zeros" | "border" | "reflection";
}

/** Images turned, moved and scaled at random, each in its own way, with values between pixels interpolated. */
export function affine(options: AffineOptions = {}): Augmentation {
  checkOptions("affine", options, ["degrees", "translate", "scale", "outside"]);
  const { degrees = 0, translate = 0, scale = [1, 1], outside = "zeros" } = options;
  checkNumber("affine", "degrees", degrees, 0, 180);
  checkNumber("affine", "translate", translate, 0, 1);
  checkRange("affine", "scale", scale, Number.MIN_VALUE);
  return ofInputs((key, x) => {
    const [batch, , height, width] = checkImages("affine", x);
    const number = (at: number, low: number, high: number): Tensor =>
      drawn(random.foldIn(key, at), batch, low, high, x).reshape([batch, 1, 1]);
    const angle = number(0, (-degrees * Math.PI) / 180, (degrees * Math.PI) / 180);
    const [cos, sin] = [angle.cos(), angle.sin()];
    const size = number(1, scale[0], scale[1]);
    const places = (count: number): Tensor =>
      arange(count)
        .cast(x.dtype)
        .mul(2)
        .add(1 - count)
        .div(count);
    const columns = places(width)
      .reshape([1, 1, width])
      .sub(number(2, -2 * translate, 2 * translate));
    const rows = places(height)
      .reshape([1, height, 1])
      .sub(number(3, -2 * translate, 2 * translate));
    // Places are from -1 to 1 in both dims, but pixels are square.
    const ratio = width / height;
    const from = [
      columns.mul(cos).add(rows.mul(sin).div(ratio)).div(size),
      rows.mul(cos).sub(columns.mul(sin).mul(ratio)).div(size),
    ];
    return gridSample(x, stack(from, -1), { padding: outside });
  });
}

/** Images turned by up to so many degrees to either side: {@link affine}. */
export function rotate(degrees: number, options: Pick<AffineOptions, "outside"> = {}): Augmentation {
  checkOptions("rotate", options, ["outside"]);
  return affine({ degrees, ...options });
}

/** Options of {@link crop}. */
export interface CropOptions {
  /** Pixels by which an image moves at most, in each direction; default 4. */
  readonly padding?: number;
  /** What comes in from outside: 0 (default), the image's border, or its mirror image. */
  readonly outside?: AffineOptions["outside"];
}

/** A part of each image of its own size, after it has got a frame of so many pixels: it moves by whole pixels. */
export function crop(options: CropOptions = {}): Augmentation {
  checkOptions("crop", options, ["padding", "outside"]);
  const { padding = 4, outside = "zeros" } = options;
  checkNumber("crop", "padding", padding, 0, 2 ** 14);
  return ofInputs((key, x) => {
    const [batch, , height, width] = checkImages("crop", x);
    const shift = (at: number): Tensor =>
      random.randint(random.foldIn(key, at), [batch, 1, 1], { min: -padding, max: padding + 1 }).cast(x.dtype);
    const place = (count: number, shape: readonly number[], by: Tensor): Tensor =>
      arange(count).cast(x.dtype).reshape(shape).add(by).mul(2).add(1).div(count).sub(1);
    const columns = place(width, [1, 1, width], shift(0)).add(zerosOf(x, [1, height, 1]));
    const rows = place(height, [1, height, 1], shift(1)).add(zerosOf(x, [1, 1, width]));
    return gridSample(x, stack([columns, rows], -1), { mode: "nearest", padding: outside });
  });
}

const zerosOf = (x: Tensor, shape: readonly number[]): Tensor =>
  arange(shape.reduce((product, size) => product * size, 1))
    .cast(x.dtype)
    .mul(0)
    .reshape(shape);

/** Options of {@link colour}. */
export interface ColourOptions {
  /** The largest change of the factor by which values are multiplied; default 0. */
  readonly brightness?: number;
  /** The largest change of the factor of the distance from the image's mean; default 0. */
  readonly contrast?: number;
  /** The largest change of the factor of the distance from each pixel's grey, for three channels; default 0. */
  readonly saturation?: number;
}

/** Brightness, contrast and saturation changed, in this order, each by a factor of up to `1 ± change`, as torchvision's `ColorJitter` has them. */
export function colour(options: ColourOptions = {}): Augmentation {
  checkOptions("colour", options, ["brightness", "contrast", "saturation"]);
  const { brightness = 0, contrast = 0, saturation = 0 } = options;
  for (const [name, value] of Object.entries({ brightness, contrast, saturation }))
    checkNumber("colour", name, value, 0, 10);
  return ofInputs((key, x) => {
    const [batch, channels] = checkImages("colour", x);
    if (saturation > 0 && channels !== 3)
      throw new HeddleError("shape", `colour: saturation needs 3 channels, the images have ${channels}`);
    const factor = (at: number, change: number): Tensor =>
      drawn(random.foldIn(key, at), batch, Math.max(0, 1 - change), 1 + change, x);
    const blended = (image: Tensor, other: Tensor, by: Tensor): Tensor => image.sub(other).mul(by).add(other);
    let image = x;
    if (brightness > 0) image = image.mul(factor(0, brightness));
    if (contrast > 0)
      image = blended(image, grey(image, channels).mean([1, 2, 3], { keepDims: true }), factor(1, contrast));
    if (saturation > 0) image = blended(image, grey(image, channels), factor(2, saturation));
    return image;
  });
}

/** The grey of colours, by the weights of ITU-R BT.601. */
function grey(x: Tensor, channels: number): Tensor {
  if (channels !== 3) return x;
  const weights = tensor([0.299, 0.587, 0.114]).reshape([1, 3, 1, 1]).cast(x.dtype);
  return x.mul(weights).sum([1], { keepDims: true });
}

/** Options of {@link erase}. */
export interface EraseOptions {
  /** How likely an image loses a part; default 0.5. */
  readonly probability?: number;
  /** The part's share of the image; default `[0.02, 0.33]`. */
  readonly area?: readonly [lowest: number, highest: number];
  /** The part's height over its width; default `[0.3, 3.3]`. */
  readonly ratio?: readonly [lowest: number, highest: number];
  /** What stands in its place; default 0. */
  readonly value?: number;
}

/** Random erasing (Zhong and others, 2017, https://arxiv.org/abs/1708.04896): a rectangle of an image is replaced. */
export function erase(options: EraseOptions = {}): Augmentation {
  checkOptions("erase", options, ["probability", "area", "ratio", "value"]);
  const { probability = 0.5, area = [0.02, 0.33], ratio = [0.3, 3.3], value = 0 } = options;
  checkNumber("erase", "probability", probability, 0, 1);
  checkRange("erase", "area", area, Number.MIN_VALUE, 1);
  checkRange("erase", "ratio", ratio, Number.MIN_VALUE);
  checkNumber("erase", "value", value);
  return ofInputs((key, x) => {
    const [batch, , height, width] = checkImages("erase", x);
    const share = drawn(random.foldIn(key, 0), batch, area[0], area[1], x);
    const shape = drawn(random.foldIn(key, 1), batch, Math.log(ratio[0]), Math.log(ratio[1]), x).exp();
    const inside = rectangle(
      random.foldIn(key, 2),
      [batch, height, width],
      share.mul(shape).sqrt(),
      share.div(shape).sqrt(),
    );
    return select(
      inside.mul(chosen(random.foldIn(key, 3), batch, probability).cast(x.dtype)).gt(0),
      x.mul(0).add(value),
      x,
    );
  });
}

/** 1 within a rectangle of each image, `[batch, 1, height, width]`; its sides are shares, and it lies within the image. */
export function rectangle(
  key: Tensor,
  [batch, height, width]: readonly [number, number, number],
  tall: Tensor,
  wide: Tensor,
): Tensor {
  const within = (at: number, count: number, share: Tensor, shape: readonly number[]): Tensor => {
    const side = share.minimum(1).mul(count).round();
    const first = random
      .uniform(random.foldIn(key, at), [batch, 1, 1, 1])
      .cast(share.dtype)
      .mul(side.neg().add(count + 1))
      .floor();
    const places = arange(count).cast(share.dtype).reshape(shape);
    return places
      .ge(first)
      .cast(share.dtype)
      .mul(places.lt(first.add(side)).cast(share.dtype));
  };
  return within(0, height, tall, [1, 1, height, 1]).mul(within(1, width, wide, [1, 1, 1, width]));
}

/** Normal noise of this standard deviation, added to floats of any shape. */
export function noise(deviation: number): Augmentation {
  checkNumber("noise", "deviation", deviation, 0);
  return ofInputs((key, x) => x.add(random.normal(key, x.shape).cast(x.dtype).mul(deviation)));
}

/** @throws HeddleError `option` unless a value is `[lowest, highest]` within bounds */
export function checkRange(
  what: string,
  name: string,
  range: unknown,
  lowest: number,
  highest = Number.MAX_VALUE,
): void {
  const [low, high] = (Array.isArray(range) ? range : []) as unknown[];
  if (
    Array.isArray(range) &&
    range.length === 2 &&
    (low as number) >= lowest &&
    (high as number) >= (low as number) &&
    (high as number) <= highest
  )
    return;
  throw new HeddleError("option", `${what}: ${name} must be [lowest, highest], got ${shown(range)}`);
}
