/** @module Normalising by mean and variance: what all norm layers are made of. */
import { isFloat, wideDType } from "../ir/dtype.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";
import { inFloat32 } from "./wide.ts";

/**
 * Distances from the mean over `dims`. The first mean is rounded to a value's last place, which for values far from 0 is
 * more than they differ by, so the mean of what remains is taken off too; the first one is any constant near the values.
 */
function centred(x: Node, dims: readonly number[]): { mean: Node; rest: Node } {
  const first = emit.call("stopGradient", [emit.mean(x, dims, { keepDims: true })]);
  // Where it is not finite, the differences would be NaN even for values that are; the second mean says what it is.
  const shift = emit.select(emit.isFinite(first), first, 0);
  const near = emit.sub(x, shift);
  const second = emit.mean(near, dims, { keepDims: true });
  return { mean: emit.add(shift, second), rest: emit.sub(near, second) };
}

/**
 * Mean and variance (by the count, not less one) over `dims`, which stay as size 1; 16-bit floats give them in f32. The
 * variance is that of distances from the mean, exact also where values are far from 0.
 */
export function moments(x: Node, dims: readonly number[]): { readonly mean: Node; readonly variance: Node } {
  const { mean, rest } = centred(emit.cast(x, wideDType(x.dtype)), dims);
  return { mean, variance: emit.mean(emit.mul(rest, rest), dims, { keepDims: true }) };
}

/** Attributes of {@link normalize}. */
export type NormalizeAttrs = { dims: readonly number[]; epsilon: number; centre: boolean };

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
      const square = emit.mean(emit.mul(rest, rest), dims, { keepDims: true });
      return emit.mul(rest, emit.rsqrt(emit.add(square, epsilon)));
    });
    return [result];
  },
  equation: absent("that of its body"),
  linear: [],
  gradient: absent("that of its body"),
  batch: absent("its body is batched"),
  form: absent("its body is one walk over rows"),
});

/**
 * `(x - mean) / sqrt(variance + epsilon)` over `dims`, or, with `centre` false, `x / sqrt(mean(x²) + epsilon)`.
 *
 * @throws HeddleError `dtype` unless x is float
 */
export const normalize = (x: Node, dims: readonly number[], epsilon: number, centre = true): Node =>
  apply(normalizeOp, [x], { dims: emit.resolveDims("normalize", dims, x.shape.length), epsilon, centre });
