/** @module Products whose zero factors win against infinities, on tensors. */
import * as ops from "../ops/index.ts";
import { operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";

/**
 * x times y, with broadcasting; 0 where x is 0 and y infinite, and so are both gradients there. NaN stays. For weights of what may
 * be infinite; TensorFlow's `multiply_no_nan`, but for NaN.
 */
export const mulNoNan = (x: Tensor, y: Tensor): Tensor => operate("mulNoNan", ops.mulNoNan, [x, y]);

/**
 * x times log(y), of floats, with broadcasting; 0 where x is 0, unless y is NaN, as SciPy's and PyTorch's `xlogy`. The gradients are
 * log(y) and x / y, both 0 where x is 0 and log(y) not finite: the second is NaN in PyTorch at y = 0. 16-bit floats are computed in
 * f32.
 *
 * @throws HeddleError `dtype` unless y is float
 */
export const xlogy = (x: TensorLike, y: TensorLike): Tensor => operate("xlogy", ops.xlogy, [x, y]);
