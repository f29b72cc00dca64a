/** @module Products of matrices. */
import * as ops from "../../ops/index.ts";
import { checkWide } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkOptions } from "../../util/options.ts";
import type { WideOptions } from "./reductions.ts";

/**
 * NumPy's matmul of two tensors of one dtype: [..., m, k] by [..., k, n] gives [..., m, n], with batch dims that broadcast. A vector
 * on the left is a row, on the right a column, and its dim is removed. 16-bit floats are added in f32 and rounded once. Integers keep
 * their dtype and wrap, as in NumPy and JAX.
 *
 * @param options `dtype`: the dtype of the result, as if the elements were cast to it first (JAX's `preferred_element_type`); the two
 *   tensors may then have two dtypes. bf16 in f32, and i8 and u8 in i32, are not cast, and use the processor's instructions for them.
 * @throws HeddleError `shape` for scalars and sizes that do not fit, `dtype` for bool and for two dtypes, `option` for a `dtype` of bool.
 */
export function matmul(x: Tensor, y: Tensor, options: WideOptions = {}): Tensor {
  checkOptions("matmul", options, ["dtype"]);
  checkWide("matmul", options.dtype);
  return operate("matmul", ops.matmul, [x, y], options.dtype);
}
