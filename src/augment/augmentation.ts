/** @module What an augmentation is: a change of a batch by random numbers, as a tensor program, and how several follow each other. */
import { isTensor, random, type Tensor } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** A batch: inputs and targets, batch first. */
export interface AugmentedBatch {
  readonly x: Tensor;
  readonly y: Tensor;
}

/**
 * Changes a batch. The same key and rows give the same result: bits depend on the key and the place in the global batch, so on seed,
 * epoch and index of a row in a training, and not on the number of workers.
 */
export type Augmentation = (key: Tensor, batch: AugmentedBatch) => AugmentedBatch;

/** Augmentations one after another, each with a key of its own. @throws HeddleError `argument` for what is no function */
export function chain(...augmentations: readonly Augmentation[]): Augmentation {
  augmentations.forEach((one) => {
    if (typeof one !== "function") throw new HeddleError("argument", `chain: takes augmentations, got ${shown(one)}`);
  });
  return (key, batch) =>
    augmentations.reduce((changed, augment, at) => augment(random.foldIn(key, at), changed), batch);
}

/** An augmentation whose batch is checked. @throws HeddleError `argument` unless it gets a batch */
export const ofBatch =
  (change: Augmentation): Augmentation =>
  (key, batch) => {
    if (!isTensor(batch?.x) || !isTensor(batch.y))
      throw new HeddleError("argument", `augment: takes a key and a batch { x, y }, got ${shown(batch)}`);
    return change(key, batch);
  };

/** An augmentation of the inputs alone. */
export const ofInputs = (change: (key: Tensor, x: Tensor) => Tensor): Augmentation =>
  ofBatch((key, { x, y }) => ({ x: change(key, x), y }));

/** @throws HeddleError `shape` unless these are images `[batch, channels, height, width]` of floats */
export function checkImages(
  what: string,
  x: Tensor,
): readonly [batch: number, channels: number, height: number, width: number] {
  checkTensor(what, x);
  if (x.shape.length === 4 && isFloat(x.dtype)) return x.shape as never;
  throw new HeddleError(
    "shape",
    `${what}: takes images, floats [batch, channels, height, width], got ${formatType(x)}`,
    {
      hint:
        x.shape.length === 4 ? 'give the column a transform: { dtype: "f32", scale: 1 / 255 }' : "reshape them first",
    },
  );
}

/** @throws HeddleError `shape` unless these are ids `[batch, length]` */
export function checkIds(what: string, x: Tensor): readonly [batch: number, length: number] {
  checkTensor(what, x);
  if (x.shape.length === 2 && !isFloat(x.dtype)) return x.shape as never;
  throw new HeddleError("shape", `${what}: takes ids of words, integers [batch, length], got ${formatType(x)}`);
}
