/** @module Shapes and dtypes of a function's results, found by tracing, without values. */
import { type TensorType, typeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { checkDType, checkFunction, checkShape } from "./arguments.ts";
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
 * @throws HeddleError `argument` for an input that is not a type, and all that `fn` throws for such inputs.
 * @example evalShape((x, y) => x.matmul(y), { shape: [2, 3], dtype: "f32" }, { shape: [3, 4], dtype: "f32" }).shape // [2, 4]
 */
export function evalShape<Result>(
  fn: (...inputs: Tensor[]) => Result,
  ...inputs: readonly TensorType[]
): Shapes<Result> {
  checkFunction("evalShape", fn);
  inputs.forEach((input: unknown, index) => {
    const { shape, dtype } = (input ?? {}) as Partial<TensorType>;
    if (shape === undefined || dtype === undefined) {
      throw new HeddleError("argument", `evalShape: input ${index} is ${shown(input)}, not { shape, dtype }`, {
        hint: "give each tensor of a tree as a separate input",
      });
    }
    checkDType(`evalShape: input ${index}`, dtype);
    checkShape(`evalShape: input ${index}`, shape);
  });
  const specs = inputs.map(({ shape, dtype }, index) => ({ name: `x${index}`, type: { shape, dtype } }));
  let result: unknown;
  traceFunction("evalShape", specs, (nodes) => {
    const { leaves, shape } = flattenTree(fn(...nodes.map(Tensor.ofNode)), isTensor);
    result = unflattenTree(shape, leaves.map(typeOf));
    return [];
  });
  return result as Shapes<Result>;
}
