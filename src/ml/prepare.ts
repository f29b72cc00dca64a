/** @module Features made ready: scaling, what is missing filled in, categories as numbers. */

import { dense, entries, evaluate, Matrix } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { featuresOf, featuresWithGaps, type MatrixData, rowVector } from "./data.ts";
import {
  checkChoice,
  defineEstimator,
  defineKind,
  type Estimator,
  learnt,
  type Model,
  type ModelState,
  type Note,
  type Transformer,
} from "./model.ts";

/** A fitted scaling: it takes off `shift` and divides by `scale`, a number for each feature. */
export interface Scaling extends Transformer {
  readonly shift: Matrix;
  readonly scale: Matrix;
  /** The features before scaling. */
  inverseTransform(z: MatrixData): Matrix;
}

const scaler = <Options extends object>(
  name: string,
  defaults: Options,
  learn: (x: Matrix, options: Options) => { readonly shift: Matrix; readonly scale: Matrix },
) =>
  defineEstimator<Scaling, Options>({
    name,
    defaults,
    learn: (data, _y, options) => {
      const { shift, scale } = learn(featuresOf(name, data), options);
      // A feature that does not vary stays as it is.
      return { shift, scale: rowVector(scale.dataSync().map((value) => (value === 0 ? 1 : value))) };
    },
    model: (state) => {
      const [shift, scale] = [learnt(state, "shift"), learnt(state, "scale")];
      return {
        shift,
        scale,
        transform: (x) => featuresOf(name, x, shift.columns).sub(shift).div(scale),
        inverseTransform: (z) => featuresOf(name, z, shift.columns).mul(scale).add(shift),
      };
    },
  });

/** Scales each feature to mean 0 and variance 1. */
export const standardScaler: (options?: Partial<object>) => Estimator<Scaling, object> = scaler(
  "standardScaler",
  {},
  (x) => {
    const [shift, scale] = [x.mean(0), x.std(0)];
    evaluate(shift, scale);
    // The deviation of a constant is rounding of its mean.
    const [means, deviations] = [shift.dataSync(), scale.dataSync()];
    const kept = deviations.map((value, at) =>
      value <= 10 * Number.EPSILON * Math.abs(means[at] as number) ? 0 : value,
    );
    return { shift, scale: rowVector(kept) };
  },
);

/** Options of {@link minMaxScaler}. */
export interface MinMaxOptions {
  /** What the least and the largest number of each feature become; default [0, 1]. */
  readonly range: readonly [number, number];
}

/** Scales each feature linearly to a range. @throws HeddleError `option` for a range that is empty */
export const minMaxScaler: (options?: Partial<MinMaxOptions>) => Estimator<Scaling, MinMaxOptions> = scaler(
  "minMaxScaler",
  { range: [0, 1] as readonly [number, number] },
  (x, { range }) => {
    const [low, high] = Array.isArray(range) ? (range as readonly [number, number]) : [Number.NaN, Number.NaN];
    if (!(low < high)) throw new HeddleError("option", `minMaxScaler: range must be [low, high], got ${shown(range)}`);
    const [least, most] = [x.min(0).dataSync(), x.max(0).dataSync()];
    const scale = most.map((value, at) => {
      const width = value - (least[at] as number);
      return (width === 0 ? 1 : width) / (high - low);
    });
    return { shift: rowVector(least.map((value, at) => value - low * (scale[at] as number))), scale: rowVector(scale) };
  },
);

/** The number below which this part of sorted numbers lies, between neighbours by a line, as NumPy's `quantile`. */
function quantile(sorted: Float64Array, part: number): number {
  const at = part * (sorted.length - 1);
  const low = Math.floor(at);
  const below = sorted[low] as number;
  return below + (at - low) * ((sorted[Math.min(low + 1, sorted.length - 1)] as number) - below);
}

const sortedColumn = (x: Matrix, column: number, keep: (value: number) => boolean = () => true): Float64Array => {
  const data = x.dataSync();
  return Float64Array.from({ length: x.rows }, (_unused, row) => data[row * x.columns + column] as number)
    .filter(keep)
    .sort();
};

/** Takes off the median and divides by the distance of the quartiles, which outliers hardly move. */
export const robustScaler: (options?: Partial<object>) => Estimator<Scaling, object> = scaler(
  "robustScaler",
  {},
  (x) => {
    const columns = Array.from({ length: x.columns }, (_unused, column) => sortedColumn(x, column));
    return {
      shift: rowVector(columns.map((sorted) => quantile(sorted, 0.5))),
      scale: rowVector(columns.map((sorted) => quantile(sorted, 0.75) - quantile(sorted, 0.25))),
    };
  },
);

/** Options of {@link imputer}. */
export interface ImputerOptions {
  /** What NaN becomes: the `"mean"` (default), the `"median"` or the `"mostFrequent"` number of its feature, or a number. */
  readonly strategy: "mean" | "median" | "mostFrequent" | number;
}

const fillers: Readonly<Record<string, (sorted: Float64Array) => number>> = {
  mean: (sorted) => sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
  median: (sorted) => quantile(sorted, 0.5),
  mostFrequent: (sorted) => {
    let [best, most, run] = [sorted[0] as number, 0, 0];
    for (const [at, value] of sorted.entries()) {
      run = at > 0 && sorted[at - 1] === value ? run + 1 : 1;
      if (run > most) [best, most] = [value, run];
    }
    return best;
  },
};

/** Fills in NaN. @throws HeddleError `value` when a feature has only NaN, and for infinities */
export const imputer: (options?: Partial<ImputerOptions>) => Estimator<Transformer, ImputerOptions> = defineEstimator<
  Transformer,
  ImputerOptions
>({
  name: "imputer",
  defaults: { strategy: "mean" },
  check: ({ strategy }) => {
    if (typeof strategy === "number") checkNumber("imputer", "strategy", strategy);
    else checkChoice("imputer", "strategy", strategy, Object.keys(fillers));
  },
  learn: (data, _y, { strategy }) => {
    const x = featuresWithGaps("imputer", data);
    const values = Array.from({ length: x.columns }, (_unused, column) => {
      if (typeof strategy === "number") return strategy;
      const sorted = sortedColumn(x, column, (value) => !Number.isNaN(value));
      if (sorted.length === 0) throw new HeddleError("value", `imputer: feature ${column} has no number, only NaN`);
      return (fillers[strategy] as (sorted: Float64Array) => number)(sorted);
    });
    return { values: rowVector(values) };
  },
  model: (state) => {
    const values = learnt(state, "values").dataSync();
    return {
      transform: (data) => {
        const x = featuresWithGaps("imputer", data, values.length);
        const filled = x
          .dataSync()
          .map((value, at) => (Number.isNaN(value) ? (values[at % x.columns] as number) : value));
        return dense(filled, x.rows, x.columns);
      },
    };
  },
});

/** A category: a text, a number or a truth value. */
export type Category = string | number | boolean;

/** Rows of categories, a column for each feature. */
export type Categories = readonly (readonly Category[])[];

/** Options of encoders. */
export interface EncoderOptions {
  /** What becomes of a category that the examples did not have: an `"error"` (default), or zeros, -1 as an ordinal (`"ignore"`). */
  readonly unknown?: "error" | "ignore";
}

/** Fitted categories. */
export interface Encoding extends Model {
  /** The categories of each feature, in the order of their numbers. */
  readonly categories: readonly (readonly Category[])[];
  transform(rows: Categories | Matrix): Matrix;
  inverseTransform(z: MatrixData): Category[][];
}

/** An encoder, which learns which categories there are. In a pipeline it comes first. */
export interface Encoder {
  readonly kind: string;
  readonly options: EncoderOptions;
  /** Of a matrix its numbers are the categories. */
  fit(rows: Categories | Matrix): Encoding;
  /** The same encoder with some options changed. @throws HeddleError `option` */
  with(options: EncoderOptions): Encoder;
}

const isCategory = (value: unknown): value is Category =>
  typeof value === "string" || typeof value === "boolean" || (typeof value === "number" && !Number.isNaN(value));

function checkRows(what: string, given: unknown, columns?: number): Categories {
  const rows = given instanceof Matrix ? given.arraySync() : given;
  const list = rows as Categories;
  if (!Array.isArray(rows) || rows.length === 0 || !rows.every((row) => Array.isArray(row) && row.length > 0))
    throw new HeddleError("argument", `${what}: takes rows of categories, got ${shown(rows)}`, {
      hint: 'such as [["red", 2], ["green", 3]]',
    });
  const width = columns ?? (list[0] as readonly Category[]).length;
  for (const [at, row] of list.entries()) {
    if (row.length !== width)
      throw new HeddleError("shape", `${what}: row ${at} has ${plural(row.length, "feature")}, not ${width}`);
    const odd = row.findIndex((value) => !isCategory(value));
    if (odd >= 0) throw new HeddleError("value", `${what}: row ${at} has ${shown(row[odd])} as feature ${odd}`);
  }
  return list;
}

const byOrder = (a: Category, b: Category): number =>
  typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a < typeof b ? -1 : 1;

function encodingOf(kind: string, state: ModelState, options: EncoderOptions): Encoding {
  const categories = state["categories"] as Note as readonly (readonly Category[])[];
  const places = categories.map((list) => new Map(list.map((category, place) => [category, place])));
  const placeOf = (column: number, category: Category): number => {
    const place = places[column]?.get(category);
    if (place !== undefined) return place;
    if (options.unknown === "ignore") return -1;
    throw new HeddleError("value", `${kind}: feature ${column} has ${shown(category)}, which no example had`, {
      hint: 'unknown: "ignore" takes it',
    });
  };
  const coded = (rows: Categories | Matrix): number[][] =>
    checkRows(kind, rows, categories.length).map((row) => row.map((category, column) => placeOf(column, category)));
  const methods = kind === "oneHotEncoder" ? oneHot(categories, coded) : ordinal(categories, coded);
  return { kind, options, state, categories, ...methods };
}

/** The place of each category; of one that is not known -1. */
type Coder = (rows: Categories | Matrix) => number[][];

type Methods = Pick<Encoding, "transform" | "inverseTransform">;

function ordinal(categories: Encoding["categories"], coded: Coder): Methods {
  return {
    transform: (rows) => {
      const places = coded(rows);
      return dense(Float64Array.from(places.flat()), places.length, categories.length);
    },
    inverseTransform: (data) =>
      featuresOf("ordinalEncoder", data, categories.length)
        .arraySync()
        .map((row) => row.map((place, column) => categoryAt("ordinalEncoder", categories, column, place))),
  };
}

function oneHot(categories: Encoding["categories"], coded: Coder): Methods {
  const firsts: number[] = [];
  let width = 0;
  for (const list of categories) {
    firsts.push(width);
    width += list.length;
  }
  return {
    transform: (rows) => {
      const [at, to]: [number[], number[]] = [[], []];
      const all = coded(rows);
      for (const [row, places] of all.entries())
        for (const [column, place] of places.entries())
          if (place >= 0) {
            at.push(row);
            to.push((firsts[column] as number) + place);
          }
      return entries(new Float64Array(at.length).fill(1), at, to, [all.length, width]);
    },
    inverseTransform: (data) =>
      featuresOf("oneHotEncoder", data, width)
        .arraySync()
        .map((row) =>
          categories.map((list, column) => {
            const part = row.slice(firsts[column], (firsts[column] as number) + list.length);
            return categoryAt("oneHotEncoder", categories, column, part.indexOf(Math.max(...part)));
          }),
        ),
  };
}

function categoryAt(what: string, categories: Encoding["categories"], column: number, place: number): Category {
  const category = categories[column]?.[place];
  if (category === undefined) throw new HeddleError("value", `${what}: feature ${column} has no category ${place}`);
  return category;
}

function encoder(kind: string): (options?: EncoderOptions) => Encoder {
  defineKind(kind, (state, options) => encodingOf(kind, state, options));
  const make = (options: EncoderOptions = {}): Encoder => {
    checkOptions(kind, options, ["unknown"]);
    if (options.unknown !== undefined) checkChoice(kind, "unknown", options.unknown, ["error", "ignore"]);
    return {
      kind,
      options,
      with: (changed) => make({ ...options, ...asRecord(kind, changed) }),
      fit: (rows) => {
        const given = checkRows(kind, rows);
        const width = (given[0] as readonly Category[]).length;
        const categories = Array.from({ length: width }, (_unused, column) =>
          [...new Set(given.map((row) => row[column] as Category))].sort(byOrder),
        );
        return encodingOf(kind, { categories }, options);
      },
    };
  };
  return make;
}

/** A column of 0 and 1 for each category of each feature; the matrix keeps the ones alone, as entries. */
export const oneHotEncoder: (options?: EncoderOptions) => Encoder = encoder("oneHotEncoder");

/** The place of each category among those of its feature, ascending: texts by their characters. Of labels, rows of one category. */
export const ordinalEncoder: (options?: EncoderOptions) => Encoder = encoder("ordinalEncoder");
