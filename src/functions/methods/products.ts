/** @module Products of matrices. */
import * as ops from "../../ops/index.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";

/**
 * NumPy's matmul of two tensors of one dtype: [..., m, k] by [..., k, n] gives [..., m, n], with batch dims that broadcast. A vector
 * on the left is a row, on the right a column, and its dim is removed. 16-bit floats are added in f32 and rounded once. Integers keep
 * their dtype and wrap, as in NumPy and JAX: cast i8 and u8 to i32 for JAX's `preferred_element_type`.
 *
 * @throws HeddleError `shape` for scalars and sizes that do not fit, `dtype` for bool and for two dtypes.
 */
export const matmul = (x: Tensor, y: Tensor): Tensor => operate("matmul", ops.matmul, [x, y]);
