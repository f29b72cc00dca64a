/** @module Elements in another dtype. */

import type { DType } from "../../ir/dtype.ts";
import * as ops from "../../ops/index.ts";
import { checkDType } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";

/**
 * The elements in another dtype. Floats to integers truncate and saturate, and NaN gives 0; integers to integers wrap; anything to
 * float is rounded once, to nearest even; anything to bool is `!= 0`. Between floats the gradient is cast back; through other dtypes
 * no gradient flows.
 */
export function cast(x: Tensor, dtype: DType): Tensor {
  checkDType("cast", dtype);
  return operate("cast", ops.cast, [x], dtype);
}

/**
 * The bits of each element as another dtype of the same width: f32, i32 and u32; f64, i64 and u64; i8 and u8; f16 and bf16.
 * The shape stays. Bits have no derivative, so gradients are 0. StableHLO's `bitcast_convert`, PyTorch's `x.view(dtype)`. The bits of
 * a NaN stay, unless the NaN was computed or passed through JavaScript as a number.
 *
 * @throws HeddleError `dtype` for bool and for dtypes of different widths.
 */
export function bitcast(x: Tensor, dtype: DType): Tensor {
  checkDType("bitcast", dtype);
  return operate("bitcast", ops.bitcast, [x], dtype);
}
