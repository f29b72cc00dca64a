/** @module Finds NaN and infinite values in the columns of a batch whose loss is not finite: such data are the most common cause. */
import type { Dataset } from "../data/browser.ts";
import { isFloat } from "../ir/dtype.ts";
import { sizeOf } from "../ir/shape.ts";
import type { FedBatch } from "./feed.ts";

/** Describes the first value of a batch that is not finite, with column and row; undefined if every value is finite. */
export function badValue(batch: Pick<FedBatch, "sources" | "stored">, data: Dataset): string | undefined {
  for (const [name, { dtype, shape }] of data.columns) {
    const values = isFloat(dtype) ? (batch.stored(name) as ArrayLike<number> | undefined) : undefined;
    if (values === undefined) continue;
    const width = sizeOf(shape.slice(1));
    for (const [row, source] of batch.sources.entries())
      for (let position = 0; position < width; position++) {
        const value = values[source * width + position] as number;
        if (!Number.isFinite(value))
          return `column '${name}' has ${value}${positionIn(shape.slice(1), position)} in row ${source} of the data (row ${row} of the batch)`;
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
