/**
 * @module The rule for functions of several operations on 16-bit floats: they compute in f32 and round once, at the end. Squares
 * of some hundred, sums of 10^5 elements and small epsilons are out of the range of f16.
 */
import { type DType, isFloat, isHalf, wideDType } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { promote } from "../ir/promote.ts";
import { cast } from "./emit-scalar.ts";

/** The inputs as the body gets them. */
type Wide<Inputs extends readonly unknown[]> = { -readonly [I in keyof Inputs]: Inputs[I] };

/**
 * The rule for nodes or tensors, which differ in how they are cast. The body gets 16-bit floats as f32; its result is rounded
 * to the dtype that the float inputs promote to, if that has 16 bits. Other inputs pass unchanged, and without 16-bit floats
 * no cast is added.
 */
export const widening =
  <X extends { readonly dtype: DType }>(castTo: (x: X, dtype: DType) => X) =>
  <const Inputs extends readonly (X | undefined)[]>(inputs: Inputs, body: (...wide: Wide<Inputs>) => X): X => {
    const wide = inputs.map((x) => (x !== undefined && isHalf(x.dtype) ? castTo(x, wideDType(x.dtype)) : x));
    const result = body(...(wide as Wide<Inputs>));
    const floats = inputs.flatMap((x) => (x !== undefined && isFloat(x.dtype) ? [x.dtype] : []));
    const dtype = floats.reduce((a, b) => promote(a, b) ?? a, floats[0] ?? result.dtype);
    return isHalf(dtype) && isFloat(result.dtype) ? castTo(result, dtype) : result;
  };

/** `widening` of nodes. */
export const inFloat32 = widening<Node>(cast);
