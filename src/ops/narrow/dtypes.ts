/** @module The dtypes of products: narrow numbers may have wider sums without casts. */
import type { DType } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import { cast } from "../emit-scalar.ts";

/** Which dims of x and y are paired, and of what dtype the sums are. */
export type DotAttrs = {
  xBatch: readonly number[];
  yBatch: readonly number[];
  xContract: readonly number[];
  yContract: readonly number[];
  /** The dtype of the result where it is wider than the operands: f32 of bf16, i32 of i8 and u8. */
  dtype?: DType;
};

const isByte = (dtype: DType): boolean => dtype === "i8" || dtype === "u8";

/** Whether a product of these dtypes has sums in a wider dtype without casts: bf16 in f32, i8 and u8 in i32. */
export const widens = (x: DType, y: DType, out: DType): boolean =>
  out === "i32" ? isByte(x) && isByte(y) : out === "f32" && x === "bf16" && y === "bf16";

/** The dtype of a product, or undefined where there is none; `wanted` is the attribute of the op. */
export function productDType(x: DType, y: DType, wanted: DType | undefined): DType | undefined {
  if (wanted !== undefined) return widens(x, y, wanted) ? wanted : undefined;
  return x === y && x !== "bool" ? x : undefined;
}

/** The operands of a product with this result, and the attribute that asks for it: operands that need a cast are cast. */
export function productIn(x: Node, y: Node, dtype: DType | undefined): readonly [Node, Node, { dtype?: DType }] {
  if (dtype === undefined) return [x, y, {}];
  return widens(x.dtype, y.dtype, dtype) ? [x, y, { dtype }] : [cast(x, dtype), cast(y, dtype), {}];
}
