/** @module Bags of embeddings: one vector for several ids. A bag is a row of ids, or a range of a list of ids that begins at an offset. */
import { cumsum, ones, segmentMax, segmentSum, select, type Tensor } from "../functions/index.ts";
import { lookedUp, rowsById, toIndices } from "../functions/indices.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType, sameShape, type TensorType } from "../ir/shape.ts";
import { checkTensor, valuesAtHand } from "../tensor/tensor.ts";
import { HeddleError, inWords, type OutsideIndex, retold, within } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { checkOptions } from "../util/options.ts";
import { checkIds, checkTable, type EmbeddingOptions, isPadding, servedTable, table } from "./embedding.ts";
import { type Applied, type ApplyOptions, type Layer, madeBy, positioned, type Variables } from "./layer.ts";
import { servedOptions, tableWindow, vectorsOf } from "./tables.ts";

/** How the vectors of a bag are combined. */
export type BagMode = "sum" | "mean" | "max";

/** Options of {@link embeddingBag}. */
export interface EmbeddingBagOptions extends EmbeddingOptions {
  /** How the vectors of a bag are combined; default `"mean"`. An empty bag gives 0. */
  readonly mode?: BagMode;
}

/** How ids are divided into bags. */
export interface Bags {
  /**
   * `[bags]` (i32): the ids are `[n]`, one bag after another, and bag b begins at position `offsets[b]`. Offsets ascend from 0
   * to at most n; a bag whose offset equals the next one is empty. Other offsets are an error (`value`), unless they are traced.
   * Default: each row of the ids is a bag.
   */
  readonly offsets?: Tensor | undefined;
  /** One float per id, by which the id's vector is multiplied; only with mode `"sum"`. Default 1. */
  readonly weights?: Tensor | undefined;
}

/** A layer whose `apply` takes offsets and weights, too. */
export interface EmbeddingBagLayer extends Layer {
  apply(variables: Variables, ids: Tensor, options?: ApplyOptions & Bags): Applied;
}

/**
 * One vector for each bag of ids: `[…, ids]` whole numbers (i32) in `[0, count)` to `[…, size]`; with `apply(…, ids, { offsets })`
 * ids `[n]` to `[bags, size]`, as PyTorch's `EmbeddingBag`, and with `{ weights }` each vector times its weight. Ids equal to
 * `paddingIdx` do not count, so bags may differ in size. Parameter `weight` `[count, size]`; its gradient touches only the rows that
 * were looked up, as that of {@link embedding}.
 *
 * @throws HeddleError `option` for an option out of range; `shape` for a scalar, or offsets and weights that do not fit; `value`,
 * from the run, for an id out of range, or an id before the first offset
 */
export function embeddingBag(count: number, size: number, options: EmbeddingBagOptions = {}): EmbeddingBagLayer {
  checkOptions("embeddingBag", options, ["dtype", "paddingIdx", "mode", ...servedOptions]);
  checkTable("embeddingBag", count, size, options);
  const { paddingIdx, mode = "mean", on } = options;
  const place = {};
  checkMode(mode);
  return madeBy(
    positioned(
      {
        kind: "embeddingBag",
        init(key, input) {
          checkIds(input);
          if (input.shape.length === 0) throw new HeddleError("shape", "takes bags […, ids], got a scalar");
          const served = servedTable(count, size, options);
          const output: TensorType = { dtype: served.dtype, shape: [...input.shape.slice(0, -1), size] };
          const window = on === undefined ? undefined : tableWindow(key, input, served, place);
          if (window !== undefined) return { ...window, output };
          return { params: { weight: table(key, count, size, options) }, state: {}, output };
        },
        apply(variables, x, applyOptions: ApplyOptions & Bags = {}) {
          const { offsets, weights } = applyOptions;
          const rows = (): Tensor => vectorsOf("embeddingBag", variables, x, servedTable(count, size, options), place);
          return { y: bagged(rows, x, { mode, paddingIdx, offsets, weights }), state: variables.state };
        },
      },
      ["offsets", "weights"],
    ),
    "embeddingBag",
    count,
    size,
    options,
  );
}

interface Settings extends Bags {
  readonly mode: BagMode;
  readonly paddingIdx: number | undefined;
}

/** Options of {@link embeddingBagOf}. */
export interface BagOptions extends Bags, Pick<EmbeddingBagOptions, "mode" | "paddingIdx"> {}

/**
 * PyTorch's `embedding_bag`: {@link embeddingBag} as a function of the ids and a table `[count, size]`.
 *
 * @param ids whole numbers (i32) `[…, ids]`, or `[n]` with `offsets`
 * @throws as {@link embeddingBag}
 */
export function embeddingBagOf(ids: Tensor, weight: Tensor, options: BagOptions = {}): Tensor {
  return within("embeddingBag", () => {
    checkTensor("embeddingBag", ids);
    checkTensor("embeddingBag", weight);
    checkOptions("embeddingBag", options, ["offsets", "weights", "mode", "paddingIdx"]);
    if (weight.shape.length !== 2)
      throw new HeddleError("shape", `embeddingBag: the table is [count, size], got ${formatType(weight)}`);
    checkIds(ids);
    const { mode = "mean", paddingIdx, offsets, weights } = options;
    checkMode(mode);
    checkTable("embeddingBag", weight.shape[0] as number, weight.shape[1] as number, options);
    const rows = (): Tensor =>
      lookedUp("embeddingBag", ids, weight.shape[0] as number, (found) => rowsById(weight, found));
    return bagged(rows, ids, { mode, paddingIdx, offsets, weights });
  });
}

function checkMode(mode: unknown): void {
  if (mode === "sum" || mode === "mean" || mode === "max") return;
  throw new HeddleError("option", `embeddingBag: mode must be sum, mean or max, got ${String(mode)}`);
}

function checkBags(ids: TensorType, { mode, offsets, weights }: Settings): void {
  if (ids.shape.length === 0) throw new HeddleError("shape", "takes bags […, ids], got a scalar");
  for (const [name, tensor] of Object.entries({ offsets, weights }))
    if (tensor !== undefined) checkTensor(`embeddingBag: ${name}`, tensor);
  if (offsets !== undefined && (offsets.dtype !== "i32" || offsets.shape.length !== 1 || ids.shape.length !== 1))
    throw new HeddleError(
      "shape",
      `offsets are i32 [bags], of ids [n]; got ${formatType(offsets)} and ids ${formatType(ids)}`,
    );
  if (offsets !== undefined) checkOffsets(offsets, ids.shape[0] as number);
  if (weights === undefined) return;
  if (mode !== "sum")
    throw new HeddleError("option", `weights go with the mode "sum", not ${mode}`, {
      hint: "divide the sums of weighted vectors by the sums of weights for a weighted mean",
    });
  if (!isFloat(weights.dtype) || !sameShape(weights.shape, ids.shape))
    throw new HeddleError("shape", `weights are floats, one per id ${formatType(ids)}, got ${formatType(weights)}`);
}

/** Checks offsets whose values are known. With traced offsets, ids before the first bag are an error of the run. */
function checkOffsets(offsets: Tensor, count: number): void {
  const hint = { hint: `bag b begins at id offsets[b]: they ascend from 0 to at most ${count}, the number of ids` };
  let previous = 0;
  valuesAtHand(offsets)?.forEach((value, bag) => {
    const offset = Number(value);
    if (bag === 0 && offset !== 0) throw new HeddleError("value", `offsets begin at ${offset}, not at 0`, hint);
    if (offset < previous)
      throw new HeddleError("value", `offsets[${bag}] is ${offset}, less than the ${previous} before it`, hint);
    if (offset > count)
      throw new HeddleError("value", `offsets[${bag}] is ${offset}, but there are ${count} ids`, hint);
    previous = offset;
  });
}

/** How the rows of ids, or the ids between offsets, are combined: vectors `[…ids, size]` to `[…bags, size]`. */
interface Combine {
  readonly sum: (vectors: Tensor) => Tensor;
  readonly max: (vectors: Tensor) => Tensor;
}

const wrongOffset =
  (count: number) =>
  (outside: OutsideIndex): Fault => {
    const { index, position } = outside;
    return inWords(`offsets[${position}] is ${index}${index < 0 ? "" : `, but there are ${count} ids`}`, outside);
  };
/** The first bag begins behind the first id. */
const beforeFirst = (outside: OutsideIndex): Fault =>
  inWords(`offsets do not begin at 0: id ${outside.position} is before the first bag`, outside);

/** The bag of each id: the number of bags that begin at the id's position or before it, minus one. */
function bagOf(ids: Tensor, offsets: Tensor): Tensor {
  const count = ids.shape[0] as number;
  const begin = retold("embeddingBag", wrongOffset(count), () =>
    segmentSum(ones(offsets.shape, { dtype: "i32" }), offsets, count + 1),
  );
  return cumsum(begin.slice([0], [count])).sub(1);
}

function combineOf(ids: Tensor, offsets: Tensor | undefined): Combine {
  if (offsets === undefined) return { sum: (vectors) => vectors.sum(-2), max: (vectors) => vectors.max(-2) };
  const bags = offsets.shape[0] as number;
  const bagOfId = bagOf(ids, offsets);
  return {
    sum: (vectors) => retold("embeddingBag", beforeFirst, () => segmentSum(vectors, bagOfId, bags)),
    max: (vectors) => retold("embeddingBag", beforeFirst, () => segmentMax(vectors, bagOfId, bags)),
  };
}

/** @param rows gives the vector of each id */
function bagged(rows: () => Tensor, x: Tensor, settings: Settings): Tensor {
  checkBags(x, settings);
  const { mode, paddingIdx, offsets, weights } = settings;
  const ids = toIndices(x);
  const combine = combineOf(ids, offsets);
  const embedded = rows();
  const padding = paddingIdx === undefined ? undefined : isPadding(ids, paddingIdx);
  const paddedWith = (value: number): Tensor => (padding === undefined ? embedded : select(padding, value, embedded));
  // The maximum of an empty row does not exist.
  if (offsets === undefined && ids.shape.at(-1) === 0) return embedded.sum(-2);
  // The number of ids of each bag, without padding.
  const counts = (): Tensor => {
    const column = [...ids.shape, 1];
    return combine.sum(
      padding === undefined ? ones(column, { dtype: embedded.dtype }) : padding.not().cast(embedded.dtype),
    );
  };
  const sameCount = padding === undefined && offsets === undefined;
  if (mode === "max") {
    const largest = combine.max(paddedWith(-Infinity));
    return sameCount ? largest : select(counts().eq(0), 0, largest);
  }
  const vectors = paddedWith(0);
  const allWeights = weights?.reshape([...ids.shape, 1]).cast(embedded.dtype);
  // Weights of padding are 0, whatever their values.
  const factors = allWeights === undefined || padding === undefined ? allWeights : select(padding, 0, allWeights);
  const sum = combine.sum(factors === undefined ? vectors : vectors.mul(factors));
  if (mode === "sum") return sum;
  return sameCount ? sum.div(ids.shape.at(-1) as number) : sum.div(counts().maximum(1));
}
