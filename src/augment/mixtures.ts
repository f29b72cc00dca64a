/** @module Batches mixed with themselves: mixup and CutMix. Targets become shares of classes. */
import { eye, random, roll, type Tensor } from "../functions/index.ts";
import { rowsById, toIndices } from "../functions/indices.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { HeddleError, type OutsideIndex, retold } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { type Augmentation, checkImages, ofBatch } from "./augmentation.ts";
import { rectangle } from "./images.ts";

/** Options of {@link mixup} and {@link cutmix}. */
export interface MixtureOptions {
  /** Number of classes of integer targets, that of the model's outputs: targets become shares of classes; float targets are mixed as they are. */
  readonly classes?: number;
  /** Shares are of the beta distribution with both shapes `alpha`; default 0.2 for mixup, 1 for cutmix. */
  readonly alpha?: number;
}

/** Checks the options; gives the shape of the beta distribution. */
function checkedAlpha(what: string, options: MixtureOptions, usual: number): number {
  checkOptions(what, options, ["classes", "alpha"]);
  const { alpha = usual, classes } = options;
  checkNumber(what, "alpha", alpha, Number.MIN_VALUE);
  if (classes !== undefined) checkInteger(what, "classes", classes, 2);
  return alpha;
}

/** Targets as floats that can be mixed. */
function shares(what: string, y: Tensor, { classes }: MixtureOptions, like: Tensor): Tensor {
  if (isFloat(y.dtype)) return y;
  if (classes === undefined)
    throw new HeddleError("option", `${what}: targets are ${y.dtype}; pass classes, the number of the model's outputs`);
  const dtype = isFloat(like.dtype) ? like.dtype : "f32";
  // Looked up, for `oneHot` takes a label outside for no class.
  const outside = (index: OutsideIndex): Fault => ({ ...index, kind: "label" });
  return retold(what, outside, () => rowsById(eye(classes, { dtype }), toIndices(y, { kind: "label", size: classes })));
}

/** A number of each example along the first dim, to multiply with a tensor. */
const along = (x: Tensor, share: Tensor): Tensor =>
  share.reshape([x.shape[0] as number, ...x.shape.slice(1).map(() => 1)]).cast(x.dtype);

const mixed = (own: Tensor, share: Tensor): Tensor => {
  const other = roll(own, 1, 0);
  return own.sub(other).mul(along(own, share)).add(other);
};

/**
 * mixup (Zhang and others, 2017, https://arxiv.org/abs/1710.09412): each example is mixed with the one before it in the batch, in shares of
 * its own, and so are the targets. The loss must take shares, as `losses.softmaxCrossEntropy` does.
 */
export function mixup(options: MixtureOptions = {}): Augmentation {
  const alpha = checkedAlpha("mixup", options, 0.2);
  return ofBatch((key, { x, y }) => {
    if (!isFloat(x.dtype) || x.shape.length === 0)
      throw new HeddleError("dtype", `mixup: takes floats, batch first, got ${formatType(x)}`);
    const share = random.beta(key, alpha, alpha, [x.shape[0] as number]);
    return { x: mixed(x, share), y: mixed(shares("mixup", y, options, x), share) };
  });
}

/**
 * CutMix (Yun and others, 2019, https://arxiv.org/abs/1905.04899): a rectangle of each image is that of the image before it in the batch;
 * targets are mixed in the shares of the areas.
 */
export function cutmix(options: MixtureOptions = {}): Augmentation {
  const alpha = checkedAlpha("cutmix", options, 1);
  return ofBatch((key, { x, y }) => {
    const [batch, , height, width] = checkImages("cutmix", x);
    const share = random.beta(random.foldIn(key, 0), alpha, alpha, [batch]).cast(x.dtype);
    const side = share.neg().add(1).sqrt().reshape([batch, 1, 1, 1]);
    const inside = rectangle(random.foldIn(key, 1), [batch, height, width], side, side);
    const other = roll(x, 1, 0);
    const kept = inside.mean([1, 2, 3]).neg().add(1);
    return { x: other.sub(x).mul(inside).add(x), y: mixed(shares("cutmix", y, options, x), kept) };
  });
}
