/** @module Losses of vectors by their angles and distances. Vectors are the last dim. */
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
 * @param second floats of the same shape
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
      // Normalised first, since products of large vectors would be infinite. 1e-6 keeps the length of zero vectors above 0.
      const unit = (vector: Tensor): Tensor =>
        vector.div(linalg.norm(vector, { dims: -1, keepDims: true }).hypot(1e-6));
      const cosine = unit(x).mul(unit(y)).sum(-1);
      const similarLoss = select(target.eq(1), cosine.neg().add(1), 0);
      return similarLoss.add(select(target.eq(-1), cosine.sub(margin).relu(), 0));
    };
    return reduced("cosineEmbedding", [first, second], options, single, ["margin"]);
  });
}

/** Options of {@link tripletMargin}. */
export interface TripletOptions extends LossOptions {
  /** By how much the positive must be nearer; default 1. */
  readonly margin?: number;
  /** Exponent of the distance's norm, at least 1; default 2. */
  readonly p?: number;
  /** Added to each difference, so that the distance of equal vectors has a gradient; default 1e-6. */
  readonly epsilon?: number;
  /** Use the distance between negative and positive if it is smaller (Balntas et al., 2016); default false. */
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
    const single = (anchorRow: Tensor, positiveRow: Tensor, negativeRow: Tensor): Tensor => {
      const far = distance(anchorRow, negativeRow);
      const negativeDistance = swap ? minimum(far, distance(positiveRow, negativeRow)) : far;
      return distance(anchorRow, positiveRow).sub(negativeDistance).add(margin).relu();
    };
    return reduced("tripletMargin", [anchor, positive, negative], options, single, ["margin", "p", "epsilon", "swap"]);
  });
}
