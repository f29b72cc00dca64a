/** @module Datasets: columns of rows, their order, and batches that are gathered ahead of the step that needs them. */
export * from "./browser.ts";
export { type FileValues, fileRanges } from "./file-ranges.ts";
export { type IdxDatasetOptions, type IdxOptions, idx, readIdx, readIdxHeader } from "./idx-file.ts";
export { type MnistOptions, mnist } from "./mnist.ts";
export { type StoredOptions, stored } from "./records/store.ts";
export { onWorkers, type WorkerOptions } from "./records/workers.ts";
export { type ArrowOptions, arrow } from "./sources/arrow.ts";
export type { Places } from "./sources/bytes.ts";
export { type CsvColumns, type CsvOptions, type CsvRow, type CsvType, csv, openCsv } from "./sources/csv.ts";
export type { FileOptions } from "./sources/files.ts";
export { type ImageRow, type ImagesOptions, images } from "./sources/images.ts";
export { type JsonLinesOptions, jsonLines } from "./sources/json-lines.ts";
export { type TextOptions, text } from "./sources/lines.ts";
export { openParquet, type ParquetOptions, parquet } from "./sources/parquet.ts";
export { type LibsvmOptions, libsvm, matrixMarket } from "./sources/sparse.ts";
export {
  type DuckDBConnection,
  type DuckDBRows,
  type PostgresClient,
  type SQLiteDatabase,
  type SqlConnection,
  type SqlOptions,
  sql,
} from "./sources/sql.ts";
export { tfrecord } from "./sources/tfrecord.ts";
export {
  type EncodeOptions,
  openTokenizer,
  type PaddedTextOptions,
  type PaddedTexts,
  type Tokenizer,
  type TokenizerOptions,
} from "./tokens/tokenizer.ts";
