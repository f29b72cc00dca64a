/** @module Encoders of numbers: missing ones filled in, scaled, in bins. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { Plain } from "../../util/text.ts";
import { isRecord } from "../../util/tree.ts";
import type { Encoded, Encoder, Kind, Learning } from "../encoder.ts";
import { Counts, type CountsData } from "../sketches/counts.ts";
import { Moments, type MomentsData } from "../sketches/moments.ts";
import { Quantiles, type QuantilesData } from "../sketches/quantiles.ts";
import { badValue, type Field, numberAt } from "../values.ts";
import { checkColumn, checkOneOf } from "./options.ts";

/** What stands in for a missing number. */
export interface FillOptions {
  /**
   * What stands in for a missing number: the mean, the median or the most frequent of the others, or a number; `"error"` (default): a
   * missing number is an error.
   */
  readonly impute?: "error" | "mean" | "median" | "mostFrequent" | number;
  /** Also make a number that is 1 where the value was missing, else 0; default false. */
  readonly indicator?: boolean;
}

/** Options of {@link scale}. */
export interface ScaleOptions extends FillOptions {
  /**
   * `"standard"` (default): mean 0 and variance 1; `"minMax"`: from 0 to 1; `"maxAbs"`: divided by the largest absolute value; `"robust"`:
   * the median is 0, and the distance between the quartiles 1; `"none"`: as they are.
   */
  readonly by?: "standard" | "minMax" | "maxAbs" | "robust" | "none";
}

/** Options of {@link bin}. */
export interface BinOptions extends FillOptions {
  /** Number of bins; default 5. */
  readonly bins?: number;
  /** Bins of equal width (`"width"`), or with equally many values (`"quantile"`, default). */
  readonly by?: "width" | "quantile";
  /** The bounds between bins, ascending, in the place of `bins` and `by`. */
  readonly edges?: readonly number[];
  /** The number of the bin (default), or a 1 in its place. */
  readonly as?: "number" | "oneHot";
}

const fills = ["error", "mean", "median", "mostFrequent"] as const;

function checkFill(what: string, { impute = "error", indicator = false }: FillOptions): void {
  if (typeof impute === "number") checkNumber(what, "impute", impute);
  else checkOneOf(what, "impute", impute, [...fills, "a number"]);
  if (typeof indicator !== "boolean")
    throw new HeddleError("option", `${what}: indicator must be true or false, got ${shown(indicator)}`);
}

/**
 * A number, scaled: `(x - offset) / spread`, as scikit-learn's `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` and `RobustScaler` have
 * it over what its `SimpleImputer` made. Makes f32. A column without spread is only moved.
 *
 * @example frames.scale("age", { impute: "median", indicator: true })
 */
export function scale<const Column extends string>(
  column: Column,
  options: ScaleOptions = {},
): Encoder<Column, number> {
  checkColumn("scale", column);
  checkOptions("scale", options, ["by", "impute", "indicator"]);
  checkFill("scale", options);
  const { by = "standard", impute = "error", indicator = false } = options;
  checkOneOf("scale", "by", by, ["standard", "minMax", "maxAbs", "robust", "none"]);
  return { kind: "scale", column, options: { by, impute, indicator } };
}

/**
 * A number as it is, missing ones filled in; as scikit-learn's `SimpleImputer`. Makes f32.
 *
 * @example frames.impute("fare", { impute: 0 })
 */
export function impute<const Column extends string>(
  column: Column,
  options: FillOptions = { impute: "mean" },
): Encoder<Column, number> {
  checkColumn("impute", column);
  checkOptions("impute", options, ["impute", "indicator"]);
  return scale(column, { by: "none", impute: "mean", ...options });
}

/**
 * The number of the bin in which a number lies, from 0, as scikit-learn's `KBinsDiscretizer` has it; numbers beyond the outermost
 * bounds are in the outermost bins. Makes f32.
 */
export function bin<const Column extends string>(column: Column, options: BinOptions = {}): Encoder<Column, number> {
  checkColumn("bin", column);
  checkOptions("bin", options, ["bins", "by", "edges", "as", "impute", "indicator"]);
  checkFill("bin", options);
  const { bins = 5, by = "quantile", edges = null, as = "number", impute = "error", indicator = false } = options;
  checkInteger("bin", "bins", bins, 2, 10_000);
  checkOneOf("bin", "by", by, ["width", "quantile"]);
  checkOneOf("bin", "as", as, ["number", "oneHot"]);
  if (edges !== null && !isAscending(edges))
    throw new HeddleError("option", `bin: edges must be ascending numbers, got ${shown(edges)}`);
  return { kind: "bin", column, options: { bins, by, edges, as, impute, indicator } };
}

const isAscending = (edges: unknown): edges is readonly number[] =>
  Array.isArray(edges) &&
  edges.length > 0 &&
  edges.every((edge, at) => Number.isFinite(edge) && (at === 0 || edge > edges[at - 1]));

/** Different numbers that are counted for the most frequent one. */
const mostNumbers = 2 ** 17;

interface NumberState {
  readonly missing: number;
  readonly moments: MomentsData;
  readonly quantiles: QuantilesData | null;
  readonly counts: CountsData | null;
}

/** Numbers of a column in one pass: only what the options need. */
class Numbers implements Learning {
  private missing = 0;
  private readonly moments = new Moments();
  private readonly quantiles: Quantiles | undefined;
  private readonly counts: Counts | undefined;
  private readonly column: string;
  private readonly isNoGap: boolean;
  private readonly result: (numbers: Gathered) => Plain;

  constructor(
    column: string,
    { fill, needsQuantiles }: { readonly fill: Plain; readonly needsQuantiles: boolean },
    result: (numbers: Gathered) => Plain,
  ) {
    this.column = column;
    this.isNoGap = fill === "error";
    this.quantiles = needsQuantiles || fill === "median" ? new Quantiles() : undefined;
    this.counts = fill === "mostFrequent" ? new Counts(mostNumbers) : undefined;
    this.result = result;
  }

  see(field: Field): void {
    for (let index = 0; index < field.length; index++) {
      const value = numberAt(field, index);
      if (Number.isNaN(value)) {
        if (this.isNoGap) throw missingNumber(field, index);
        this.missing++;
        continue;
      }
      if (!Number.isFinite(value)) throw badValue(field, index, `${value} has no place among numbers`);
      this.moments.add(value);
      this.quantiles?.add(value);
      this.counts?.add(value);
    }
  }

  merge(other: Plain): void {
    const { missing, moments, quantiles, counts } = other as unknown as NumberState;
    this.missing += missing;
    this.moments.merge(Moments.from(moments));
    if (quantiles !== null) this.quantiles?.merge(Quantiles.from(quantiles));
    if (counts !== null) this.counts?.merge(Counts.from(counts, mostNumbers));
  }

  toJSON(): Plain {
    const { missing, moments, quantiles, counts } = this;
    return {
      missing,
      moments: moments.toJSON() as unknown as Plain,
      quantiles: (quantiles?.toJSON() ?? null) as unknown as Plain,
      counts: (counts?.toJSON() ?? null) as unknown as Plain,
    };
  }

  finish(): Plain {
    const { column, missing, moments, quantiles, counts } = this;
    if (moments.count === 0)
      throw new HeddleError(
        "data",
        `frame: column "${column}" has no numbers${missing === 0 ? "" : ", all are missing"}`,
      );
    if (counts?.isFull === true)
      throw new HeddleError("data", `frame: column "${column}" has more than ${mostNumbers} different numbers`, {
        hint: 'impute by "median" or "mean"',
      });
    return this.result({ missing, moments, quantiles, counts });
  }
}

interface Gathered {
  readonly missing: number;
  readonly moments: Moments;
  readonly quantiles: Quantiles | undefined;
  readonly counts: Counts | undefined;
}

const missingNumber = (field: Field, index: number) =>
  badValue(field, index, "a number is missing", 'pass impute: "mean", "median", "mostFrequent" or a number');

/** What stands in for a missing number; null where that is an error. */
function filling(impute: Plain, { moments, quantiles, counts }: Gathered): number | null {
  if (typeof impute === "number") return impute;
  if (impute === "mean") return moments.mean;
  if (impute === "median") return quantiles?.at([0.5])[0] ?? null;
  // Of equally frequent numbers the smallest, as scikit-learn has it: `ranked` sorts them.
  if (impute === "mostFrequent") return (counts?.ranked()[0]?.[0] ?? null) as number | null;
  return null;
}

/** Offset and spread by which numbers are scaled, over all numbers including those that stand in for missing ones. */
function scaling(by: Plain, fill: number | null, { missing, moments, quantiles }: Gathered): [number, number] {
  const all = Moments.from(moments.toJSON());
  if (fill !== null) all.add(fill, missing);
  const { mean, variance, lowest, highest } = all;
  const spreadOf = (spread: number): number => (spread > 0 ? spread : 1);
  if (by === "standard") return [mean, spreadOf(isConstant(all) ? 0 : Math.sqrt(variance))];
  if (by === "minMax") return [lowest, spreadOf(highest - lowest)];
  if (by === "maxAbs") return [0, spreadOf(Math.max(Math.abs(lowest), Math.abs(highest)))];
  if (by !== "robust" || quantiles === undefined) return [0, 1];
  const whole = Quantiles.from(quantiles.toJSON());
  if (fill !== null) for (let count = 0; count < missing; count++) whole.add(fill);
  const [low, middle, high] = whole.at([0.25, 0.5, 0.75]) as [number, number, number];
  return [middle, spreadOf(high - low)];
}

const tooLarge = (column: string): HeddleError =>
  new HeddleError("data", `frame: column "${column}" has numbers whose spread is beyond f64`, {
    hint: 'scale by "maxAbs", or leave numbers out that are no measurements',
  });

/** Whether the spread is that of rounding, by scikit-learn's bound (`_is_constant_feature`). */
const isConstant = ({ count, mean, variance }: Moments): boolean =>
  Number.isFinite(variance) && variance <= count * Number.EPSILON * variance + (count * mean * Number.EPSILON) ** 2;

/** The names of what an encoder of numbers makes. */
const namesOf = (column: string, own: readonly string[], indicator: boolean): string[] => [
  ...own,
  ...(indicator ? [`${column} missing`] : []),
];

/** Goes through numbers, missing ones filled in and told. */
function eachNumber(
  field: Field,
  fill: number | null,
  use: (value: number, row: number, isMissing: boolean) => void,
): void {
  for (let row = 0; row < field.length; row++) {
    const value = numberAt(field, row);
    const isGap = Number.isNaN(value);
    if (isGap && fill === null) throw missingNumber(field, row);
    use(isGap ? (fill as number) : value, row, isGap);
  }
}

const isFill = (fill: unknown): fill is number | null => fill === null || Number.isFinite(fill);

export const scaleKind: Kind = {
  learn: (column, { by, impute = "error", indicator }) =>
    new Numbers(column, { fill: impute as Plain, needsQuantiles: by === "robust" }, (numbers) => {
      const fill = filling(impute as Plain, numbers);
      const [offset, spread] = scaling(by as Plain, fill, numbers);
      if (!Number.isFinite(offset) || !Number.isFinite(spread)) throw tooLarge(column);
      return { fill, offset, spread, indicator: indicator === true };
    }),
  read(column, learned) {
    if (!isRecord(learned)) return undefined;
    const { fill, offset, spread, indicator } = learned as { readonly [name: string]: unknown };
    const isWhole = isFill(fill) && Number.isFinite(offset) && Number.isFinite(spread) && spread !== 0;
    if (!isWhole || typeof indicator !== "boolean") return undefined;
    const [from, over] = [offset as number, spread as number];
    return {
      column,
      names: namesOf(column, [column], indicator),
      dtype: "f32",
      isVector: indicator,
      encode(field, { data, start, stride }) {
        eachNumber(field, fill, (value, row, isGap) => {
          const at = start + row * stride;
          data[at] = (value - from) / over;
          if (!Number.isFinite(data[at])) throw badValue(field, row, `${value}, scaled, is beyond f32`);
          if (indicator) data[at + 1] = isGap ? 1 : 0;
        });
      },
    };
  },
};

/** The bounds between bins; those that would leave a bin empty are left out. */
function innerEdges(
  column: string,
  options: { readonly [name: string]: Plain },
  { moments, quantiles }: Gathered,
): readonly number[] {
  const { bins, by, edges } = options;
  if (Array.isArray(edges)) return edges as readonly number[];
  const count = bins as number;
  const { lowest, highest } = moments;
  const shares = Array.from({ length: count + 1 }, (_unused, at) => at / count);
  const all =
    by === "width" || quantiles === undefined
      ? shares.map((share) => lowest + (highest - lowest) * share)
      : quantiles.at(shares);
  // scikit-learn's bound, below which a bin is too narrow.
  if (!all.every(Number.isFinite)) throw tooLarge(column);
  const wide = all.filter((edge, at) => at === 0 || edge - (all[at - 1] as number) > 1e-8);
  return wide.slice(1, -1);
}

export const binKind: Kind = {
  learn: (column, options) =>
    new Numbers(
      column,
      { fill: options["impute"] as Plain, needsQuantiles: options["by"] === "quantile" && options["edges"] === null },
      (numbers) => ({
        edges: innerEdges(column, options, numbers),
        as: options["as"] as Plain,
        fill: filling(options["impute"] as Plain, numbers),
        indicator: options["indicator"] === true,
      }),
    ),
  read(column, learned): Encoded | undefined {
    if (!isRecord(learned)) return undefined;
    const { edges, as, fill, indicator } = learned as { readonly [name: string]: unknown };
    const isWhole = Array.isArray(edges) && (edges.length === 0 || isAscending(edges)) && isFill(fill);
    if (!isWhole || (as !== "number" && as !== "oneHot") || typeof indicator !== "boolean") return undefined;
    const bounds = Float64Array.from(edges as number[]);
    const own =
      as === "number" ? [column] : Array.from({ length: bounds.length + 1 }, (_unused, at) => `${column} bin ${at}`);
    return {
      column,
      names: namesOf(column, own, indicator),
      dtype: "f32",
      isVector: as === "oneHot" || indicator,
      encode(field, { data, start, stride }) {
        eachNumber(field, fill, (value, row, isGap) => {
          const at = start + row * stride;
          let which = 0;
          while (which < bounds.length && value >= (bounds[which] as number)) which++;
          if (as === "number") data[at] = which;
          else for (let bit = 0; bit < own.length; bit++) data[at + bit] = bit === which ? 1 : 0;
          if (indicator) data[at + own.length] = isGap ? 1 : 0;
        });
      },
    };
  },
};
