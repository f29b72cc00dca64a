/** @module The memory of a convolution of bf16, after the arena (native/core/src/kernels/narrow_conv). */
import type { DType } from "../../ir/dtype.ts";

interface Sizes {
  readonly dtype: DType;
  readonly n: number;
  readonly g?: number | undefined;
  readonly kd?: number | undefined;
  readonly kh: number;
  readonly kw: number;
  readonly c: number;
  readonly o: number;
}

const upTo = (size: number, multiple: number): number => Math.ceil(size / multiple) * multiple;

/** Bytes of f32 for all weights, with taps and results rounded up to whole tiles. */
export const packedWeights = ({ dtype, g = 1, kd = 1, kh, kw, c, o }: Sizes): number =>
  dtype === "bf16" ? 4 * g * upTo(kd * kh * kw * c, 32) * upTo(o, 16) : 0;

/** The same for each part of the images that a gradient by the weight sums up on its own. */
export const partialWeights = (call: Sizes): number => Math.min(call.n, 8) * packedWeights(call);
