/** @module A share of the elements: the largest, or random ones. */
import { random, segmentSum } from "../../functions/index.ts";
import { sizeOf } from "../../ir/shape.ts";
import { checkNumber, checkOptions } from "../../util/options.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { asRows, atShared, fromRows, part, shareOf, spread } from "./rows.ts";

/** Options of {@link topK} and {@link randomK}. */
export interface ShareOptions {
  /** The share of the elements of each tensor that is sent, at most 1; default 0.01. At least one element is sent. */
  readonly ratio?: number;
}

const ratioOf = (what: string, options: ShareOptions): number => {
  checkOptions(what, options, ["ratio"]);
  const { ratio = 0.01 } = options;
  checkNumber(what, "ratio", ratio, Number.MIN_VALUE, 1);
  return ratio;
};

/**
 * Sends the elements of largest magnitude and their indices, 8 bytes for each in f32 (DGC: Lin et al., "Deep Gradient Compression",
 * 2018). During the warm-up the share falls to `ratio` by equal factors.
 */
export function topK(options: ShareOptions = {}): Compressor {
  const ratio = ratioOf("compression.topK", options);
  return {
    name: "topK",
    travels: "gather",
    feedback: true,
    sparse: true,
    compress: (x) => {
      const rows = asRows(x);
      const { indices } = rows.abs().topK(shareOf(rows.shape[1] as number, ratio));
      return { message: { values: rows.takeAlongDim(indices), indices } };
    },
    decompress: (message, given) =>
      fromRows(spread(part(message, "values"), part(message, "indices"), sizeOf(given.shape)), given),
    total: (message, { shape }) => {
      const values = part(message, "values");
      const count = [sizeOf(values.shape)];
      return segmentSum(values.reshape(count), part(message, "indices").reshape(count), sizeOf(shape)).reshape(shape);
    },
    warming: (share) => topK({ ratio: ratio ** share }),
  };
}

/**
 * Sends the elements at random indices, which all devices draw from the key of the step: the indices do not travel, and the values are
 * added up on the way. 4 bytes for each element in f32. During the warm-up the share falls to `ratio` by equal factors.
 */
export function randomK(options: ShareOptions = {}): Compressor {
  const ratio = ratioOf("compression.randomK", options);
  return {
    name: "randomK",
    travels: "sum",
    feedback: true,
    sparse: true,
    compress: (x, { key }) => {
      const rows = asRows(x);
      const [count, size] = rows.shape as [number, number];
      const k = shareOf(size, ratio);
      const { indices } = random.uniform(key, [size]).topK(k);
      return { message: { values: rows.takeAlongDim(indices.broadcastTo([count, k])) }, shared: { indices } };
    },
    decompress: atShared,
    warming: (share) => randomK({ ratio: ratio ** share }),
  };
}

registerCompressor({
  name: "topK",
  doc: "the largest hundredth of the elements, with indices",
  make: topK,
  takesOptions: true,
});
registerCompressor({
  name: "randomK",
  doc: "a random hundredth of the elements, the same on all devices",
  make: randomK,
  takesOptions: true,
});
