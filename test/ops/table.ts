/** @module The one table of ops: every executor, planned or not, runs it. Sizes that may be split are divisible by 4. */
import { inDouble, type Row } from "../support/row.ts";
import { algebraTable } from "./rows/algebra.ts";
import { attentionTable } from "./rows/attention.ts";
import { bitsTable } from "./rows/bits.ts";
import { castTable } from "./rows/cast.ts";
import { compressionTable } from "./rows/compression.ts";
import { controlTable } from "./rows/control.ts";
import { cumulativeTable } from "./rows/cumulative.ts";
import { functionTable } from "./rows/functions.ts";
import { lookupTable } from "./rows/lookup.ts";
import { narrowRows } from "./rows/narrow.ts";
import { narrowConvRows } from "./rows/narrow-conv.ts";
import { narrowWeightRows } from "./rows/narrow-weights.ts";
import { normalizeTable } from "./rows/normalize.ts";
import { placedTable } from "./rows/placed.ts";
import { productTable } from "./rows/product.ts";
import { reduceTable } from "./rows/reduce.ts";
import { reportTable } from "./rows/reports.ts";
import { scalarRows } from "./rows/scalar.ts";
import { sparseTable } from "./rows/sparse.ts";
import { structureRows } from "./rows/structure.ts";
import { transformTable } from "./rows/transform.ts";
import { uniqueTable } from "./rows/unique.ts";
import { windowTable } from "./rows/windows.ts";

/** Rows as written: floats are f32. */
export const baseRows: readonly Row[] = [
  ...scalarRows,
  ...functionTable,
  ...castTable,
  ...structureRows,
  ...reduceTable,
  ...cumulativeTable,
  ...windowTable,
  ...productTable,
  ...narrowRows,
  ...narrowConvRows,
  ...narrowWeightRows,
  ...lookupTable,
  ...sparseTable,
  ...controlTable,
  ...reportTable,
  ...algebraTable,
  ...transformTable,
  ...attentionTable,
  ...normalizeTable,
  ...uniqueTable,
  ...bitsTable,
  ...compressionTable,
  ...placedTable,
];

/** All rows, those with floats in f64 too. */
export const rows: readonly Row[] = baseRows.flatMap((row) => {
  const double = inDouble(row);
  return double === undefined ? [row] : [row, double];
});

/** Rows that say how they may be split over one mesh axis. */
export const shardedRows: readonly (Row & { readonly shardings: readonly string[] })[] = baseRows.flatMap((row) =>
  row.shardings === undefined ? [] : [{ ...row, shardings: row.shardings }],
);

/** Ops without a row, and why. */
export const withoutRow: { readonly [op: string]: string } = {
  parameter: "stands for an argument: every row has some",
  element: "picks a result of another op; the rows of ops with several results hold it",
  axisIndex: "is the coordinate of a device; tested with the planner",
  allReduce: "needs several devices; tested with the planner and the runtime",
  allGather: "needs several devices; tested with the planner and the runtime",
  reduceScatter: "needs several devices; tested with the planner and the runtime",
  exchange: "needs several devices; tested with the planner and the runtime",
  gatherPart: "holds a part of a table; tested with the planner",
  scatterAddPart: "holds a part of a table; tested with the planner",
  allToAll: "needs several devices; tested with the planner and the runtime",
  send: "needs two devices and two programs; tested with pipelines",
  receive: "needs two devices and two programs; tested with pipelines",
};

export { type Evaluate, type Row, rowGraph, rowInputs, runRow } from "../support/row.ts";
