/** @module Errors of indices that count from the end of a dim. */

import type { Tensor } from "../tensor/tensor.ts";
import { type OutsideIndex, retold } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";

/** Runs what counts indices from the end: one that is outside is told as it was given. */
export const counted = (name: string, body: () => Tensor): Tensor => retold(name, asGiven, body);

const asGiven = (found: OutsideIndex): Fault => {
  const { index, size } = found;
  return { ...found, kind: "index", index: index < 0 ? Number(index) - size : index, least: -size };
};
