/** @module The rule of 16-bit floats (`src/ops/wide.ts`) on tensors. */
import { isHalf, wideDType } from "../ir/dtype.ts";
import { widening } from "../ops/wide.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** A 16-bit float as f32; any other tensor itself. */
export const widened = (x: Tensor): Tensor => (isHalf(x.dtype) ? x.cast(wideDType(x.dtype)) : x);

/**
 * Computes in f32 what is made of several operations on 16-bit floats, and rounds the result once, to the dtype that the float
 * inputs promote to. Other inputs pass as they are.
 */
export const inFloat32 = widening<Tensor>((x, dtype) => x.cast(dtype));
