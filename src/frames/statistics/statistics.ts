/** @module Statistics of records in one streaming pass, in memory that does not depend on their number; those of parts merge. */
import type { Records } from "../../data/browser.ts";
import type { Piece, Values } from "../../data/records/piece.ts";
import { nodeOf } from "../../data/records/records.ts";
import { checkOptions } from "../../util/options.ts";
import { type Category, Counts } from "../sketches/counts.ts";
import { Distinct } from "../sketches/distinct.ts";
import { Moments } from "../sketches/moments.ts";
import { Quantiles } from "../sketches/quantiles.ts";
import { isMissing } from "../values.ts";

/** What the values of a column are; `"mixed"` where they are of several kinds, `"empty"` where all are missing. */
export type ColumnKind = "whole" | "number" | "truth" | "text" | "date" | "vector" | "mixed" | "empty";

/** Values that are counted by column: beyond, counts are those of frequent values alone. */
const mostCounted = 1000;
/** Frequent values that are told. */
const mostTop = 100;

/** What is known of a column. */
export interface ColumnStatistics {
  readonly name: string;
  readonly kind: ColumnKind;
  /** Values that are not missing. */
  readonly count: number;
  /** Values that are null, undefined, NaN, an empty text or a date that is none. */
  readonly missing: number;
  /** How many different values there are: exact up to 1,000, else within some 1.6 % (HyperLogLog). */
  readonly distinct: number;
  /**
   * Of numbers; of the lengths of texts and vectors; of dates in milliseconds since 1970. Undefined where there is none, and for
   * `"mixed"` columns.
   */
  readonly numbers:
    | {
        readonly lowest: number;
        readonly highest: number;
        readonly mean: number;
        /** Over all values, divided by their count. */
        readonly variance: number;
        /** The deciles from 0 to 1: eleven numbers. */
        readonly deciles: readonly number[];
        /** Shares of the values in ten bins of equal width from the lowest to the highest. */
        readonly histogram: readonly number[];
      }
    | undefined;
  /**
   * The most frequent values with their counts, at most 100; empty for vectors. Dates are texts of ISO 8601, and whole numbers beyond
   * 2^53 texts of their digits.
   */
  readonly top: readonly (readonly [Category, number])[];
  /** Whether `top` has every value, with its exact count. */
  readonly isWhole: boolean;
}

/** Statistics of records. */
export interface Statistics {
  readonly rows: number;
  readonly columns: readonly ColumnStatistics[];
}

/** A column while it is read. */
class ColumnSummary {
  private count = 0;
  private missing = 0;
  private readonly kinds = new Map<ColumnKind, number>();
  private readonly moments = new Moments();
  private readonly quantiles = new Quantiles();
  private readonly counts = new Counts(mostCounted);
  private readonly distinct = new Distinct();

  see(values: Values, length: number): void {
    for (let row = 0; row < length; row++) {
      const value = values[row] as unknown;
      if (isMissing(value) || (value instanceof Date && Number.isNaN(value.getTime()))) this.missing++;
      else this.add(value);
    }
  }

  /** Rows in which the column is absent. */
  skip(rows: number): void {
    this.missing += rows;
  }

  private add(value: unknown): void {
    this.count++;
    const kind = kindOf(value);
    this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + 1);
    if (kind === "vector") {
      this.measure((value as ArrayLike<unknown>).length);
      return;
    }
    this.measure(typeof value === "string" ? value.length : Number(value));
    const category = categoryOf(value);
    this.counts.add(category);
    this.distinct.add(`${typeof category === "string" ? "s" : "n"}${category}`);
  }

  private measure(value: number): void {
    if (!Number.isFinite(value)) return;
    this.moments.add(value);
    this.quantiles.add(value);
  }

  merge(other: ColumnSummary): void {
    this.count += other.count;
    this.missing += other.missing;
    for (const [kind, count] of other.kinds) this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + count);
    this.moments.merge(other.moments);
    this.quantiles.merge(other.quantiles);
    this.counts.merge(other.counts);
    this.distinct.merge(other.distinct);
  }

  finish(name: string): ColumnStatistics {
    const { count, missing, moments, quantiles, counts, distinct } = this;
    const kinds = [...this.kinds.keys()];
    const isNumber = kinds.every((kind) => kind === "whole" || kind === "number");
    const [only] = kinds;
    const kind = only === undefined ? "empty" : kinds.length === 1 ? only : isNumber ? "number" : "mixed";
    const { lowest, highest, mean, variance } = moments;
    const shares = Array.from({ length: 11 }, (_unused, at) => at / 10);
    const bounds = shares.slice(1).map((share) => lowest + (highest - lowest) * share);
    const below = quantiles.below([...bounds.slice(0, -1), Number.POSITIVE_INFINITY]);
    const isWhole = !counts.isFull && counts.size <= mostTop;
    return {
      name,
      kind,
      count,
      missing,
      distinct: counts.isFull ? distinct.estimate : counts.size,
      numbers:
        moments.count === 0 || kind === "mixed"
          ? undefined
          : {
              lowest,
              highest,
              mean,
              variance,
              deciles: [lowest, ...quantiles.at(shares.slice(1, -1)), highest],
              histogram: below.map((share, at) => share - (at === 0 ? 0 : (below[at - 1] as number))),
            },
      top: counts.ranked().slice(0, mostTop),
      isWhole,
    };
  }
}

/** What a value counts as. */
function categoryOf(value: unknown): Category {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return value as Category;
}

function kindOf(value: unknown): ColumnKind {
  if (typeof value === "number") return Number.isInteger(value) ? "whole" : "number";
  if (typeof value === "bigint") return "whole";
  if (typeof value === "boolean") return "truth";
  if (typeof value === "string") return "text";
  if (value instanceof Date) return "date";
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  return isList ? "vector" : "mixed";
}

/** What is gathered while records are read; summaries of parts merge to that of all. */
export class Summary {
  private rows = 0;
  private readonly columns = new Map<string, ColumnSummary>();

  /** Adds the records of a piece. */
  see(piece: Piece): void {
    for (const [name, values] of Object.entries(piece.columns)) this.column(name).see(values, piece.length);
    for (const [name, column] of this.columns) if (!Object.hasOwn(piece.columns, name)) column.skip(piece.length);
    this.rows += piece.length;
  }

  /** A column; what was read before has no value of it. */
  private column(name: string): ColumnSummary {
    const known = this.columns.get(name);
    if (known !== undefined) return known;
    const made = new ColumnSummary();
    made.skip(this.rows);
    this.columns.set(name, made);
    return made;
  }

  /** Adds all records of another summary. */
  merge(other: Summary): void {
    for (const name of other.columns.keys()) this.column(name).merge(other.columns.get(name) as ColumnSummary);
    for (const [name, column] of this.columns) if (!other.columns.has(name)) column.skip(other.rows);
    this.rows += other.rows;
  }

  /** The statistics of all that was added. */
  finish(): Statistics {
    return { rows: this.rows, columns: [...this.columns].map(([name, column]) => column.finish(name)) };
  }
}

/**
 * Statistics of all records of epoch 0, in one pass: count, missing, bounds, mean and variance (Welford's update), deciles (a KLL
 * sketch), number of different values (HyperLogLog) and frequent ones (Misra and Gries) of each column.
 *
 * @example const { rows, columns } = await frames.statistics(data.csv("people.csv"));
 */
export async function statistics<Row extends object>(
  records: Records<Row>,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Statistics> {
  checkOptions("statistics", options, ["signal"]);
  const node = nodeOf("statistics")(records);
  const summary = new Summary();
  for await (const piece of node.read({ epoch: 0, seed: 0, from: 0, signal: options.signal })) summary.see(piece);
  return summary.finish();
}
