/** @module One bit for each element: its sign. */
import { concat, select } from "../../functions/index.ts";
import { sizeOf } from "../../ir/shape.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { asRows, fromRows, packedSigns, part, ratio, unpackedSigns } from "./rows.ts";

/**
 * Sends the sign of each element, and the mean of all magnitudes, which each sign stands for (EF-SGD: Karimireddy et al., "Error
 * Feedback Fixes SignSGD", 2019). Almost a 32nd of the bytes of f32.
 */
export const sign = (): Compressor => ({
  name: "sign",
  travels: "gather",
  feedback: true,
  compress: (x) => {
    const rows = asRows(x);
    return { message: { signs: packedSigns(rows), scale: rows.abs().mean(-1, { keepDims: true }) } };
  },
  decompress: (message, given) => {
    const scale = part(message, "scale");
    return fromRows(select(unpackedSigns(part(message, "signs")), scale, scale.neg()), given);
  },
});

/**
 * Sends the sign of each element, and for each index of dim 0 the mean of the elements that are not below 0 and the mean of those that
 * are, which the signs stand for (Seide et al., "1-Bit Stochastic Gradient Descent", 2014).
 */
export const oneBit = (): Compressor => ({
  name: "oneBit",
  travels: "gather",
  feedback: true,
  compress: (x) => {
    const rows = asRows(x);
    const first = x.shape[1] ?? 1;
    const lines = rows.reshape([x.shape[0] as number, first, sizeOf(x.shape.slice(2))]);
    const mean = (of: typeof lines) => {
      const chosen = of.cast(x.dtype);
      return ratio(lines.mul(chosen).sum(-1, { keepDims: true }), chosen.sum(-1, { keepDims: true }));
    };
    return { message: { signs: packedSigns(rows), means: concat([mean(lines.ge(0)), mean(lines.lt(0))], -1) } };
  },
  decompress: (message, given) => {
    const means = part(message, "means");
    const [rows, first] = means.shape as [number, number, number];
    const size = sizeOf(given.shape);
    const mean = (which: number) => means.slice([0, 0, which], [rows, first, which + 1]);
    const signs = unpackedSigns(part(message, "signs")).slice([0, 0], [rows, size]);
    return fromRows(select(signs.reshape([rows, first, size / first]), mean(0), mean(1)).reshape([rows, size]), given);
  },
});

registerCompressor({ name: "sign", doc: "signs, with the mean magnitude of the tensor", make: sign });
registerCompressor({ name: "oneBit", doc: "signs, with two means for each index of dim 0", make: oneBit });
