/** @module Connectionist temporal classification (Graves et al., 2006): labels of a sequence without their places in it. */

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
   * How much of each sequence counts, integers `[batch]`, from 1 to the number of steps; default: all of it. Others are an error
   * where the values are at hand; a traced one below counts as 1, one above as all steps.
   */
  readonly inputLengths?: Tensor;
  /**
   * How many labels each sequence has, integers `[batch]`, from 0 to their length; default: those that are not negative. Others
   * are an error (`value`), of traced ones when it runs.
   */
  readonly targetLengths?: Tensor;
  /** The class between labels; default 0. */
  readonly blank?: number;
  /** Sequences too short for their labels count 0 instead of infinity; default false. Their gradient is 0 either way. */
  readonly zeroInfinity?: boolean;
}

// The logarithm of nothing, with a gradient: differences of infinities would be NaN.
const nothing = -1e30;

/**
 * Minus the logarithm of the probability of the labels, summed over all their alignments, as PyTorch's `CTCLoss` (whose
 * inputs are `[time, batch, classes]`). A mean is that of each sequence's loss divided by its number of labels. The forward
 * variables are a loop over time; gradients go through it.
 *
 * @param logProbabilities float `[batch, time, classes]`, such as `logSoftmax` gives
 * @param labels integers `[batch, length]`; what is behind a sequence's labels is negative, or anything with `targetLengths`
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
    const given = toIndices(labels);
    const counted = targetLengths?.cast("i32") ?? given.ge(0).cast("i32").sum(1);
    const lengths = inputLengths?.cast("i32") ?? full([batch], time, { dtype: "i32" });
    const path = pathOf(given, blank);
    const single = (x: Tensor): SingleLosses => {
      const total = logLikelihood(x, path, lengths, counted);
      const values = select(total.lt(nothing / 10), zeroInfinity ? 0 : Infinity, total.neg());
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
      nothing,
    );
  const first = steps.slice([0, 0, 0], [1, ...steps.shape.slice(1)]).reshape(steps.shape.slice(1));
  const start = select(path.places.lt(2), emitted(first), nothing);
  const rest = steps.slice([1, 0, 0], [...steps.shape]);
  const [end] = scan(
    (before: Tensor, step: Tensor, index: Tensor): [Tensor, Record<string, never>] => {
      const after = advanced(before, path.skips).add(emitted(step));
      return [select(lengths.sub(1).gt(index).reshape([-1, 1]), after, before), {}];
    },
    start,
    rest,
  );
  return atEnd(end, counted);
}

/** Of a place in the labels with blanks around each, the label. */
const labelOutside =
  (length: number) =>
  (found: OutsideIndex): Fault => {
    const { index, position, size } = found;
    const [sequence, place] = [Math.floor(position / (2 * length + 1)), position % (2 * length + 1)];
    return inWords(`label ${index}, number ${(place - 1) / 2} of sequence ${sequence}, is outside [0, ${size})`, found);
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

/** Lengths are checked where their values are at hand. */
function checkLengths(
  name: string,
  lengths: Tensor | undefined,
  batch: number,
  [least, most]: readonly [number, number],
  of: string,
): void {
  if (lengths === undefined) return;
  if (!isInteger(lengths.dtype) || !sameShape(lengths.shape, [batch]))
    throw new HeddleError(
      "shape",
      `ctc: ${name} are integers [${batch}], one per sequence, got ${formatType(lengths)}`,
    );
  valuesAtHand(lengths)?.forEach((length, at) => {
    if (length >= least && length <= most) return;
    throw new HeddleError("value", `ctc: ${name}: sequence ${at} has length ${length}, but there are ${most} ${of}`, {
      hint: `lengths are from ${least} to ${most}, one per sequence`,
    });
  });
}

/** Labels with blanks around each: the class of every place, and where a place may be reached from two before. */
function pathOf(labels: Tensor, blank: number) {
  const [batch, length] = labels.shape as [number, number];
  const blanks = (count: number): Tensor => full([batch, count], blank, { dtype: "i32" });
  const own = select(labels.lt(0), blank, labels);
  const pairs = concat([blanks(length).reshape([batch, length, 1]), own.reshape([batch, length, 1])], 2);
  const classes = concat([pairs.reshape([batch, 2 * length]), blanks(1)], 1);
  const places = full([batch, 2 * length + 1], 1, { dtype: "i32" });
  const earlier = concat([blanks(2), classes], 1).slice([0, 0], [batch, 2 * length + 1]);
  const skips = classes.ne(blank).cast("i32").mul(classes.ne(earlier).cast("i32")).gt(0);
  return { classes, skips, places: counted(places) };
}

/** 0, 1, 2, … along the last dim. */
const counted = (ones: Tensor): Tensor => cumsum(ones, 1).sub(1);

/** Logarithms of what comes to each place from itself, the one before, and the one before that where it may. */
function advanced(before: Tensor, skips: Tensor): Tensor {
  const [batch, places] = before.shape as [number, number];
  const moved = (by: number): Tensor =>
    concat([full([batch, by], nothing, { dtype: before.dtype }), before], 1).slice([0, 0], [batch, places]);
  return logSumOf([before, moved(1), select(skips, moved(2), nothing)]);
}

/** The places of the last label and of the blank behind it. */
function atEnd(end: Tensor, lengths: Tensor): Tensor {
  const [batch] = end.shape as [number, number];
  const at = (place: Tensor): Tensor => rowsById(end, place.reshape([batch, 1]), 1).reshape([batch]);
  const blank = at(lengths.mul(2));
  const label = at(maximum(lengths.mul(2).sub(1), 0));
  return logSumOf([blank, select(lengths.gt(0), label, nothing)]);
}

/** log(Σ exp(x)), elementwise. */
function logSumOf(terms: readonly Tensor[]): Tensor {
  // As in logSumExp: derivatives by it would cancel, but for their rounding.
  const largest = stopGradient(terms.reduce((x, y) => maximum(x, y)));
  return terms
    .map((term) => term.sub(largest).exp())
    .reduce((x, y) => x.add(y))
    .log()
    .add(largest);
}
