/** @module Clipping of gradients, element by element or by their global norm. */
import {
  concat,
  full,
  isTensor,
  linalg,
  maximum,
  minimum,
  select,
  type Tensor,
  type Tensors,
} from "../functions/index.ts";
import { inFloat32, widened } from "../functions/wide.ts";
import { isFloat, wideDType } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";

/** Clamps each element of each gradient to [-limit, limit]; NaN stays. PyTorch's `clip_grad_value_`. */
export function clipByValue<Grads extends Tensors>(grads: Grads, limit: number): Grads {
  checkNumber("clipByValue", "limit", limit, 0);
  const { leaves, shape } = flattenTree(grads, isTensor);
  return unflattenTree(
    shape,
    leaves.map((leaf) => maximum(minimum(leaf, limit), -limit)),
  ) as Grads;
}

/** Options of {@link globalNorm} and {@link clipByGlobalNorm}. */
export interface NormOptions {
  /**
   * The norm: 2 (default) is Euclidean, 1 the sum of absolute values, Infinity their maximum, any other p above 0 the p-th root of
   * the sum of their p-th powers.
   */
  readonly norm?: number;
}

/** Checks the options. @throws HeddleError `option` for a norm that is not above 0. */
function normOf(what: string, options: NormOptions): number {
  checkOptions(what, options, ["norm"]);
  const { norm = 2 } = options;
  if (norm !== Infinity) checkNumber(what, "norm", norm, Number.MIN_VALUE);
  return norm;
}

/**
 * The norm of all gradients as one vector, by default the Euclidean norm, as a scalar in the dtype of the first gradient. On every
 * device it is the norm of the whole gradients, however they are split. As in `linalg.norm`, no power overflows, and the derivatives at
 * 0 are 0. A norm beyond that dtype is infinite.
 */
export function globalNorm(grads: Tensors, options: NormOptions = {}): Tensor {
  const norm = normOf("globalNorm", options);
  const leaves = gradientsOf("globalNorm", grads).leaves as [Tensor, ...Tensor[]];
  const [first] = leaves;
  const total = wideNorm(leaves, norm);
  return total.dtype === first.dtype ? total : total.cast(first.dtype);
}

/** The gradients of a tree. @throws HeddleError `tree` for a tree without gradients, `dtype` for a gradient that is not float. */
function gradientsOf(what: string, grads: Tensors): FlatTree<Tensor> {
  const flat = flattenTree(grads, isTensor);
  if (flat.leaves.length === 0) throw new HeddleError("tree", `${what}: there is no gradient in the tree`);
  const integerIndex = flat.leaves.findIndex(({ dtype }) => !isFloat(dtype));
  if (integerIndex < 0) return flat;
  throw new HeddleError(
    "dtype",
    `${what}: gradients are floats, but '${flat.paths[integerIndex]}' is ${formatType(flat.leaves[integerIndex] as Tensor)}`,
  );
}

/** The norm of tensors in the dtype of the first, or in f32 if that has 16 bits. */
function wideNorm(leaves: readonly [Tensor, ...Tensor[]], norm: number): Tensor {
  const dtype = wideDType(leaves[0].dtype);
  if (norm === 2 && leaves.every((leaf) => leaf.dtype !== "f64")) return rootOfSquares(leaves).cast(dtype);
  const norms = leaves.map((leaf) => linalg.norm(widened(leaf), { p: norm }).cast(dtype).reshape([1]));
  return linalg.norm(concat(norms, 0), { p: norm });
}

/** Computed in f64, which holds the squares of narrower floats. The sums of all devices are added before the root. */
function rootOfSquares(leaves: readonly Tensor[]): Tensor {
  const square = (x: Tensor): Tensor => x.mul(x).sum();
  const total = leaves.map((leaf) => square(leaf.cast("f64"))).reduce((sum, next) => sum.add(next));
  const zero = total.eq(0);
  return select(zero, 0, select(zero, 1, total).sqrt());
}

/**
 * Scales all gradients by `maxNorm / norm` if their global norm is larger than `maxNorm`. PyTorch's `clip_grad_norm_` (`norm` is its
 * `norm_type`): 1e-6 is added to the norm, and a norm that is not finite makes all gradients NaN or 0. 16-bit floats are scaled in f32,
 * so a norm beyond their dtype, which is returned as infinite, clips like any other.
 *
 * @returns the clipped gradients, and the norm before clipping
 */
export function clipByGlobalNorm<Grads extends Tensors>(
  grads: Grads,
  maxNorm: number,
  options: NormOptions = {},
): { grads: Grads; norm: Tensor } {
  checkNumber("clipByGlobalNorm", "maxNorm", maxNorm, 0);
  const power = normOf("clipByGlobalNorm", options);
  const { leaves, shape } = gradientsOf("clipByGlobalNorm", grads);
  const [first] = leaves as [Tensor, ...Tensor[]];
  const norm = wideNorm(leaves as [Tensor, ...Tensor[]], power);
  const factor = minimum(full([], maxNorm, { dtype: norm.dtype }).div(norm.add(1e-6)), 1);
  const clipped = leaves.map((leaf) => inFloat32([leaf], (x) => x.mul(factor.cast(x.dtype))));
  return { grads: unflattenTree(shape, clipped) as Grads, norm: norm.cast(first.dtype) };
}
