/** @module The rule of 16-bit floats (`src/ops/wide.ts`) on tensors. */
import { isHalf, wideDType } from "../ir/dtype.ts";
import { widening } from "../ops/wide.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** A 16-bit float as f32; any other tensor itself. */
export const widened = (x: Tensor): Tensor => (isHalf(x.dtype) ? x.cast(wideDType(x.dtype)) : x);

/**
 * Computes a function of several operations on 16-bit floats in f32, and rounds the result once, to the dtype that the float inputs
 * promote to. Other inputs pass unchanged.
 */
export const inFloat32 = widening<Tensor>((x, dtype) => x.cast(dtype));
