/** @module Buckets of equal numbers of elements (Jiang et al., "SketchML", 2018): of all elements, or of the largest, in sketches. */
import { arange, select, type Tensor, zeros } from "../../functions/index.ts";
import { sizeOf } from "../../ir/shape.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { asRows, fromRows, inUnits, part, shareOf, spread } from "./rows.ts";

/** How many of `size` ordered elements a bucket has, of at most `buckets`; the last one may have fewer. */
const bucketSize = (size: number, buckets: number): number => Math.ceil(size / buckets);

/** The bucket of each place in an order of `size` elements, from 0: i32 `[size]`. */
const bucketsOf = (size: number, buckets: number): Tensor => arange(size).floorDivide(bucketSize(size, buckets));

/** Means `[…, used]` of ordered elements `[…, size]` over each bucket. */
function bucketMeans(ordered: Tensor, buckets: number): Tensor {
  const lead = ordered.shape.slice(0, -1);
  const size = ordered.shape.at(-1) as number;
  const each = bucketSize(size, buckets);
  const sums = inUnits(ordered.reshape([sizeOf(lead), size]), each).sum(-1);
  const used = sums.shape[1] as number;
  const counts = select(arange(used).eq(used - 1), size - each * (used - 1), each).cast(ordered.dtype);
  return sums.div(counts).reshape([...lead, used]);
}

/** Options of {@link quantiles}. */
export interface QuantilesOptions {
  /** Number of buckets, at most 128; default 128. */
  readonly buckets?: number;
}

/**
 * Sends for each element its sign and the bucket of its magnitude, in a byte; buckets have equal numbers of elements and stand for the
 * mean of their magnitudes. A quarter of the bytes of f32; it takes a sort of each tensor.
 */
export function quantiles(options: QuantilesOptions = {}): Compressor {
  checkOptions("compression.quantiles", options, ["buckets"]);
  const { buckets = 128 } = options;
  checkInteger("compression.quantiles", "buckets", buckets, 1, 128);
  return {
    name: "quantiles",
    travels: "gather",
    feedback: true,
    compress: (x) => {
      const rows = asRows(x);
      const size = rows.shape[1] as number;
      const order = rows.abs().argsort();
      const places = bucketsOf(size, buckets).broadcastTo(rows.shape);
      const bucket = zeros(rows.shape, { dtype: "i32" }).scatterAlongDim(order, places);
      const means = bucketMeans(rows.abs().takeAlongDim(order), buckets);
      return { message: { codes: bucket.mul(2).add(rows.lt(0).cast("i32")).cast("u8"), means } };
    },
    decompress: (message, given) => {
      const codes = part(message, "codes").cast("i32");
      const magnitude = part(message, "means").takeAlongDim(codes.shiftRightArithmetic(1));
      return fromRows(select(codes.and(1).eq(1), magnitude.neg(), magnitude), given);
    },
  };
}

/** Options of {@link sketchMl}. */
export interface SketchMlOptions {
  /** The share of the elements, those of largest magnitude, that is sent; default 0.01. */
  readonly ratio?: number;
  /** Groups of buckets, each with a sketch of its own: a bucket is mistaken only for one of its group. Default 8. */
  readonly groups?: number;
  /** Buckets in a group, at most 256; default 16. */
  readonly buckets?: number;
  /** Rows of a sketch; default 2. */
  readonly rows?: number;
  /** Cells of a row of a sketch, as a share of the elements of its group; default 0.3. */
  readonly columns?: number;
}

/** The cell of each key in each row of a sketch: i32 `[…, rows, k]`. The hash of a row multiplies by an odd number of its own. */
function cellsOf(keys: Tensor, rows: number, width: number): Tensor {
  const lead = keys.shape.slice(0, -1);
  const k = keys.shape.at(-1) as number;
  const by = arange(rows, { dtype: "u32" }).mul(0x9e3779b2).add(0x85ebca6b).reshape([rows, 1]);
  const mixed = keys
    .cast("u32")
    .reshape([...lead, 1, k])
    .mul(by);
  return mixed.xor(mixed.shiftRightLogical(15)).mul(0x2c1b3c6d).shiftRightLogical(8).rem(width).cast("i32");
}

/**
 * Sends the elements of largest magnitude as SketchML does: their indices and signs, the mean magnitude of each bucket, and the buckets in
 * MinMaxSketches. A cell keeps the lowest bucket that was put into it, and a look-up takes the highest of its cells. So a
 * magnitude is never decoded above the mean of its bucket, and a sign is never lost. Indices have 4 bytes each, since messages have
 * a fixed size: SketchML's code of their differences has not.
 */
export function sketchMl(options: SketchMlOptions = {}): Compressor {
  const what = "compression.sketchMl";
  checkOptions(what, options, ["ratio", "groups", "buckets", "rows", "columns"]);
  const { ratio = 0.01, groups = 8, buckets = 16, rows: depth = 2, columns = 0.3 } = options;
  for (const [name, value] of [
    ["ratio", ratio],
    ["columns", columns],
  ] as const)
    checkNumber(what, name, value, Number.MIN_VALUE, 1);
  checkInteger(what, "groups", groups, 1);
  checkInteger(what, "buckets", buckets, 1, 256);
  checkInteger(what, "rows", depth, 1, 16);
  /** The number of elements in each group. */
  const inGroup = (size: number): number =>
    Math.floor(Math.min(size, Math.ceil(shareOf(size, ratio) / groups) * groups) / groups);
  return {
    name: "sketchMl",
    travels: "gather",
    feedback: true,
    sparse: true,
    fits: (shape) => inGroup(sizeOf(shape)) > 0 && sizeOf(shape) < 2 ** 30,
    compress: (x) => {
      const rows = asRows(x);
      const [count, size] = rows.shape as [number, number];
      const k = inGroup(size);
      const width = shareOf(k, columns);
      const top = rows.abs().topK(groups * k);
      // The smallest magnitude of a group comes first: its bucket is 0.
      const grouped = (of: Tensor): Tensor => of.reshape([count, groups, k]).flip(-1);
      const [magnitudes, keys] = [grouped(top.values), grouped(top.indices)];
      const places = bucketsOf(k, buckets).broadcastTo([count, groups, depth, k]);
      const empty = zeros([count, groups, depth, width], { dtype: "i32" }).add(buckets - 1);
      const sketch = empty.scatterAlongDim(cellsOf(keys, depth, width), places, -1, { op: "min" });
      const negative = grouped(rows.takeAlongDim(top.indices)).lt(0).cast("i32");
      return {
        message: {
          keys: keys.mul(2).add(negative),
          sketch: sketch.cast("u8"),
          means: bucketMeans(magnitudes, buckets),
        },
      };
    },
    decompress: (message, given) => {
      const [signed, sketch] = [part(message, "keys"), part(message, "sketch").cast("i32")];
      const [count, , k] = signed.shape as [number, number, number];
      const keys = signed.shiftRightArithmetic(1);
      const bucket = sketch.takeAlongDim(cellsOf(keys, depth, sketch.shape.at(-1) as number)).max(2);
      const magnitude = part(message, "means").takeAlongDim(bucket);
      const values = select(signed.and(1).eq(1), magnitude.neg(), magnitude);
      const all = [count, groups * k];
      return fromRows(spread(values.reshape(all), keys.reshape(all), sizeOf(given.shape)), given);
    },
    warming: (share) => sketchMl({ ...options, ratio: ratio ** share }),
  };
}

registerCompressor({
  name: "quantiles",
  doc: "a byte for each element: sign and bucket of equal numbers of elements",
  make: quantiles,
  takesOptions: true,
});
registerCompressor({
  name: "sketchMl",
  doc: "the largest hundredth, with buckets in MinMaxSketches",
  make: sketchMl,
  takesOptions: true,
});
