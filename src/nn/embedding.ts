/** @module The embedding layer. */

import { arange, random, select, stopGradient, type Tensor } from "../functions/index.ts";
import { lookedUp, rowsById, toIndices } from "../functions/indices.ts";
import { isInteger } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { floatDType } from "./float-dtype.ts";
import { type Layer, madeBy, positioned } from "./layer.ts";

/** Options of {@link embedding}. */
export interface EmbeddingOptions {
  /** Dtype of the vectors; default the dtype of the training: `"f32"` unless `train` or `keras.model` has the option `dtype`. */
  readonly dtype?: "f32" | "f64";
  /** Id of a row that begins as zeros and has no gradient. */
  readonly paddingIdx?: number;
}

/** Initial vectors; those of the padding are 0. */
export function table(
  key: Tensor,
  count: number,
  size: number,
  { dtype = floatDType(), paddingIdx }: EmbeddingOptions,
): Tensor {
  const drawn = random.normal(random.foldIn(key, 0), [count, size], { dtype });
  return paddingIdx === undefined
    ? drawn
    : select(arange(count, { dtype: "i32" }).eq(paddingIdx).reshape([count, 1]), 0, drawn);
}

/** @throws HeddleError `option` for an option out of range. */
export function checkTable(
  kind: string,
  count: number,
  size: number,
  { paddingIdx }: { readonly paddingIdx?: number | undefined },
): void {
  checkInteger(kind, "count", count, 1);
  checkInteger(kind, "size", size, 1);
  if (paddingIdx !== undefined) checkInteger(kind, "paddingIdx", paddingIdx, 0, count - 1);
}

/** @throws HeddleError `dtype` unless the ids are integers. */
export function checkIds(input: TensorType): void {
  if (!isInteger(input.dtype))
    throw new HeddleError("dtype", `takes ids, which are whole numbers, got ${formatType(input)}`, {
      hint: 'cast the ids first: x => x.cast("i32")',
    });
}

/** Whether each id is the padding, with a last dim of size 1. */
export const isPadding = (ids: Tensor, paddingIdx: number): Tensor => ids.eq(paddingIdx).reshape([...ids.shape, 1]);

/**
 * A vector for each id: `[…]` whole numbers (i32) in `[0, count)` to `[…, size]`. Parameter `weight` `[count, size]`, normal with
 * standard deviation 1 as in PyTorch, 0 for `paddingIdx`. Its gradient touches only the rows that were looked up, and a compiled step
 * updates only those if the optimizer allows it (docs/training.md, "Large embedding tables"). The table may be split by rows:
 * `layouts.named({ "0.weight": { model: 0 } })`.
 *
 * @throws HeddleError `option` when `count` or `size` is not a positive whole number; `dtype` for ids of floats; `value`, from the run, for an id out of range.
 */
export function embedding(
  count: number,
  size: number,
  options: EmbeddingOptions = {},
): Layer<{ readonly weight: Tensor }> {
  checkOptions("embedding", options, ["dtype", "paddingIdx"]);
  checkTable("embedding", count, size, options);
  const { paddingIdx } = options;
  return madeBy(
    positioned({
      kind: "embedding",
      init(key, input) {
        checkIds(input);
        const weight = table(key, count, size, options);
        return { params: { weight }, state: {}, output: { dtype: weight.dtype, shape: [...input.shape, size] } };
      },
      apply({ params }, x) {
        checkIds(x);
        const vectors = lookedUp("embedding", x, count, (ids) => rowsById(params.weight, ids));
        if (paddingIdx === undefined) return { y: vectors, state: {} };
        return { y: select(isPadding(toIndices(x), paddingIdx), stopGradient(vectors), vectors), state: {} };
      },
    }),
    "embedding",
    count,
    size,
    options,
  );
}
