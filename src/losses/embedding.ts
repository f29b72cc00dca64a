/** @module Losses of vectors, by their angles and distances. Vectors are the last dim. */

import { linalg, minimum, select, type Tensor } from "../functions/index.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { asRecord, checkNumber } from "../util/options.ts";
import { checkPair, type LossOptions, reduced } from "./reduce.ts";

/**
 * PyTorch's `CosineEmbeddingLoss`: one minus the cosine of the angle of two vectors where the target is 1,
 * `max(0, cosine - margin)` where it is -1.
 *
 * @param first floats `[rows…, size]`
 * @param second floats of that shape
 * @param target 1 and -1, `[rows…]`, of any dtype
 * @param options `margin`: from -1 to 1, default 0
 */
export function cosineEmbedding(
  first: Tensor,
  second: Tensor,
  target: Tensor,
  options: LossOptions & { readonly margin?: number } = {},
): Tensor {
  return within("cosineEmbedding", () => {
    checkPair("cosineEmbedding", first, second);
    checkTensor("cosineEmbedding", target);
    const { margin = 0 } = asRecord("cosineEmbedding", options);
    checkNumber("cosineEmbedding", "margin", margin, -1, 1);
    if (!sameShape(target.shape, first.shape.slice(0, -1)))
      throw new HeddleError(
        "shape",
        `cosineEmbedding: ${formatType(first)} does not fit targets ${formatType(target)}`,
      );
    const single = (x: Tensor, y: Tensor): Tensor => {
      // Each by its length first: products of large vectors would be infinite. The root of 1e-12 keeps that of zeros from 0.
      const unit = (one: Tensor): Tensor => one.div(linalg.norm(one, { dims: -1, keepDims: true }).hypot(1e-6));
      const cosine = unit(x).mul(unit(y)).sum(-1);
      const same = select(target.eq(1), cosine.neg().add(1), 0);
      return same.add(select(target.eq(-1), cosine.sub(margin).relu(), 0));
    };
    return reduced("cosineEmbedding", [first, second], options, single, ["margin"]);
  });
}

/** Options of {@link tripletMargin}. */
export interface TripletOptions extends LossOptions {
  /** How much nearer the positive must be; default 1. */
  readonly margin?: number;
  /** Of the distance: the norm's exponent, at least 1; default 2. */
  readonly p?: number;
  /** Added to each difference, so that the distance of equal vectors has a gradient; default 1e-6. */
  readonly epsilon?: number;
  /** Take the negative's distance from the positive where that is smaller (Balntas et al., 2016); default false. */
  readonly swap?: boolean;
}

/**
 * PyTorch's `TripletMarginLoss`: `max(0, margin + distance(anchor, positive) - distance(anchor, negative))`, for vectors
 * `[rows…, size]`.
 */
export function tripletMargin(
  anchor: Tensor,
  positive: Tensor,
  negative: Tensor,
  options: TripletOptions = {},
): Tensor {
  return within("tripletMargin", () => {
    checkPair("tripletMargin", anchor, positive);
    checkPair("tripletMargin", anchor, negative);
    const { margin = 1, p = 2, epsilon = 1e-6, swap = false } = asRecord("tripletMargin", options);
    checkNumber("tripletMargin", "margin", margin);
    checkNumber("tripletMargin", "p", p, 1);
    checkNumber("tripletMargin", "epsilon", epsilon, 0);
    const distance = (x: Tensor, y: Tensor): Tensor => linalg.norm(x.sub(y).add(epsilon), { p, dims: -1 });
    const single = (own: Tensor, near: Tensor, other: Tensor): Tensor => {
      const far = distance(own, other);
      const least = swap ? minimum(far, distance(near, other)) : far;
      return distance(own, near).sub(least).add(margin).relu();
    };
    return reduced("tripletMargin", [anchor, positive, negative], options, single, ["margin", "p", "epsilon", "swap"]);
  });
}
