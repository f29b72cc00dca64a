/** @module Mean, variance and normalising by them, on tensors. */
import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { checkWhole } from "../tensor/arguments.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import type { Dims } from "./reductions.ts";

const listOf = (dims: Dims): readonly number[] => (typeof dims === "number" ? [dims] : dims);

/** Options of {@link normalize}. */
export interface NormalizeOptions {
  /** Added to the variance; default 1e-5. */
  readonly epsilon?: number;
  /** Whether the mean is taken off; default true. */
  readonly centre?: boolean;
}

/**
 * `(x - mean) / sqrt(variance + epsilon)` over dims, or, with `centre: false`, `x / sqrt(mean(x²) + epsilon)`. Exact also where
 * values are far from 0 and near to each other.
 *
 * @throws HeddleError `dtype` unless x is float; `shape` when a dim is not there
 */
export function normalize(x: Tensor, dims: Dims, options: NormalizeOptions = {}): Tensor {
  checkWhole("normalize", "dims", dims, true);
  checkOptions("normalize", options, ["epsilon", "centre"]);
  const { epsilon = 1e-5, centre = true } = options;
  checkNumber("normalize", "epsilon", epsilon, 0);
  return operate("normalize", ops.normalize, [x], listOf(dims), epsilon, centre);
}

const meanOf = (x: Node, dims: readonly number[]): Node => ops.moments(x, dims).mean;
const varianceOf = (x: Node, dims: readonly number[]): Node => ops.moments(x, dims).variance;

/**
 * Mean and variance of floats over dims, which stay as size 1. The variance is by the count, and that of distances from the mean,
 * so values far from 0 lose nothing; that of one value is 0.
 */
export function moments(x: Tensor, dims: Dims): { readonly mean: Tensor; readonly variance: Tensor } {
  checkWhole("moments", "dims", dims, true);
  const list = listOf(dims);
  return {
    mean: operate("moments mean", meanOf, [x], list),
    variance: operate("moments variance", varianceOf, [x], list),
  };
}
