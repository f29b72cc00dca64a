/** @module The loss of a training: a function of output and target, or one for each of several outputs, with weights. */

import { isTensor, type Tensor } from "../functions/index.ts";
import type { Loss } from "../losses/index.ts";
import type { OneOrMore } from "../nn/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions, nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { type RowWeights, weightedLoss } from "./weights.ts";

/** A loss of one of several outputs, and what it is multiplied by in their sum; default 1. */
export interface WeightedLoss {
  readonly loss: Loss;
  readonly weight?: number;
}

/** A loss for each of several outputs, by their names: what is trained on is the sum by weights. */
export interface NamedLosses {
  readonly [output: string]: Loss | WeightedLoss;
}

/** @throws HeddleError `option` unless it is a function, or functions by name. */
export function checkLoss(loss: unknown): void {
  if (typeof loss === "function") return;
  const fail = (what: string): never => {
    throw new HeddleError("option", `train: ${what}`, {
      hint: "such as losses.softmaxCrossEntropy, or for several outputs { main: losses.softmaxCrossEntropy, aux: { loss: losses.mse, weight: 0.3 } }",
    });
  };
  if (!isRecord(loss) || Object.keys(loss).length === 0)
    fail(`loss is not a function (such as losses.softmaxCrossEntropy), but ${shown(loss)}`);
  for (const [name, one] of Object.entries(loss as object)) {
    if (typeof one === "function") continue;
    if (!isRecord(one) || typeof one["loss"] !== "function") fail(`loss.${name} is not a function, but ${shown(one)}`);
    checkOptions(`train: loss.${name}`, one as object, ["loss", "weight"]);
    const { weight } = one as unknown as WeightedLoss;
    if (weight !== undefined) checkNumber("train", `loss.${name}.weight`, weight);
  }
}

/** A loss that is told by itself besides the sum. */
export interface TermValue {
  readonly name: string;
  readonly value: Tensor;
}

/** Names under which the losses of several outputs are told. */
export const termNames = (loss: Loss | NamedLosses): string[] =>
  typeof loss === "function" ? [] : Object.keys(loss).map((name) => `${name}_loss`);

/** The loss of a batch, and where it is a sum, what it is the sum of. */
export function batchLoss(
  loss: Loss | NamedLosses,
  output: OneOrMore<Tensor>,
  target: OneOrMore<Tensor>,
  weights: RowWeights,
): { readonly value: Tensor; readonly terms: readonly TermValue[] } {
  if (typeof loss === "function") {
    checkUnweighted(output, target, weights);
    // A function of records is as one of tensors, but for what it is given.
    return { value: weightedLoss(loss, output as Tensor, target as Tensor, weights), terms: [] };
  }
  const terms = Object.entries(loss).map(([name, one]) => {
    const { loss: fn, weight = 1 } = typeof one === "function" ? { loss: one } : one;
    const value = weightedLoss(fn, part("output", name, output), part("target", name, target), weights);
    return { name: `${name}_loss`, value, weighted: weight === 1 ? value : value.mul(weight) };
  });
  const left = isTensor(target) ? undefined : Object.keys(target).find((name) => loss[name] === undefined);
  if (left !== undefined)
    throw new HeddleError("option", `train: target '${left}' has no loss, so nothing would be trained on it`, {
      hint: `add loss.${left}, of weight 0 where metrics alone read it, or leave it out of target`,
    });
  return { value: terms.map(({ weighted }) => weighted).reduce((sum, one) => sum.add(one)), terms };
}

/** A function of records has no losses of rows to weigh. */
function checkUnweighted(output: OneOrMore<Tensor>, target: OneOrMore<Tensor>, { rows, classes }: RowWeights): void {
  const record = [output, target].find((one) => !isTensor(one));
  if (record === undefined || (rows === undefined && classes === undefined)) return;
  throw new HeddleError("option", "train: weights of rows need a loss for each output, not one function of records", {
    hint: `write loss: { ${Object.keys(record)
      .map((name) => `${name}: …`)
      .join(", ")} }`,
  });
}

/** The output or target of a name; where there is one for all, that. */
function part(what: string, name: string, values: OneOrMore<Tensor>): Tensor {
  if (isTensor(values)) return values;
  const found = values[name];
  if (found !== undefined) return found;
  const names = Object.keys(values);
  const near = nearest(name, names);
  throw new HeddleError("option", `train: loss.${name} is of no ${what} of that name`, {
    hint: near === undefined ? `the ${what}s are ${listed(names)}` : `did you mean '${near}'?`,
  });
}
