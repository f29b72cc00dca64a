/** @module Comparison with a tolerance, as a method. */
import type { Tensor, TensorLike } from "../../tensor/tensor.ts";
import { type CloseOptions, closeness } from "../close.ts";

/**
 * Whether |actual - expected| <= atol + rtol |expected|, elementwise, with broadcasting: NumPy's and PyTorch's rule; bool. Infinities
 * are close to themselves. Computed in f64.
 */
export const isClose = (actual: TensorLike, expected: TensorLike, options: CloseOptions = {}): Tensor =>
  closeness("isClose", actual, expected, options);
