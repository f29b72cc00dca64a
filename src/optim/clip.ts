/** @module Gradients within bounds, element by element or all together. */
import { wideDType } from "../ir/dtype.ts";
import { full, isTensor, maximum, minimum, type Tensor, type Tensors } from "../tensor/index.ts";
import { inFloat32, widened } from "../tensor/wide.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** Each element of each gradient into [-limit, limit]; NaN stays. PyTorch's `clip_grad_value_`. */
export function clipByValue<Grads extends Tensors>(grads: Grads, limit: number): Grads {
  checkNumber("clipByValue", "limit", limit, 0);
  const { leaves, shape } = flattenTree(grads, isTensor);
  return unflattenTree(
    shape,
    leaves.map((leaf) => maximum(minimum(leaf, limit), -limit)),
  ) as Grads;
}

/**
 * The Euclidean norm of all gradients as one vector, a scalar in the dtype of the first: on every device that of the whole
 * gradients, however they are split. It is infinite where the sum of squares is, in f32 for elements from about 1e19 on.
 * 16-bit floats are squared and added in f32; the result is infinite where the norm is beyond their dtype.
 */
export function globalNorm(grads: Tensors): Tensor {
  const { leaves } = flattenTree(grads, isTensor);
  const [first] = leaves;
  if (first === undefined) throw new HeddleError("tree", "globalNorm: there is no gradient in the tree");
  const norm = wideNorm(leaves as [Tensor, ...Tensor[]]);
  return norm.dtype === first.dtype ? norm : norm.cast(first.dtype);
}

/** The norm of tensors in the dtype of the first, f32 where that has 16 bits. */
function wideNorm(leaves: readonly [Tensor, ...Tensor[]]): Tensor {
  const [{ dtype }] = leaves;
  const squares = leaves.map((leaf) => {
    const x = widened(leaf);
    return x.mul(x).sum().cast(wideDType(dtype));
  });
  return squares.reduce((total, square) => total.add(square)).sqrt();
}

/**
 * All gradients times `maxNorm / norm` where their global norm is larger than `maxNorm`. PyTorch's `clip_grad_norm_`: 1e-6
 * is added to the norm, and a norm that is not finite makes all gradients NaN or 0. 16-bit floats are scaled in f32, so a norm beyond
 * their dtype, which is returned as infinite, clips like any other.
 *
 * @returns the gradients, and the norm that they had
 */
export function clipByGlobalNorm<Grads extends Tensors>(grads: Grads, maxNorm: number): { grads: Grads; norm: Tensor } {
  checkNumber("clipByGlobalNorm", "maxNorm", maxNorm, 0);
  const { leaves, shape } = flattenTree(grads, isTensor);
  const [first] = leaves;
  if (first === undefined) throw new HeddleError("tree", "clipByGlobalNorm: there is no gradient in the tree");
  const norm = wideNorm(leaves as [Tensor, ...Tensor[]]);
  const factor = minimum(full([], maxNorm, { dtype: norm.dtype }).div(norm.add(1e-6)), 1);
  const clipped = leaves.map((leaf) => inFloat32([leaf], (x) => x.mul(factor.cast(x.dtype))));
  return { grads: unflattenTree(shape, clipped) as Grads, norm: norm.cast(first.dtype) };
}
