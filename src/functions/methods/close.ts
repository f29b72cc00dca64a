/** @module Comparison with a tolerance, as a method. */
import type { Tensor, TensorLike } from "../../tensor/tensor.ts";
import { type CloseOptions, closeness } from "../close.ts";

/**
 * Whether |actual - expected| <= atol + rtol |expected|, elementwise, with broadcasting: NumPy's and PyTorch's rule; the result is bool. Infinities
 * are close to themselves. Computed in f64. Defaults: rtol 1e-5, atol 1e-8, and NaN is not close to NaN.
 */
export const isClose = (actual: TensorLike, expected: TensorLike, options: CloseOptions = {}): Tensor =>
  closeness("isClose", actual, expected, options);
