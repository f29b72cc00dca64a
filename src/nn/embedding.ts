/** @module The embedding layer. */
import { isInteger } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { arange, gather, random, select, stopGradient, type Tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { type Layer, positioned } from "./layer.ts";

/** Options of {@link embedding}. */
export interface EmbeddingOptions {
  /** Of the vectors; default `"f32"`. */
  readonly dtype?: "f32" | "f64";
  /** Id of a row that begins as zeros and has no gradient. */
  readonly paddingIdx?: number;
}

/** Fresh vectors; the padding's are 0. */
function table(key: Tensor, count: number, size: number, { dtype = "f32", paddingIdx }: EmbeddingOptions): Tensor {
  const drawn = random.normal(random.foldIn(key, 0), [count, size], { dtype });
  return paddingIdx === undefined
    ? drawn
    : select(arange(count, { dtype: "i32" }).eq(paddingIdx).reshape([count, 1]), 0, drawn);
}

function checkTable(kind: string, count: number, size: number, { paddingIdx }: EmbeddingOptions): void {
  checkInteger(kind, "count", count, 1);
  checkInteger(kind, "size", size, 1);
  if (paddingIdx !== undefined) checkInteger(kind, "paddingIdx", paddingIdx, 0, count - 1);
}

function checkIds(input: TensorType): void {
  if (!isInteger(input.dtype))
    throw new HeddleError("dtype", `takes ids, which are whole numbers, got ${formatType(input)}`, {
      hint: 'cast the ids first: x => x.cast("i32")',
    });
}

const idsOf = (x: Tensor): Tensor => (x.dtype === "i32" ? x : x.cast("i32"));
const isPadding = (ids: Tensor, paddingIdx: number): Tensor => ids.eq(paddingIdx).reshape([...ids.shape, 1]);

/**
 * A vector for each id: `[…]` whole numbers (i32) in `[0, count)` to `[…, size]`. Parameter `weight` `[count, size]`, normal with
 * deviation 1 as in PyTorch, 0 for `paddingIdx`; its gradient is added up for the rows that were looked up. The table may be split by rows:
 * `layouts.named({ "0.weight": { model: 0 } })`.
 *
 * @throws HeddleError `option` when `count` or `size` is not a positive whole number; `value`, from the run, when an id lies outside.
 */
export function embedding(count: number, size: number, options: EmbeddingOptions = {}): Layer {
  checkOptions("embedding", options, ["dtype", "paddingIdx"]);
  checkTable("embedding", count, size, options);
  const { dtype = "f32", paddingIdx } = options;
  return positioned({
    kind: "embedding",
    init(key, input) {
      checkIds(input);
      const weight = table(key, count, size, options);
      return { params: { weight }, state: {}, output: { dtype, shape: [...input.shape, size] } };
    },
    apply({ params }, x) {
      const ids = idsOf(x);
      const found = gather(params["weight"] as Tensor, ids);
      if (paddingIdx === undefined) return { y: found, state: {} };
      return { y: select(isPadding(ids, paddingIdx), stopGradient(found), found), state: {} };
    },
  });
}

/** Options of {@link embeddingBag}. */
export interface EmbeddingBagOptions extends EmbeddingOptions {
  /** What is made of the vectors of a bag; default `"mean"`. Of no vectors it is 0. */
  readonly mode?: "sum" | "mean" | "max";
}

/**
 * One vector for each bag of ids: `[…, ids]` whole numbers (i32) in `[0, count)` to `[…, size]`. Ids that are `paddingIdx` count for
 * nothing, so bags may differ in size. Parameter `weight` `[count, size]`, whose gradient is added up for the rows that
 * were looked up, as that of {@link embedding}.
 *
 * @throws HeddleError `option` for an option out of range; `shape` for a scalar; `value`, from the run, when an id lies outside
 */
export function embeddingBag(count: number, size: number, options: EmbeddingBagOptions = {}): Layer {
  checkOptions("embeddingBag", options, ["dtype", "paddingIdx", "mode"]);
  checkTable("embeddingBag", count, size, options);
  const { dtype = "f32", paddingIdx, mode = "mean" } = options;
  if (!["sum", "mean", "max"].includes(mode))
    throw new HeddleError("option", `embeddingBag: mode must be sum, mean or max, got ${String(mode)}`);
  return positioned({
    kind: "embeddingBag",
    init(key, input) {
      checkIds(input);
      if (input.shape.length === 0) throw new HeddleError("shape", "takes bags […, ids], got a scalar");
      const weight = table(key, count, size, options);
      return { params: { weight }, state: {}, output: { dtype, shape: [...input.shape.slice(0, -1), size] } };
    },
    apply: ({ params }, x) => ({ y: bagged(params["weight"] as Tensor, idsOf(x), mode, paddingIdx), state: {} }),
  });
}

function bagged(weight: Tensor, ids: Tensor, mode: "sum" | "mean" | "max", paddingIdx: number | undefined): Tensor {
  const found = gather(weight, ids);
  const padding = paddingIdx === undefined ? undefined : isPadding(ids, paddingIdx);
  const without = (value: number): Tensor => (padding === undefined ? found : select(padding, value, found));
  if (ids.shape.at(-1) === 0) return found.sum(-2);
  if (mode === "max") {
    const largest = without(-Infinity).max(-2);
    return padding === undefined ? largest : select(padding.not().cast("i32").sum(-2).eq(0), 0, largest);
  }
  const sum = without(0).sum(-2);
  if (mode === "sum") return sum;
  if (padding === undefined) return sum.div(ids.shape.at(-1) as number);
  return sum.div(padding.not().cast(weight.dtype).sum(-2).maximum(1));
}
