/** @module Which parameters a training changes: the others are constants of its steps, without gradients and optimizer state. */

import { isTensor, type Tensors } from "../functions/index.ts";
import { chosenNames, partOf, withParts } from "../functions/parts.ts";
import { frozenNames } from "../nn/frozen.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import type { Settings } from "./options.ts";
import type { Trained } from "./values.ts";

/**
 * Those that the option `trainable` names, without the parameters of frozen layers.
 *
 * @param params as the model's `init` gave them
 * @throws HeddleError `option` for a pattern that matches no parameter, or where nothing is left to train
 */
export function trainedNames({ trainable }: Pick<Settings, "trainable">, params: Tensors): Trained {
  const { paths } = flattenTree(params, isTensor);
  const still = frozenNames(params);
  const chosen = trainable === undefined ? new Set(paths) : chosenNames("train: trainable", trainable, params);
  const trained = paths.filter((path) => chosen.has(path) && !still.has(path));
  if (trained.length === paths.length) return undefined;
  if (trained.length > 0) return new Set(trained);
  throw new HeddleError("option", "train: no parameter is left to train", {
    hint: trainable === undefined ? "all layers are frozen" : "trainable names those that are trained",
  });
}

/** The tree of those that are trained. */
export const trainedPart = (trained: Trained, params: Tensors): Tensors =>
  trained === undefined ? params : partOf(params, trained);

/** All parameters, from those that are trained and the whole tree as it was. */
export const wholeTree = (trained: Trained, params: Tensors, part: Tensors): Tensors =>
  trained === undefined ? part : withParts(params, part);
