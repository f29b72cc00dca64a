/** @module The embedding layer. */

import { arange, random, select, stopGradient, type Tensor, type Tensors } from "../functions/index.ts";
import { toIndices } from "../functions/indices.ts";
import { isInteger } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { floatDType } from "./float-dtype.ts";
import { type Layer, madeBy, positioned } from "./layer.ts";
import {
  checkServed,
  type ServedTable,
  type ServedTableOptions,
  servedOptions,
  tableWindow,
  vectorsOf,
} from "./tables.ts";

/** Options of {@link embedding}. */
export interface EmbeddingOptions extends ServedTableOptions {
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
  { dtype = floatDType(), paddingIdx, std = 1 }: EmbeddingOptions,
): Tensor {
  const normal = random.normal(random.foldIn(key, 0), [count, size], { dtype });
  const drawn = std === 1 ? normal : normal.mul(std);
  return paddingIdx === undefined
    ? drawn
    : select(arange(count, { dtype: "i32" }).eq(paddingIdx).reshape([count, 1]), 0, drawn);
}

/** @throws HeddleError `option` for an option out of range. */
export function checkTable(
  kind: string,
  count: number,
  size: number,
  { paddingIdx, ...served }: ServedTableOptions & { readonly paddingIdx?: number | undefined },
): void {
  checkServed(kind, served);
  checkInteger(kind, "count", count, 1);
  checkInteger(kind, "size", size, 1);
  if (paddingIdx !== undefined) checkInteger(kind, "paddingIdx", paddingIdx, 0, count - 1);
}

/** Bytes of a table's rows that a server keeps in memory. */
const defaultMemory = 4 * 2 ** 30;

/** What servers need to know of a table. */
export const servedTable = (count: number, size: number, options: EmbeddingOptions): ServedTable => {
  const { dtype = floatDType(), paddingIdx = -1, std = 1, admit = 1, evict = 0, memory = defaultMemory } = options;
  return { count, size, dtype, padding: paddingIdx, std, admit, evict, memory };
};

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
 * standard deviation `std`, 1 as in PyTorch, 0 for `paddingIdx`. Its gradient touches only the rows that were looked up, and a compiled step
 * updates only those if the optimizer allows it (docs/training.md, "Large embedding tables"). The table may be split by rows:
 * `layouts.named({ "0.weight": { model: 0 } })`; or on parameter servers, row by row: `{ on: "servers" }`.
 *
 * @throws HeddleError `option` when `count` or `size` is not a positive whole number; `dtype` for ids of floats; `value`, from the run, for an id out of range.
 */
export function embedding(
  count: number,
  size: number,
  options: EmbeddingOptions = {},
): Layer<{ readonly weight: Tensor }> {
  checkOptions("embedding", options, ["dtype", "paddingIdx", ...servedOptions]);
  checkTable("embedding", count, size, options);
  const { paddingIdx, on } = options;
  const place = {};
  return madeBy(
    positioned({
      kind: "embedding",
      init(key, input) {
        checkIds(input);
        const { dtype, ...served } = servedTable(count, size, options);
        const output: TensorType = { dtype, shape: [...input.shape, size] };
        const window = on === undefined ? undefined : tableWindow(key, input, { dtype, ...served }, place);
        if (window !== undefined) return { ...(window as { params: { weight: Tensor }; state: Tensors }), output };
        return { params: { weight: table(key, count, size, options) }, state: {}, output };
      },
      apply({ params, state }, x) {
        checkIds(x);
        const vectors = vectorsOf("embedding", { params, state }, x, servedTable(count, size, options), place);
        if (paddingIdx === undefined) return { y: vectors, state };
        return { y: select(isPadding(toIndices(x), paddingIdx), stopGradient(vectors), vectors), state };
      },
    }),
    "embedding",
    count,
    size,
    options,
  );
}
