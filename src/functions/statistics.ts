/** @module Covariances and distances of rows. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { momentsNode } from "./composites/normalize.ts";
import { expandDim } from "./nodes.ts";
import { normNode } from "./norm.ts";

/** Options of {@link cov}. */
export interface CovOptions {
  /** Subtracted from the number of observations that products are divided by; default 1, as in NumPy and PyTorch. */
  readonly correction?: number;
}

/**
 * Covariances [n, n] of n variables, the rows of x [n, observations], as in NumPy and PyTorch; for variables in columns write
 * `cov(x.transpose())`. A vector gives its variance. Integers give f32; 16-bit floats are computed in f32.
 *
 * @throws HeddleError `shape` unless x is a vector or a matrix; `option` for a correction that is not a whole number from 0 on
 */
export function cov(x: Tensor, options: CovOptions = {}): Tensor {
  checkTensor("cov", x);
  checkOptions("cov", options, ["correction"]);
  const { correction = 1 } = options;
  checkInteger("cov", "correction", correction, 0);
  if (x.shape.length !== 1 && x.shape.length !== 2)
    throw new HeddleError("shape", `cov: takes variables in the rows of a matrix, or one in a vector, got ${x}`);
  const build = (node: Node, less: number): Node => {
    const floats = isFloat(node.dtype) ? node : ops.cast(node, "f32");
    return ops.inFloat32([floats], (wide) => {
      const last = wide.shape.length - 1;
      const { mean } = momentsNode(wide, [last]);
      const rest = ops.sub(wide, mean);
      const products = ops.matmul(rest, last === 0 ? rest : ops.transpose(rest));
      const count = wide.shape[last] as number;
      return ops.div(products, Math.max(0, count - less));
    });
  };
  return operate("cov", build, [x], correction);
}

/** Options of {@link cdist}. */
export interface DistanceOptions {
  /** The exponent, above 0; 1 for the sum of absolute differences, Infinity for the largest; default 2. */
  readonly p?: number;
}

/**
 * Distances [..., n, m] between the rows of x [..., n, d] and the rows of y [..., m, d]: the {@link linalg.norm} of their differences,
 * which keeps its digits for near rows, unlike the formula by products. The gradient is 0 between equal rows.
 *
 * @throws HeddleError `shape` if the last sizes differ, `dtype` unless both are float, `argument` for a p that is not above 0
 */
export function cdist(x: Tensor, y: Tensor, options: DistanceOptions = {}): Tensor {
  checkOptions("cdist", options, ["p"]);
  for (const operand of [x, y]) checkTensor("cdist", operand);
  if (x.shape.length < 2 || y.shape.length < 2 || x.shape.at(-1) !== y.shape.at(-1))
    throw new HeddleError("shape", `cdist: takes rows of one length, got ${x} and ${y}`);
  const build = (left: Node, right: Node, p: number): Node => {
    const differences = ops.sub(expandDim(left, -2), expandDim(right, -3));
    return normNode(differences, p, [differences.shape.length - 1], false);
  };
  return operate("cdist", build, [x, y], options.p ?? 2);
}
