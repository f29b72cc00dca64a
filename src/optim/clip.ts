/** @module Gradients within bounds, element by element or all together. */
import { full, isTensor, maximum, minimum, type Tensor, type Tensors } from "../tensor/index.ts";
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
 */
export function globalNorm(grads: Tensors): Tensor {
  const { leaves } = flattenTree(grads, isTensor);
  const [first] = leaves;
  if (first === undefined) throw new HeddleError("tree", "globalNorm: there is no gradient in the tree");
  const squares = leaves.map((leaf) => leaf.mul(leaf).sum().cast(first.dtype));
  return squares.reduce((total, square) => total.add(square)).sqrt();
}

/**
 * All gradients times `maxNorm / norm` where their global norm is larger than `maxNorm`. PyTorch's `clip_grad_norm_`: 1e-6
 * is added to the norm, and a norm that is not finite makes all gradients NaN or 0.
 *
 * @returns the gradients, and the norm that they had
 */
export function clipByGlobalNorm<Grads extends Tensors>(grads: Grads, maxNorm: number): { grads: Grads; norm: Tensor } {
  checkNumber("clipByGlobalNorm", "maxNorm", maxNorm, 0);
  const norm = globalNorm(grads);
  const factor = minimum(full([], maxNorm, { dtype: norm.dtype }).div(norm.add(1e-6)), 1);
  const { leaves, shape } = flattenTree(grads, isTensor);
  const clipped = leaves.map((leaf) => leaf.mul(factor.cast(leaf.dtype)));
  return { grads: unflattenTree(shape, clipped) as Grads, norm };
}
