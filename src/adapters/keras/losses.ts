/**
 * @module Losses by name. Keras' names mean what Keras means by them: cross-entropies take probabilities, such as those of a softmax
 * at the end of the model. Heddle's own names (`softmaxCrossEntropy`, `binaryCrossEntropyWithLogits`) take logits.
 */

import { HeddleError, isRecord, shown, within } from "../../extend/index.ts";
import { isTensor, maximum, minimum, type Tensor } from "../../functions/index.ts";
import { formatType, isFloat, isInteger, sameShape } from "../../ir/index.ts";
import type { Loss, LossOptions } from "../../losses/index.ts";
import * as losses from "../../losses/index.ts";
import { named } from "./names.ts";
import { severalHint } from "./told.ts";

/** What the outputs of a model are for its loss. */
export type OutputKind = "probabilities" | "logits" | "other";

/** A loss, and the kind of outputs that it takes. */
export interface KnownLoss {
  readonly loss: Loss;
  readonly outputs: OutputKind;
  /** Whether targets are classes by number: always, or where they are one number per row. */
  readonly classes?: "always" | "ofOne";
}

/** The losses of the rows, reduced as the options say; default the mean. */
function combined(values: Tensor, { reduction = "mean" }: LossOptions = {}): Tensor {
  return reduction === "none" ? values : reduction === "sum" ? values.sum() : values.mean();
}

/** The distance that probabilities keep from 0 and 1, as in Keras. */
const fuzz = 1e-7;
const bounded = (p: Tensor): Tensor => minimum(maximum(p, fuzz), 1 - fuzz);

/** Rows of probabilities that sum to one. */
const normalised = (p: Tensor): Tensor => bounded(p.div(p.sum(-1, { keepDims: true })));

/** Labels without a last dim of 1, which Keras' data often have. */
export function labelsFor(output: Tensor, target: Tensor): Tensor {
  const rows = output.shape.slice(0, -1);
  const labels = sameShape(target.shape, [...rows, 1]) ? target.reshape(rows) : target;
  if (sameShape(labels.shape, rows)) return isInteger(labels.dtype) ? labels : labels.cast("i32");
  throw new HeddleError(
    "shape",
    `a class per row is wanted for ${formatType(output)}, but the target is ${formatType(target)}`,
    sameShape(target.shape, output.shape) ? { hint: "for one-hot targets take categoricalCrossEntropy" } : {},
  );
}

/** The target in the shape and dtype of the output, where it only lacks or has a last dim of 1. */
export function targetLike(output: Tensor, target: Tensor): Tensor {
  const [from, to] = [target.shape, output.shape];
  const same = sameShape([...from, 1], to) || sameShape(from, [...to, 1]);
  const shaped = same ? target.reshape(output.shape) : target;
  return shaped.dtype === output.dtype || isFloat(shaped.dtype) ? shaped : shaped.cast(output.dtype);
}

/** The target in the shape of the output, elementwise. @throws HeddleError `shape` naming both where it cannot be. */
function paired(output: Tensor, target: Tensor): Tensor {
  const shaped = targetLike(output, target);
  if (sameShape(shaped.shape, output.shape)) return shaped;
  throw new HeddleError(
    "shape",
    `output ${formatType(output)} and target ${formatType(target)} must have one shape`,
    isInteger(target.dtype) ? { hint: "for classes by number take sparseCategoricalCrossEntropy" } : {},
  );
}

const sparse: Loss = (output, target, options) =>
  losses.nll(normalised(output).log(), labelsFor(output, target), options);

const categorical: Loss = (output, target, options) =>
  combined(paired(output, target).mul(normalised(output).log()).sum(-1).neg(), options);

const binary: Loss = (output, target, options) => {
  const [p, t] = [bounded(output), paired(output, target)];
  const complement = (x: Tensor): Tensor => x.neg().add(1);
  return combined(
    t
      .mul(p.log())
      .add(complement(t).mul(complement(p).log()))
      .neg(),
    options,
  );
};

const softmax: Loss = (output, target, options) => {
  const isClass = isInteger(target.dtype) || !sameShape(target.shape, output.shape);
  return losses.softmaxCrossEntropy(output, isClass ? labelsFor(output, target) : target, options);
};

/** A loss of numbers whose target may lack or have a last dim of 1. */
const ofNumbers =
  (loss: Loss): Loss =>
  (output, target, options) =>
    loss(output, targetLike(output, target), options);

const numbers = (loss: Loss): KnownLoss => ({ loss: ofNumbers(loss), outputs: "other" });

const table = {
  sparseCategoricalCrossEntropy: { loss: sparse, outputs: "probabilities", classes: "always" },
  categoricalCrossEntropy: { loss: categorical, outputs: "probabilities" },
  binaryCrossEntropy: { loss: binary, outputs: "probabilities" },
  softmaxCrossEntropy: { loss: softmax, outputs: "logits", classes: "ofOne" },
  binaryCrossEntropyWithLogits: { loss: ofNumbers(losses.binaryCrossEntropyWithLogits), outputs: "logits" },
  mse: numbers(losses.mse),
  meanSquaredError: numbers(losses.mse),
  mae: numbers(losses.l1),
  meanAbsoluteError: numbers(losses.l1),
  huber: numbers(losses.huber),
  hinge: numbers(losses.hinge),
} satisfies { readonly [name: string]: KnownLoss };

/** The names that `compile` knows. */
export type LossName = keyof typeof table;

const functions = new Map<unknown, OutputKind>([
  [losses.softmaxCrossEntropy, "logits"],
  [losses.binaryCrossEntropyWithLogits, "logits"],
  [losses.binaryCrossEntropy, "probabilities"],
]);

/** @throws HeddleError `option` for what is neither a function nor the name of a loss. */
export function lossOf(loss: Loss | string): KnownLoss {
  if (typeof loss === "function") return { loss, outputs: functions.get(loss) ?? "other" };
  if (typeof loss === "string") {
    const known: KnownLoss = named("loss", loss, table);
    // Errors name the loss, not the functions that it is made of.
    const called: Loss = (output, target, options) => {
      if (isTensor(output)) return within(loss, () => known.loss(output, target, options));
      throw new HeddleError("argument", `${loss}: takes one output, but the model gives ${shown(output)}`, {
        hint: severalHint,
      });
    };
    return { ...known, loss: called };
  }
  throw new HeddleError("option", `compile: loss must be a name or a function, got ${shown(loss)}`, {
    hint: isRecord(loss) ? severalHint : 'such as "softmaxCrossEntropy" or losses.mse',
  });
}
