/** @module Helpers for the StableHLO rules of several ops. */
import { type DType, isHalf } from "../ir/dtype.ts";
import type { Attrs } from "../ir/node.ts";
import type { Shape, TensorType } from "../ir/shape.ts";
import type { HloBlock, HloDType, HloRegion, HloRule, HloValue } from "./block.ts";

/** StableHLO's names of the ops that combine two elements. */
export const hloReductions = {
  sum: "add",
  prod: "multiply",
  max: "maximum",
  min: "minimum",
  and: "and",
  or: "or",
} as const;

type Extreme = "max" | "min" | "sum" | "prod" | "and" | "or";

const scalars = (dtypes: readonly HloDType[]) => dtypes.map((dtype) => ({ shape: [], dtype }));

/** The rule on 16-bit floats: computed in f32 and rounded once at the end, as kernels do. */
export const hloInSingle =
  <A extends Attrs>(rule: HloRule<A>): HloRule<A> =>
  (context) => {
    const { hlo, inputs, outputs } = context;
    const single = <D extends HloDType>(dtype: D): D | "f32" => (isHalf(dtype as DType) ? "f32" : dtype);
    const converted = (x: HloValue, dtype: HloDType): HloValue => (x.type.dtype === dtype ? x : hlo.convert(x, dtype));
    const results = rule({
      ...context,
      inputs: inputs.map((x) => converted(x, single(x.type.dtype))),
      outputs: outputs.map((type) => ({ ...type, dtype: single(type.dtype) })),
    });
    return results.map((x, index) => converted(x, (outputs[index] as TensorType).dtype));
  };

/** Whether the current element stays the extreme against the next: it wins ties, and NaN stays. */
export const hloKeeps = (op: Extreme, dtype: HloDType): HloRegion => ({
  arguments: scalars([dtype, dtype]),
  body: (hlo, inputs) => {
    const [current, next] = inputs as [HloValue, HloValue];
    const wins = hlo.compare(op === "min" ? "LE" : "GE", current, next);
    return [hlo.same("or", wins, hlo.compare("NE", current, current))];
  },
});

/**
 * Combines two tuples (value, index, …) into the one whose value is the extreme: NaN before all numbers, the smaller index
 * among equal values. The result does not depend on the order of the two, as reductions require.
 */
export const hloExtreme = (op: "max" | "min", dtypes: readonly HloDType[]): HloRegion => ({
  arguments: scalars([...dtypes, ...dtypes]),
  body: (hlo, inputs) => {
    const left = inputs.slice(0, dtypes.length);
    const right = inputs.slice(dtypes.length);
    const [x, index, y, other] = [left[0], left[1], right[0], right[1]] as [HloValue, HloValue, HloValue, HloValue];
    const [xNaN, yNaN] = [hlo.compare("NE", x, x), hlo.compare("NE", y, y)];
    const beyond = hlo.compare(op === "min" ? "LT" : "GT", x, y);
    const wins = hlo.same("or", beyond, hlo.same("and", xNaN, hlo.same("not", yNaN)));
    const equal = hlo.same("or", hlo.compare("EQ", x, y), hlo.same("and", xNaN, yNaN));
    const first = hlo.same("and", equal, hlo.compare("LT", index, other));
    const takesLeft = hlo.same("or", wins, first);
    return left.map((value, index) => hlo.select(takesLeft, value, right[index] as HloValue));
  },
});

/** The index (i32) of each element along a dim, or in row-major order; `none` is larger than all indices. */
export function hloIndices(hlo: HloBlock, shape: Shape, dim?: number): { indices: HloValue; none: HloValue } {
  const none = hlo.constant({ shape: [], dtype: "i32" }, 2147483647);
  const attributes = { iota_dimension: `${dim ?? 0} : i64` };
  if (dim !== undefined) return { indices: hlo.one("iota", [], { shape, dtype: "i32" }, attributes), none };
  const size = shape.reduce((all, dimSize) => all * dimSize, 1);
  const flat = hlo.one("iota", [], { shape: [size], dtype: "i32" }, attributes);
  return { indices: hlo.one("reshape", [flat], { shape, dtype: "i32" }), none };
}
