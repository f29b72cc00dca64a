/** @module Elements of a tensor as nested arrays of JavaScript values. */
import type { TypedArray } from "../ir/dtype.ts";
import type { TensorType } from "../ir/shape.ts";

/** Values in nested arrays, one level for each dim. */
export type NestedValues = number | bigint | boolean | NestedValues[];

/** The elements of a row-major array in nested arrays; bool as booleans. */
export function nestedValues({ shape, dtype }: TensorType, data: TypedArray): NestedValues {
  let next = 0;
  const at = (dim: number): NestedValues => {
    if (dim < shape.length) return Array.from({ length: shape[dim] as number }, () => at(dim + 1));
    const value = data[next++] as number | bigint;
    return dtype === "bool" ? value !== 0 : value;
  };
  return at(0);
}
