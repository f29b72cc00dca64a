/** @module Errors of indices that count from the end of a dim. */

import type { Tensor } from "../tensor/tensor.ts";
import { type OutsideIndex, retold } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";

/** Runs a function that counts indices from the end. The error of an index that is outside shows it as the user gave it. */
export const counted = (name: string, body: () => Tensor): Tensor => retold(name, asGiven, body);

const asGiven = (outside: OutsideIndex): Fault => {
  const { index, size } = outside;
  return { ...outside, kind: "index", index: index < 0 ? Number(index) - size : index, least: -size };
};
