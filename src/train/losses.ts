/** @module The loss of a training: a function of output and target, or a weighted function for each of several outputs. */

import { isTensor, type Tensor } from "../functions/index.ts";
import type { Loss } from "../losses/index.ts";
import type { OneOrMore } from "../nn/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions, nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { type RowWeights, weightedLoss } from "./weights.ts";

/** The loss of one of several outputs, and its weight in the sum of the losses; default 1. */
export interface WeightedLoss {
  readonly loss: Loss;
  readonly weight?: number;
}

/** A loss for each of several outputs, by name. The training minimizes the weighted sum. */
export interface NamedLosses {
  readonly [output: string]: Loss | WeightedLoss;
}

/** @throws HeddleError `option` unless `loss` is a function or a record of functions. */
export function checkLoss(loss: unknown): void {
  if (typeof loss === "function") return;
  const fail = (what: string): never => {
    throw new HeddleError("option", `train: ${what}`, {
      hint: "such as losses.softmaxCrossEntropy, or for several outputs { main: losses.softmaxCrossEntropy, aux: { loss: losses.mse, weight: 0.3 } }",
    });
  };
  if (!isRecord(loss) || Object.keys(loss).length === 0)
    fail(`loss is not a function (such as losses.softmaxCrossEntropy), but ${shown(loss)}`);
  for (const [name, term] of Object.entries(loss as object)) {
    if (typeof term === "function") continue;
    if (!isRecord(term) || typeof term["loss"] !== "function")
      fail(`loss.${name} is not a function, but ${shown(term)}`);
    checkOptions(`train: loss.${name}`, term as object, ["loss", "weight"]);
    const { weight } = term as unknown as WeightedLoss;
    if (weight !== undefined) checkNumber("train", `loss.${name}.weight`, weight);
  }
}

/** The loss of one output, which is reported besides the sum. */
export interface TermValue {
  readonly name: string;
  readonly value: Tensor;
}

/** The names under which the losses of several outputs are reported. */
export const termNames = (loss: Loss | NamedLosses): string[] =>
  typeof loss === "function" ? [] : Object.keys(loss).map((name) => `${name}_loss`);

/** The loss of a batch, and the losses of its outputs if there are several. */
export function batchLoss(
  loss: Loss | NamedLosses,
  output: OneOrMore<Tensor>,
  target: OneOrMore<Tensor>,
  weights: RowWeights,
): { readonly value: Tensor; readonly terms: readonly TermValue[] } {
  if (typeof loss === "function") {
    checkUnweighted(output, target, weights);
    // Functions of records and of tensors are called alike.
    return { value: weightedLoss(loss, output as Tensor, target as Tensor, weights), terms: [] };
  }
  const terms = Object.entries(loss).map(([name, term]) => {
    const { loss: fn, weight = 1 } = typeof term === "function" ? { loss: term } : term;
    const value = weightedLoss(fn, part("output", name, output), part("target", name, target), weights);
    return { name: `${name}_loss`, value, weighted: weight === 1 ? value : value.mul(weight) };
  });
  const unused = isTensor(target) ? undefined : Object.keys(target).find((name) => loss[name] === undefined);
  if (unused !== undefined)
    throw new HeddleError("option", `train: target '${unused}' has no loss, so nothing would be trained on it`, {
      hint: `add loss.${unused}, with weight 0 if only metrics read it, or leave it out of target`,
    });
  return { value: terms.map(({ weighted }) => weighted).reduce((sum, term) => sum.add(term)), terms };
}

/** @throws HeddleError `option` for weights of rows with a function of records, whose loss is not a sum over rows. */
function checkUnweighted(output: OneOrMore<Tensor>, target: OneOrMore<Tensor>, { rows, classes }: RowWeights): void {
  const record = [output, target].find((value) => !isTensor(value));
  if (record === undefined || (rows === undefined && classes === undefined)) return;
  throw new HeddleError("option", "train: weights of rows need a loss for each output, not one function of records", {
    hint: `write loss: { ${Object.keys(record)
      .map((name) => `${name}: …`)
      .join(", ")} }`,
  });
}

/** The output or target of this name; a single tensor serves for all names. */
function part(what: string, name: string, values: OneOrMore<Tensor>): Tensor {
  if (isTensor(values)) return values;
  const found = values[name];
  if (found !== undefined) return found;
  const names = Object.keys(values);
  const near = nearest(name, names);
  throw new HeddleError("option", `train: loss.${name} has no ${what} of this name`, {
    hint: near === undefined ? `the ${what}s are ${listed(names)}` : `did you mean '${near}'?`,
  });
}
