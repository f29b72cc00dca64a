/** @module The embedding layer. */
import { isInteger } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { gather, random, type Tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { type Layer, positioned } from "./layer.ts";

/** Options of {@link embedding}. */
export interface EmbeddingOptions {
  /** Of the vectors; default `"f32"`. */
  readonly dtype?: "f32" | "f64";
}

/**
 * A vector for each id: `[…]` whole numbers (i32) in `[0, count)` to `[…, size]`. Parameter `weight` `[count, size]`, normal with
 * deviation 1 as in PyTorch; its gradient is added up for the rows that were looked up. The table may be split by rows:
 * `layouts.named({ "0.weight": { model: 0 } })`.
 *
 * @throws HeddleError `option` when `count` or `size` is not a positive whole number; `value`, from the run, when an id lies outside.
 */
export function embedding(count: number, size: number, options: EmbeddingOptions = {}): Layer {
  checkOptions("embedding", options, ["dtype"]);
  checkInteger("embedding", "count", count, 1);
  checkInteger("embedding", "size", size, 1);
  const { dtype = "f32" } = options;
  return positioned({
    kind: "embedding",
    init(key, input) {
      if (!isInteger(input.dtype))
        throw new HeddleError("dtype", `takes ids, which are whole numbers, got ${formatType(input)}`, {
          hint: 'cast the ids first: x => x.cast("i32")',
        });
      const weight = random.normal(random.foldIn(key, 0), [count, size], { dtype });
      return { params: { weight }, state: {}, output: { dtype, shape: [...input.shape, size] } };
    },
    apply: ({ params }, x) => ({
      y: gather(params["weight"] as Tensor, x.dtype === "i32" ? x : x.cast("i32")),
      state: {},
    }),
  });
}
