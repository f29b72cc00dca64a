/**
 * @module Weights of rows in the loss of a training: by a column, or by the class of the row. The loss is
 * `Σ weight · loss of the row / rows`, as Keras' `sum_over_batch_size`. It is divided by the number of rows and not by the sum of the
 * weights, so that an epoch's loss is a mean over its rows for any batch size, number of parts and number of workers.
 */

import { isTensor, ones, select, type Tensor, vmap } from "../functions/index.ts";
import { mulNoNan } from "../functions/zero-terms.ts";
import { isFloat, isInteger } from "../ir/dtype.ts";
import { formatType, range } from "../ir/shape.ts";
import type { Loss } from "../losses/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { shown } from "../util/show.ts";

/** The weight of each class by its number; missing classes have weight 1. */
export type ClassWeight = { readonly [label: number]: number };

/** @throws HeddleError `option` unless it is a record of weights by class. */
export function checkClassWeight(weights: ClassWeight): void {
  if (typeof weights !== "object" || weights === null)
    throw new HeddleError("option", `train: classWeight must be weights by class, got ${shown(weights)}`, {
      hint: "such as { 0: 1, 1: 5 }",
    });
  for (const [label, weight] of Object.entries(weights)) {
    if (!/^\d+$/.test(label))
      throw new HeddleError("option", `train: classes of classWeight are numbers from 0, got '${label}'`);
    checkNumber("train", `classWeight[${label}]`, weight, 0);
  }
}

/** Checks a loss. @throws HeddleError `shape` unless it is a float scalar. */
export function scalarLoss(value: Tensor): Tensor {
  if (isTensor(value) && value.shape.length === 0 && isFloat(value.dtype)) return value;
  const got = isTensor(value) ? formatType(value) : shown(value);
  throw new HeddleError("shape", `train: the loss must be a float scalar, got ${got}`, {
    hint: "reduce it with mean()",
  });
}

/** The weights of the rows of a batch. */
export interface RowWeights {
  /** One weight per row. */
  readonly rows?: Tensor | undefined;
  readonly classes?: ClassWeight | undefined;
}

/** The weighted loss of a batch; without weights the result of the loss function. */
export function weightedLoss(loss: Loss, output: Tensor, target: Tensor, { rows, classes }: RowWeights): Tensor {
  if (rows === undefined && classes === undefined) return scalarLoss(loss(output, target));
  const single = rowLosses(loss, output, target);
  const byRow = rows === undefined ? single : mulNoNan(ofRows(rows, single), single);
  return (classes === undefined ? byRow : mulNoNan(ofClasses(classes, target, single), byRow)).mean();
}

/** The loss of each row: with `reduction: "none"` if the function has this option, otherwise by calling it for each row. */
function rowLosses(loss: Loss, output: Tensor, target: Tensor): Tensor {
  const rows = output.shape[0] as number;
  const single = loss(output, target, { reduction: "none" });
  const dims = isTensor(single) ? single.shape.length : 0;
  if (dims > 0 && single.shape[0] === rows && isFloat(single.dtype)) {
    return dims === 1 ? single : single.mean(range(dims - 1).map((dim) => dim + 1));
  }
  const alone = (y: Tensor, t: Tensor): Tensor =>
    scalarLoss(loss(y.reshape([1, ...y.shape]), t.reshape([1, ...t.shape])));
  return vmap(alone)(output, target);
}

function ofRows(weights: Tensor, like: Tensor): Tensor {
  const [rows] = like.shape;
  if (weights.shape[0] === rows && weights.size === rows) return weights.cast(like.dtype).reshape([rows]);
  throw new HeddleError("shape", `train: weights of examples are one per row, [${rows}], got ${formatType(weights)}`);
}

function ofClasses(weights: ClassWeight, target: Tensor, like: Tensor): Tensor {
  const labels = labelsOf(target, like);
  return Object.entries(weights).reduce(
    (known, [label, weight]) => select(labels.eq(Number(label)), weight, known),
    ones(like.shape, { dtype: like.dtype }),
  );
}

/** The class of each row: an integer, or the index of the largest probability. */
function labelsOf(target: Tensor, { shape: [rows] }: Tensor): Tensor {
  if (target.size === rows && (isInteger(target.dtype) || target.shape.length < 2 || target.shape[1] === 1))
    return target.reshape([rows]);
  if (target.shape.length === 2 && isFloat(target.dtype)) return target.argMax(-1);
  throw new HeddleError("shape", `train: classWeight needs one class per row, the target is ${formatType(target)}`);
}
