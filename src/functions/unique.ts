/** @module The distinct elements of a tensor. */
import { isFloat, isValueOf } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkTensor, operateAll, type Tensor } from "../tensor/tensor.ts";
import { isTracing } from "../tensor/tracing.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { unknownSize } from "./finding.ts";

/** Options of {@link unique}. */
export interface UniqueOptions {
  /**
   * Places for distinct elements: of more there are, the smallest are kept. Must be given where a function is traced, as shapes are
   * static there; default as many as there are, for which the values are read, blocking.
   */
  readonly size?: number;
  /** What places that stay free hold; default the smallest element. */
  readonly fill?: number;
}

/** What {@link unique} finds. */
export interface Unique {
  /** `[size]`: the distinct elements in ascending order. */
  readonly values: Tensor;
  /** In the shape of x (i32): `values[inverse]` is x, where `size` has left out none. */
  readonly inverse: Tensor;
  /** `[size]` (i32): how often each value occurs; 0 for places that stay free. */
  readonly counts: Tensor;
  /** A scalar (i32): how many distinct elements there are, also where `size` has left out some. */
  readonly number: Tensor;
}

/**
 * The distinct elements of a tensor of any shape and dtype, as NumPy's and JAX's `unique`. NaNs are one element, above all
 * numbers; of -0 and 0, which are one too, it is the first that stays. The gradient by values goes to the first of equal
 * elements.
 *
 * @throws HeddleError `argument` where a function is traced and `size` is not given; `dtype` when `fill` is no value of x's
 * @example unique(tensor([3, 1, 3])) // values [1, 3], inverse [1, 0, 1], counts [1, 2], number 2
 */
export function unique(x: Tensor, options: UniqueOptions = {}): Unique {
  checkTensor("unique", x);
  checkOptions("unique", options, ["size", "fill"]);
  const { size, fill } = options;
  if (size !== undefined) checkInteger("unique", "size", size, 0);
  if (fill !== undefined && (typeof fill !== "number" || !(isFloat(x.dtype) || isValueOf(x.dtype, fill))))
    throw new HeddleError("dtype", `unique: fill must be a number of ${x.dtype}, the dtype of x, got ${shown(fill)}`);
  if (size !== undefined) return found(x, size, fill);
  if (isTracing()) throw unknownSize("unique", `how many elements of ${formatType(x)} are distinct`);
  const all = found(x, x.size, fill);
  const count = all.number.itemSync();
  return { ...all, values: all.values.slice([0], [count]), counts: all.counts.slice([0], [count]) };
}

function found(x: Tensor, size: number, fill: number | undefined): Unique {
  const [values, inverse, counts, number] = operateAll("unique", ops.unique, [x], size, fill) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  return { values, inverse, counts, number };
}
