/** @module Normalising by mean and variance, as all norm layers do. */

import { isFloat, wideDType } from "../../ir/dtype.ts";
import { absent, type Node, type OpDef } from "../../ir/node.ts";
import { formatType, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import { defineComposite } from "../../ops/composite.ts";
import * as ops from "../../ops/index.ts";
import { inFloat32 } from "../../ops/wide.ts";
import { checkWhole } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkNumber, checkOptions } from "../../util/options.ts";
import type { Dims } from "../methods/reductions.ts";

/**
 * Distances from the mean over `dims`. The first mean is rounded, which for values far from 0 may be more than their differences,
 * so the mean of the remaining differences is subtracted too. The first mean may be any constant near the values.
 */
function centred(x: Node, dims: readonly number[]): { mean: Node; rest: Node } {
  const first = ops.call("stopGradient", [ops.mean(x, dims, { keepDims: true })]);
  // If the first mean is not finite, differences would be NaN even for finite values; the second mean is right.
  const shift = ops.select(ops.isFinite(first), first, 0);
  const near = ops.sub(x, shift);
  const second = ops.mean(near, dims, { keepDims: true });
  return { mean: ops.add(shift, second), rest: ops.sub(near, second) };
}

/**
 * Mean and variance (divided by the count) over `dims`, which stay as size 1; 16-bit floats give f32. The variance is that of the
 * distances from the mean, exact also for values far from 0.
 */
export function momentsNode(x: Node, dims: readonly number[]): { readonly mean: Node; readonly variance: Node } {
  const { mean, rest } = centred(ops.cast(x, wideDType(x.dtype)), dims);
  return { mean, variance: ops.mean(ops.mul(rest, rest), dims, { keepDims: true }) };
}

/** Attributes of {@link normalize}. */
type NormalizeAttrs = { dims: readonly number[]; epsilon: number; centre: boolean };

const normalizeOp: OpDef<NormalizeAttrs> = defineComposite<NormalizeAttrs>({
  name: "normalize",
  doc: "(x - mean) / sqrt(variance + epsilon) over dims; with `centre` false x / sqrt(mean(x²) + epsilon). 16-bit floats are computed in f32.",
  example: {
    inputs: [{ dtype: "f32", shape: [1, 2], data: Float32Array.of(1e8, 1e8 + 16) }],
    attrs: { dims: [1], epsilon: 0, centre: true },
    outputs: [{ dtype: "f32", shape: [1, 2], data: Float32Array.of(-1, 1) }],
  },
  check: ([x]) => {
    if (!isFloat((x as TensorType).dtype))
      throw new HeddleError("dtype", `normalize: takes floats, got ${formatType(x as TensorType)}`);
  },
  body: ([x], { dims, epsilon, centre }) => {
    const result = inFloat32([x as Node], (value) => {
      const rest = centre ? centred(value, dims).rest : value;
      const square = ops.mean(ops.mul(rest, rest), dims, { keepDims: true });
      return ops.mul(rest, ops.rsqrt(ops.add(square, epsilon)));
    });
    return [result];
  },
  equation: absent("the planner sees its body"),
  linear: [],
  gradient: absent("its body is differentiated"),
  batch: absent("its body is batched"),
  form: absent("its body is one walk over rows"),
});

const normalizeNode = (x: Node, dims: readonly number[], epsilon: number, centre = true): Node =>
  apply(normalizeOp, [x], { dims: ops.resolveDims("normalize", dims, x.shape.length), epsilon, centre });

const listOf = (dims: Dims): readonly number[] => (typeof dims === "number" ? [dims] : dims);

/** Options of {@link normalize}. */
export interface NormalizeOptions {
  /** Added to the variance; default 1e-5. */
  readonly epsilon?: number;
  /** Whether the mean is subtracted; default true. */
  readonly centre?: boolean;
}

/**
 * `(x - mean) / sqrt(variance + epsilon)` over dims, or, with `centre: false`, `x / sqrt(mean(x²) + epsilon)`, in the shape and dtype
 * of x. Exact also for values far from 0 and close to each other.
 *
 * @throws HeddleError `dtype` unless x is float; `shape` for a dim that is out of range
 */
export function normalize(x: Tensor, dims: Dims, options: NormalizeOptions = {}): Tensor {
  checkWhole("normalize", "dims", dims, true);
  checkOptions("normalize", options, ["epsilon", "centre"]);
  const { epsilon = 1e-5, centre = true } = options;
  checkNumber("normalize", "epsilon", epsilon, 0);
  return operate("normalize", normalizeNode, [x], listOf(dims), epsilon, centre);
}

const meanOf = (x: Node, dims: readonly number[]): Node => momentsNode(x, dims).mean;
const varianceOf = (x: Node, dims: readonly number[]): Node => momentsNode(x, dims).variance;

/**
 * Mean and variance of floats over dims, which stay as size 1. The variance is divided by the count; the variance of one value is 0.
 * It is computed from distances from the mean, so it is exact also for values far from 0. 16-bit floats give f32.
 *
 * @throws HeddleError `argument` for dims that are not whole numbers; `shape` for a dim that is out of range
 */
export function moments(x: Tensor, dims: Dims): { readonly mean: Tensor; readonly variance: Tensor } {
  checkWhole("moments", "dims", dims, true);
  const list = listOf(dims);
  return {
    mean: operate("moments mean", meanOf, [x], list),
    variance: operate("moments variance", varianceOf, [x], list),
  };
}
