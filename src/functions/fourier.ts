/** @module Fourier transforms of tensors. */
import * as ops from "../ops/index.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";

/**
 * Fourier transform over the last `dims` (1 to 3, default 1) dims of a complex tensor [..., n, 2], whose last dim holds the real and
 * the imaginary parts, as PyTorch's `view_as_real`. Sum of x[j] exp(-2 pi i j k / n), without a factor. 16-bit floats are computed
 * in f32.
 *
 * @throws HeddleError `shape` unless the last dim has size 2, and for other numbers of dims; `dtype` unless x is float
 */
export const fft = (x: Tensor, dims = 1): Tensor => operate("fft", ops.fft, [x], dims);

/** The inverse of {@link fft}: divided by the number of points. */
export const ifft = (x: Tensor, dims = 1): Tensor => operate("ifft", ops.ifft, [x], dims);

/** {@link fft} of a real tensor [..., n]: the first n / 2 + 1 values of the last dim as a complex tensor [..., n / 2 + 1, 2]; the other values mirror them. */
export const rfft = (x: Tensor, dims = 1): Tensor => operate("rfft", ops.rfft, [x], dims);

/** The inverse of {@link rfft}: from a complex tensor [..., m, 2] to a real one whose last size is `last` (default 2 m - 2). */
export const irfft = (x: Tensor, last?: number, dims = 1): Tensor => operate("irfft", ops.irfft, [x], last, dims);
