/** @module Errors of indices that count from the end of a dim. */
import { type OutsideIndex, retold } from "../util/errors.ts";
import type { Tensor } from "./tensor.ts";

/** Runs what counts indices from the end: one that is outside is told as it was given. */
export const counted = (name: string, body: () => Tensor): Tensor => retold(name, asGiven, body);

const asGiven = ({ index, position, size }: OutsideIndex): string =>
  `index ${index < 0 ? index - size : index} at position ${position} is outside [${-size}, ${size})`;
