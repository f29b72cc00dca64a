/** @module Shapes without values: what a function would give, found by tracing it. */
import type { TensorType } from "../ir/shape.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { traceFunction } from "./tracing.ts";

/** A tree in which each tensor is replaced by its shape and dtype. */
export type Shapes<Result> = Result extends Tensor
  ? TensorType
  : Result extends object
    ? { readonly [Key in keyof Result]: Shapes<Result[Key]> }
    : Result;

/**
 * Shapes and dtypes of what `fn` returns (a tensor, or a tree of them) for inputs of these types. Nothing is computed
 * and no device is needed.
 *
 * @throws HeddleError what `fn` throws for such inputs.
 * @example evalShape((x, y) => x.matmul(y), { shape: [2, 3], dtype: "f32" }, { shape: [3, 4], dtype: "f32" }).shape // [2, 4]
 */
export function evalShape<Result>(
  fn: (...inputs: Tensor[]) => Result,
  ...inputs: readonly TensorType[]
): Shapes<Result> {
  const specs = inputs.map(({ shape, dtype }, index) => ({ name: `x${index}`, type: { shape, dtype } }));
  let result: unknown;
  traceFunction("evalShape", specs, (nodes) => {
    const { leaves, shape } = flattenTree(fn(...nodes.map(Tensor.ofNode)), isTensor);
    result = unflattenTree(
      shape,
      leaves.map((leaf): TensorType => ({ shape: leaf.shape, dtype: leaf.dtype })),
    );
    return [];
  });
  return result as Shapes<Result>;
}
