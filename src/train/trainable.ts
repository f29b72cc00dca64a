/** @module The parameters that a training changes. All others are constants of its steps, without gradients and optimizer state. */

import { isTensor, type Tensors } from "../functions/index.ts";
import { chosenNames, partOf, withParts } from "../functions/parts.ts";
import { frozenNames } from "../nn/frozen.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import type { Settings } from "./options.ts";
import type { Trained } from "./values.ts";

/**
 * The names of the parameters that the option `trainable` selects, without those of frozen layers; undefined if these are all.
 *
 * @param params the parameters from the model's `init`
 * @throws HeddleError `option` for a pattern that matches no parameter, or if no parameter is trained
 */
export function trainedNames({ trainable }: Pick<Settings, "trainable">, params: Tensors): Trained {
  const { paths } = flattenTree(params, isTensor);
  const frozen = frozenNames(params);
  const chosen = trainable === undefined ? new Set(paths) : chosenNames("train: trainable", trainable, params);
  const trained = paths.filter((path) => chosen.has(path) && !frozen.has(path));
  if (trained.length === paths.length) return undefined;
  if (trained.length > 0) return new Set(trained);
  throw new HeddleError("option", "train: no parameter is left to train", {
    hint: trainable === undefined ? "all layers are frozen" : "trainable names those that are trained",
  });
}

/** The tree of the trained parameters. */
export const trainedPart = (trained: Trained, params: Tensors): Tensors =>
  trained === undefined ? params : partOf(params, trained);

/** All parameters: the trained ones from `part`, the others from `params`. */
export const wholeTree = (trained: Trained, params: Tensors, part: Tensors): Tensors =>
  trained === undefined ? part : withParts(params, part);
