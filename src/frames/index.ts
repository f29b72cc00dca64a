/** @module Frames: typed columns become the columns of a model by encoders that learn from records. */

export type { Encoder } from "./encoder.ts";
export { type CategoryOptions, type OneHotOptions, oneHot, ordinal, recode } from "./encoders/categories.ts";
export { type DateOptions, type DatePart, date } from "./encoders/dates.ts";
export { type BinOptions, bin, type FillOptions, impute, type ScaleOptions, scale } from "./encoders/numbers.ts";
export { type HashOptions, hash, type WordOptions, words } from "./encoders/words.ts";
export { type FitOptions, fit } from "./fit.ts";
export { type AnyFrame, Frame, type FrameColumns, type FrameRow, frameFrom } from "./frame.ts";
export type { Category } from "./sketches/counts.ts";
export {
  type Anomaly,
  type AnomalyOptions,
  anomalies,
  type ColumnSchema,
  type Schema,
  schemaFrom,
  schemaOf,
} from "./statistics/schema.ts";
export { type ColumnKind, type ColumnStatistics, type Statistics, statistics } from "./statistics/statistics.ts";
