/** @module Finds NaN and infinite values in the columns of a batch whose loss is not finite: such data are the most common cause. */
import type { Dataset } from "../data/browser.ts";
import { isFloat } from "../ir/dtype.ts";
import type { FedBatch } from "./feed.ts";

/** Describes the first value of a batch that is not finite, with column and row; undefined if every value is finite. */
export function badValue(batch: Pick<FedBatch, "sources" | "stored">, data: Dataset): string | undefined {
  for (const [name, { dtype, shape }] of data.columns) {
    if (!isFloat(dtype)) continue;
    for (const [row, source] of batch.sources.entries()) {
      const values = batch.stored(name, row) as ArrayLike<number> | undefined;
      for (let position = 0; position < (values?.length ?? 0); position++) {
        const value = values?.[position] as number;
        if (!Number.isFinite(value))
          return `column '${name}' has ${value}${positionIn(shape.slice(1), position)} in row ${source} of the data (row ${row} of the batch)`;
      }
    }
  }
  return undefined;
}

/** The position within a row, by its dims: `" at [2,5]"`. */
function positionIn(shape: readonly number[], position: number): string {
  if (shape.length === 0) return "";
  let rest = position;
  const indices = [...shape].reverse().map((size) => {
    const index = rest % size;
    rest = Math.floor(rest / size);
    return index;
  });
  return ` at [${indices.reverse().join(",")}]`;
}
