/** @module Low-rank factors of gradients (Vogels et al., "PowerSGD", 2019). */
import { linalg, random, type Tensor } from "../../functions/index.ts";
import { sizeOf } from "../../ir/shape.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { type Compressor, registerCompressor } from "../compressor.ts";
import { part } from "./rows.ts";

/** Options of {@link powerSgd}. */
export interface PowerSgdOptions {
  /** Columns of the factors, at most the smaller side of a matrix; default 2. */
  readonly rank?: number;
  /** Tensors of which the factors are not smaller by more than this factor travel as they are; default 2. */
  readonly gain?: number;
}

/** A tensor as a matrix: dim 0, and all others. */
const sides = (shape: readonly number[]): [number, number] => [shape[0] as number, sizeOf(shape.slice(1))];

/**
 * Sends two factors of each gradient, which is seen as a matrix of dim 0 by all other dims: one step of a power iteration that begins
 * with the factor of the step before. Both factors are added up on the way. Vectors travel as they are.
 */
export function powerSgd(options: PowerSgdOptions = {}): Compressor {
  checkOptions("compression.powerSgd", options, ["rank", "gain"]);
  const { rank = 2, gain = 2 } = options;
  checkInteger("compression.powerSgd", "rank", rank, 1);
  checkNumber("compression.powerSgd", "gain", gain, 0);
  const rankOf = (shape: readonly number[]): number => Math.min(rank, ...sides(shape));
  const matrices = (x: Tensor): Tensor => x.reshape([x.shape[0] as number, ...sides(x.shape.slice(1))]);
  return {
    name: "powerSgd",
    travels: "sum",
    feedback: true,
    fits: (shape) => {
      if (shape.length < 2) return false;
      const [rows, columns] = sides(shape);
      return rows * columns > gain * rankOf(shape) * (rows + columns);
    },
    initial: ({ shape, dtype }, key) => ({ right: random.normal(key, [sides(shape)[1], rankOf(shape)], { dtype }) }),
    compress: (x, { state, sum }) => {
      const m = matrices(x);
      const left = linalg.qr(sum(m.matmul(part(state, "right")))).q;
      return { message: { right: m.transpose([0, 2, 1]).matmul(left) }, shared: { left } };
    },
    decompress: (message, { shape, shared }) => {
      const right = part(message, "right");
      const product = part(shared, "left").matmul(right.transpose([0, 2, 1]));
      return product.reshape([right.shape[0] as number, ...shape]);
    },
    next: (received) => {
      const right = part(received, "right");
      return { right: right.reshape(right.shape.slice(1)) };
    },
  };
}

registerCompressor({
  name: "powerSgd",
  doc: "factors of rank 2 by a power iteration",
  make: powerSgd,
  takesOptions: true,
});
