/** @module Fourier transforms of tensors. */
import * as ops from "../ops/index.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";

/**
 * Fourier transform over the last `dims` (1 to 3) dims of a complex tensor [..., n, 2]: the last dim holds the real and the
 * imaginary parts, as PyTorch's `view_as_real` has them. Sum of x[j] exp(-2 pi i j k / n), without a factor; f32 or f64.
 */
export const fft = (x: Tensor, dims = 1): Tensor => operate("fft", ops.fft, [x], dims);

/** The inverse of {@link fft}, over the number of points. */
export const ifft = (x: Tensor, dims = 1): Tensor => operate("ifft", ops.ifft, [x], dims);

/** {@link fft} of a real tensor [..., n]: the first n / 2 + 1 values of the last dim as a complex tensor; the others are their mirror image. */
export const rfft = (x: Tensor, dims = 1): Tensor => operate("rfft", ops.rfft, [x], dims);

/** The inverse of {@link rfft}, of a complex tensor [..., n / 2 + 1, 2] to a real one whose last size is `last` (default the even one). */
export const irfft = (x: Tensor, last?: number, dims = 1): Tensor => operate("irfft", ops.irfft, [x], last, dims);
