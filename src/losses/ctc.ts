/** @module Connectionist temporal classification (Graves et al., 2006): labels of a sequence without their positions. */

import { concat, cumsum, full, maximum, scan, select, stopGradient, type Tensor } from "../functions/index.ts";
import { rowsById, toIndices } from "../functions/indices.ts";
import { isInteger } from "../ir/dtype.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { valuesAtHand } from "../tensor/tensor.ts";
import { HeddleError, inWords, type OutsideIndex, retold, within } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { asRecord, checkInteger } from "../util/options.ts";
import { checkTensorOptions, checkTensors, type LossOptions, reduced, type SingleLosses } from "./reduce.ts";

/** Options of {@link ctc}. */
export interface CtcOptions extends LossOptions {
  /**
   * Number of steps of each sequence, integers `[batch]`, from 1 to the steps of the input; default: all steps. A length out of range is
   * an error; a traced one is clamped.
   */
  readonly inputLengths?: Tensor;
  /**
   * Number of labels of each sequence, integers `[batch]`, from 0 to the length of the labels; default: the labels that are not negative. A
   * number out of range is an error (`value`), for traced numbers when the program runs.
   */
  readonly targetLengths?: Tensor;
  /** The class between labels; default 0. */
  readonly blank?: number;
  /** Give 0 instead of infinity for sequences too short for their labels; default false. Their gradient is 0 in both cases. */
  readonly zeroInfinity?: boolean;
}

// Stands for the logarithm of 0, with a gradient: differences of infinities would be NaN.
const logZero = -1e30;

/**
 * Minus the logarithm of the probability of the labels, summed over all their alignments, as PyTorch's `CTCLoss` (whose
 * inputs are `[time, batch, classes]`). A mean is the mean of each sequence's loss divided by its number of labels. A loop
 * over time computes the forward variables; gradients go through it.
 *
 * @param logProbabilities float `[batch, time, classes]`, such as the result of `logSoftmax`
 * @param labels integers `[batch, length]`; the padding after a sequence's labels is negative, or anything with `targetLengths`
 */
export function ctc(logProbabilities: Tensor, labels: Tensor, options: CtcOptions = {}): Tensor {
  return within("ctc", () => {
    const { blank = 0, zeroInfinity = false } = asRecord("ctc", options);
    checkTypes(logProbabilities, labels, blank);
    const { inputLengths, targetLengths } = asRecord("ctc", options);
    checkTensorOptions("ctc", { inputLengths, targetLengths });
    const [batch, time] = logProbabilities.shape as [number, number, number];
    checkLengths("inputLengths", inputLengths, batch, [1, time], "steps");
    checkLengths("targetLengths", targetLengths, batch, [0, labels.shape[1] as number], "labels");
    const labelIds = toIndices(labels);
    const counted = targetLengths?.cast("i32") ?? labelIds.ge(0).cast("i32").sum(1);
    const lengths = inputLengths?.cast("i32") ?? full([batch], time, { dtype: "i32" });
    const path = pathOf(labelIds, blank);
    const single = (x: Tensor): SingleLosses => {
      const total = logLikelihood(x, path, lengths, counted);
      const values = select(total.lt(logZero / 10), zeroInfinity ? 0 : Infinity, total.neg());
      return { values, mean: () => values.div(maximum(counted, 1).cast(values.dtype)).mean() };
    };
    const names = ["inputLengths", "targetLengths", "blank", "zeroInfinity"];
    return reduced("ctc", [logProbabilities], options, single, names);
  });
}

/** The logarithm of the probability of each sequence's labels: the forward variables, step by step. */
function logLikelihood(x: Tensor, path: ReturnType<typeof pathOf>, lengths: Tensor, counted: Tensor): Tensor {
  const labels = (path.classes.shape[1] as number) >> 1;
  const steps = x.transpose([1, 0, 2]);
  const emitted = (step: Tensor): Tensor =>
    maximum(
      retold("ctc", labelOutside(labels), () => rowsById(step, path.classes, 1)),
      logZero,
    );
  const first = steps.slice([0, 0, 0], [1, ...steps.shape.slice(1)]).reshape(steps.shape.slice(1));
  const start = select(path.positions.lt(2), emitted(first), logZero);
  const rest = steps.slice([1, 0, 0], [...steps.shape]);
  const [end] = scan(
    (forward: Tensor, step: Tensor, index: Tensor): [Tensor, Record<string, never>] => {
      const nextForward = advanced(forward, path.skips).add(emitted(step));
      return [select(lengths.sub(1).gt(index).reshape([-1, 1]), nextForward, forward), {}];
    },
    start,
    rest,
  );
  return atEnd(end, counted);
}

/** The error for a label out of range, from its position among labels and blanks. */
const labelOutside =
  (length: number) =>
  (outside: OutsideIndex): Fault => {
    const { index, position, size } = outside;
    const [sequence, slot] = [Math.floor(position / (2 * length + 1)), position % (2 * length + 1)];
    return inWords(
      `label ${index}, number ${(slot - 1) / 2} of sequence ${sequence}, is outside [0, ${size})`,
      outside,
    );
  };

function checkTypes(logProbabilities: Tensor, labels: Tensor, blank: number): void {
  checkTensors("ctc", logProbabilities, labels);
  const [batch, time, classes] = logProbabilities.shape;
  const fits = logProbabilities.shape.length === 3 && labels.shape.length === 2 && labels.shape[0] === batch;
  if (!fits || time === 0 || !isInteger(labels.dtype)) {
    throw new HeddleError(
      "shape",
      `ctc: takes floats [batch, time, classes] and integer labels [batch, length], got ${formatType(logProbabilities)} and ${formatType(labels)}`,
    );
  }
  checkInteger("ctc", "blank", blank, 0, (classes as number) - 1);
}

/** Checks lengths whose values are known. */
function checkLengths(
  name: string,
  lengths: Tensor | undefined,
  batch: number,
  [min, max]: readonly [number, number],
  unit: string,
): void {
  if (lengths === undefined) return;
  if (!isInteger(lengths.dtype) || !sameShape(lengths.shape, [batch]))
    throw new HeddleError(
      "shape",
      `ctc: ${name} are integers [${batch}], one per sequence, got ${formatType(lengths)}`,
    );
  valuesAtHand(lengths)?.forEach((length, sequence) => {
    if (length >= min && length <= max) return;
    throw new HeddleError(
      "value",
      `ctc: ${name}: sequence ${sequence} has length ${length}, but there are ${max} ${unit}`,
      {
        hint: `lengths are from ${min} to ${max}, one per sequence`,
      },
    );
  });
}

/** Labels with blanks around each: the class of every position, and which positions can be reached from two positions before. */
function pathOf(labels: Tensor, blank: number) {
  const [batch, length] = labels.shape as [number, number];
  const blanks = (count: number): Tensor => full([batch, count], blank, { dtype: "i32" });
  const padded = select(labels.lt(0), blank, labels);
  const pairs = concat([blanks(length).reshape([batch, length, 1]), padded.reshape([batch, length, 1])], 2);
  const classes = concat([pairs.reshape([batch, 2 * length]), blanks(1)], 1);
  const positions = full([batch, 2 * length + 1], 1, { dtype: "i32" });
  const earlier = concat([blanks(2), classes], 1).slice([0, 0], [batch, 2 * length + 1]);
  const skips = classes.ne(blank).cast("i32").mul(classes.ne(earlier).cast("i32")).gt(0);
  return { classes, skips, positions: counted(positions) };
}

/** 0, 1, 2, … along the last dim. */
const counted = (ones: Tensor): Tensor => cumsum(ones, 1).sub(1);

/** One step of the forward variables: each position is reached from itself, from the one before, and, if allowed, from two before. */
function advanced(forward: Tensor, skips: Tensor): Tensor {
  const [batch, positions] = forward.shape as [number, number];
  const shifted = (by: number): Tensor =>
    concat([full([batch, by], logZero, { dtype: forward.dtype }), forward], 1).slice([0, 0], [batch, positions]);
  return logSumOf([forward, shifted(1), select(skips, shifted(2), logZero)]);
}

/** The sum at the last label and at the blank after it. */
function atEnd(end: Tensor, lengths: Tensor): Tensor {
  const [batch] = end.shape as [number, number];
  const valueAt = (position: Tensor): Tensor => rowsById(end, position.reshape([batch, 1]), 1).reshape([batch]);
  const blank = valueAt(lengths.mul(2));
  const label = valueAt(maximum(lengths.mul(2).sub(1), 0));
  return logSumOf([blank, select(lengths.gt(0), label, logZero)]);
}

/** log(Σ exp(x)), elementwise. */
function logSumOf(terms: readonly Tensor[]): Tensor {
  // As in logSumExp: its derivatives cancel, except for rounding.
  const largest = stopGradient(terms.reduce((x, y) => maximum(x, y)));
  return terms
    .map((term) => term.sub(largest).exp())
    .reduce((x, y) => x.add(y))
    .log()
    .add(largest);
}
