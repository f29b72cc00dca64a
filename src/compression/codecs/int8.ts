/** @module Gradients as 8-bit integers with a scale per block (Dettmers, "8-Bit Approximations for Parallelism", 2016; QSGD, Alistarh 2017). */
import { maximum, minimum, random, type Tensor } from "../../functions/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { asRows, fromRows, inUnits, part, ratio } from "./rows.ts";

/** Options of {@link int8}. */
export interface Int8Options {
  /** Elements with one scale; default 256. */
  readonly block?: number;
  /**
   * `"nearest"` (the default) rounds to the nearest level, half up; `"stochastic"` rounds up with the probability of the fraction, so
   * that the mean is exact, and uses no error feedback unless asked to.
   */
  readonly rounding?: "nearest" | "stochastic";
}

/**
 * Sends each element as one of 255 levels from minus to plus the largest magnitude in its block: a quarter of the bytes of f32, and 4
 * bytes for each block.
 */
export function int8(options: Int8Options = {}): Compressor {
  checkOptions("compression.int8", options, ["block", "rounding"]);
  const { block = 256, rounding = "nearest" } = options;
  checkInteger("compression.int8", "block", block, 1);
  if (rounding !== "nearest" && rounding !== "stochastic")
    throw new HeddleError(
      "option",
      `compression.int8: rounding must be nearest or stochastic, got ${String(rounding)}`,
    );
  const up = (x: Tensor, key: Tensor): Tensor =>
    x.add(rounding === "nearest" ? 0.5 : random.uniform(key, x.shape, { dtype: x.dtype as "f32" }));
  return {
    name: "int8",
    travels: "gather",
    feedback: rounding === "nearest",
    compress: (x, { key }) => {
      const blocks = inUnits(asRows(x), block);
      const scale = blocks.abs().max(-1, { keepDims: true }).div(127);
      const levels = maximum(minimum(up(ratio(blocks, scale), key).floor(), 127), -127);
      const [rows, count] = blocks.shape as [number, number, number];
      return { message: { levels: levels.cast("i8"), scale: scale.reshape([rows, count]) } };
    },
    decompress: (message, given) => {
      const levels = part(message, "levels").cast(given.dtype);
      const [rows, count] = levels.shape as [number, number, number];
      return fromRows(
        levels.mul(part(message, "scale").reshape([rows, count, 1])).reshape([rows, count * block]),
        given,
      );
    },
  };
}

registerCompressor({
  name: "int8",
  doc: "8-bit integers with a scale for each block of 256",
  make: int8,
  takesOptions: true,
});
