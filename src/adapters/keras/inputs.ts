/** @module Arrays that `fit`, `evaluate` and `predict` take, as datasets. */
import { type ArrayColumn, columnDType, Dataset, fromArrays, rowElements } from "../../data/index.ts";
import { checkInteger, checkNumber, HeddleError, isRecord, shown } from "../../extend/index.ts";
import { isTensor, type NumberArray, type Tensor, tensor } from "../../functions/index.ts";
import { isFloat } from "../../ir/index.ts";
import type { KnownLoss } from "./losses.ts";
import { severalHint } from "./told.ts";

/** Rows: a tensor whose first dim counts them, `{ shape, data }`, or nested arrays of numbers. */
export type Rows = Tensor | ArrayColumn | readonly RowValue[];

/** Numbers in any nesting, rows also as typed arrays. */
export type RowValue = number | boolean | NumberArray | readonly RowValue[];

async function columnOf(what: string, rows: Rows): Promise<ArrayColumn> {
  if (isTensor(rows)) return { shape: rows.shape, dtype: rows.dtype, data: await rows.data() };
  if (Array.isArray(rows) && !rows.some(isTensor)) return columnOf(what, tensor(rows as RowValue[]));
  if (typeof rows === "object" && rows !== null && "data" in rows) return rows as ArrayColumn;
  throw new HeddleError("argument", `${what} must be a tensor, { shape, data } or nested arrays, got ${shown(rows)}`, {
    ...(Array.isArray(rows) || (isRecord(rows) && Object.values(rows).every(isRows)) ? { hint: severalHint } : {}),
  });
}

const isRows = (value: unknown): boolean => isTensor(value) || (typeof value === "object" && value !== null);

/** A dataset of rows by column name; columns that are undefined are left out. */
export async function datasetOf(
  what: string,
  columns: { readonly [name: string]: Rows | undefined },
): Promise<Dataset> {
  const present: { [name: string]: ArrayColumn } = {};
  for (const [name, rows] of Object.entries(columns))
    if (rows !== undefined) present[name] = await columnOf(`${what}: ${name}`, rows);
  return fromArrays(present, { name: what });
}

/**
 * Refuses class numbers that have a fraction, such as one-hot rows or probabilities passed by mistake: a cast would
 * make other classes of them.
 *
 * @throws HeddleError `data` naming the first such row.
 */
export async function checkClasses(what: string, rows: Dataset, classes: KnownLoss["classes"]): Promise<void> {
  const column = rows.columns.get("y");
  if (classes === undefined || column === undefined || !isFloat(columnDType(column))) return;
  const each = rowElements(column);
  if (classes === "ofOne" && each !== 1) return;
  const { scale = 1, offset = 0 } = column.transform ?? {};
  const at = (await column.load()).findIndex((value: number) => !Number.isInteger(value * scale + offset));
  if (at < 0) return;
  const value = ((await column.load())[at] as number) * scale + offset;
  throw new HeddleError(
    "data",
    `${what}: row ${Math.floor(at / each)} of y is ${value}, which is no class: classes are whole numbers`,
    {
      hint: "for probabilities and one-hot rows take categoricalCrossEntropy, or softmaxCrossEntropy where the model gives logits; for numbers take mse",
    },
  );
}

/** Validation data: `[x, y]`, `[x, y, sampleWeight]`, or a dataset. */
export type ValidationData = Dataset | readonly [Rows, Rows] | readonly [Rows, Rows, Rows];

/** Validation data as a dataset. */
export async function validationOf(data: ValidationData): Promise<Dataset> {
  if (data instanceof Dataset) return data;
  if (!Array.isArray(data) || data.length < 2 || data.length > 3)
    throw new HeddleError(
      "option",
      `fit: validationData must be a dataset, [x, y] or [x, y, sampleWeight], got ${shown(data)}`,
    );
  const [x, y, weight] = data as readonly [Rows, Rows, Rows?];
  return datasetOf("validationData", { x, y, weight });
}

/**
 * The dataset in its own batches, or in batches of `batchSize` (default 32). @throws HeddleError `option` where both
 * are given.
 */
export function inBatches(what: string, dataset: Dataset, batchSize: number | undefined): Dataset {
  if (batchSize !== undefined) checkInteger(what, "batchSize", batchSize, 1);
  if (dataset.batchSize === undefined) return dataset.batch(Math.min(batchSize ?? 32, Math.max(1, dataset.length)));
  if (batchSize === undefined) return dataset;
  throw new HeddleError("option", `${what}: the dataset has batches of ${dataset.batchSize} already`, {
    hint: "leave out batchSize",
  });
}

/**
 * Splits a dataset into its first rows and the last `share` of its rows, before any shuffle, as Keras does. @throws
 * HeddleError `option` where a part would be empty.
 */
export function splitOff(dataset: Dataset, share: number): readonly [Dataset, Dataset] {
  checkNumber("fit", "validationSplit", share, 0, 1);
  const first = Math.floor(dataset.length * (1 - share));
  if (first < 1 || first === dataset.length)
    throw new HeddleError("option", `fit: validationSplit ${share} of ${dataset.length} rows leaves one part empty`);
  return [dataset.take(first), dataset.skip(first)];
}
