/** @module What records were like when all was well, as data, and how others differ from it: anomalies and drift. */
import { HeddleError } from "../../util/errors.ts";
import { asRecord, checkNumber, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { isRecord } from "../../util/tree.ts";
import type { Category } from "../sketches/counts.ts";
import type { ColumnKind, ColumnStatistics, Statistics } from "./statistics.ts";

const format = 1;

/** A column as a schema has it. */
export interface ColumnSchema {
  readonly name: string;
  readonly kind: ColumnKind;
  /** Share of the rows in which it is missing. */
  readonly missing: number;
  /** Bounds and deciles of numbers, of the lengths of texts and vectors, or of dates in milliseconds since 1970. */
  readonly numbers: { readonly lowest: number; readonly highest: number; readonly deciles: readonly number[] } | null;
  /** All values of texts and truth values with their shares, where there are at most 100 that come twice on average; else null. */
  readonly categories: readonly (readonly [Category, number])[] | null;
}

/** What records are to be like. */
export interface Schema {
  readonly format: number;
  readonly columns: readonly ColumnSchema[];
}

/** Where records differ from a schema. */
export interface Anomaly {
  readonly column: string;
  readonly kind: "absent" | "new" | "kind" | "missing" | "bounds" | "unseen" | "drift";
  readonly text: string;
}

/** Options of {@link anomalies}. */
export interface AnomalyOptions {
  /**
   * The largest population stability index between the values of a column then and now that is no drift: Σ (p − q) ln(p / q) over the
   * schema's deciles or categories. Default 0.2, above which the rule of thumb calls a change large.
   */
  readonly drift?: number;
  /** By how much the share of missing values may exceed the schema's; default 0.01. */
  readonly missing?: number;
}

/** Kinds whose values are categories. */
const categorical: readonly ColumnKind[] = ["text", "truth"];

/** Kinds of which the lengths are measured. */
export const isMeasured = (kind: ColumnKind): boolean => kind === "text" || kind === "vector";

/** The schema of records with these statistics: plain data. */
export function schemaOf(statistics: Statistics): Schema {
  checkStatistics("schemaOf", statistics);
  const { rows, columns } = statistics;
  return { format, columns: columns.map((column) => columnSchema(column, rows)) };
}

function columnSchema(
  { name, kind, missing, count, numbers, top, isWhole }: ColumnStatistics,
  rows: number,
): ColumnSchema {
  return {
    name,
    kind,
    missing: rows === 0 ? 0 : missing / rows,
    numbers:
      numbers === undefined ? null : { lowest: numbers.lowest, highest: numbers.highest, deciles: numbers.deciles },
    categories:
      isWhole && categorical.includes(kind) && count >= 2 * top.length
        ? top.map(([value, times]) => [value, times / count])
        : null,
  };
}

function checkStatistics(what: string, statistics: unknown): asserts statistics is Statistics {
  if (isRecord(statistics) && Array.isArray(statistics["columns"]) && typeof statistics["rows"] === "number") return;
  throw new HeddleError("argument", `${what}: takes what frames.statistics gave, got ${shown(statistics)}`);
}

/** A schema of data, such as from a file. @throws HeddleError `format` for malformed data, `version` for a schema of a newer Heddle */
export function schemaFrom(data: unknown): Schema {
  const malformed = (what: string): HeddleError => new HeddleError("format", `schema: ${what}`);
  if (!isRecord(data) || !Array.isArray(data["columns"])) throw malformed("the data is not that of a schema");
  if (typeof data["format"] === "number" && data["format"] > format)
    throw new HeddleError("version", `schema: it has format ${data["format"]}, this Heddle reads up to ${format}`);
  const isDeciles = (numbers: unknown): boolean =>
    isRecord(numbers) &&
    Number.isFinite(numbers["lowest"]) &&
    Number.isFinite(numbers["highest"]) &&
    Array.isArray(numbers["deciles"]) &&
    numbers["deciles"].length === 11 &&
    numbers["deciles"].every(Number.isFinite);
  const isShares = (categories: unknown): boolean =>
    Array.isArray(categories) &&
    categories.every((pair) => Array.isArray(pair) && pair.length === 2 && Number.isFinite(pair[1]));
  const wrong = (data["columns"] as unknown[]).findIndex(
    (column) =>
      !isRecord(column) ||
      typeof column["name"] !== "string" ||
      typeof column["kind"] !== "string" ||
      !Number.isFinite(column["missing"]) ||
      !(column["numbers"] === null || isDeciles(column["numbers"])) ||
      !(column["categories"] === null || isShares(column["categories"])),
  );
  if (wrong >= 0) throw malformed(`column ${wrong} is malformed`);
  return data as unknown as Schema;
}

const percent = (share: number): string => `${(100 * share).toFixed(share !== 0 && share < 0.001 ? 3 : 1)} %`;

/** Where records differ from a schema, column by column. Empty: nowhere. */
export function anomalies(statistics: Statistics, schema: Schema, options: AnomalyOptions = {}): Anomaly[] {
  checkStatistics("anomalies", statistics);
  checkOptions("anomalies", options, ["drift", "missing"]);
  const { drift = 0.2, missing = 0.01 } = options;
  checkNumber("anomalies", "drift", drift, 0);
  checkNumber("anomalies", "missing", missing, 0, 1);
  const { columns } = schemaFrom(asRecord("anomalies: schema", schema));
  const now = new Map(statistics.columns.map((column) => [column.name, column]));
  const then = new Set(columns.map(({ name }) => name));
  const added = statistics.columns
    .filter(({ name }) => !then.has(name))
    .map(({ name, kind }): Anomaly => ({ column: name, kind: "new", text: `is new (${kind})` }));
  const found = columns.flatMap((before): Anomaly[] => {
    const after = now.get(before.name);
    if (after === undefined) return [{ column: before.name, kind: "absent", text: "is absent" }];
    return differences(before, after, statistics.rows, { drift, missing });
  });
  return [...found, ...added];
}

function differences(
  before: ColumnSchema,
  after: ColumnStatistics,
  rows: number,
  { drift, missing }: Required<AnomalyOptions>,
): Anomaly[] {
  const found: Anomaly[] = [];
  const add = (kind: Anomaly["kind"], text: string): void => {
    found.push({ column: before.name, kind, text });
  };
  if (rows === 0) {
    if (before.missing + missing < 1) add("missing", "has no values: there are no records");
    return found;
  }
  const share = after.missing / rows;
  if (share > before.missing + missing)
    add("missing", `is missing in ${percent(share)}, it was in ${percent(before.missing)}`);
  if (!isKind(before.kind, after.kind)) {
    add("kind", `has values of kind ${after.kind}, not ${before.kind}`);
    return found;
  }
  const what = isMeasured(after.kind) ? "lengths" : "values";
  const of = (bound: number): string => (after.kind === "date" ? new Date(bound).toISOString() : String(bound));
  if (before.categories === null && before.numbers !== null && after.numbers !== undefined) {
    const { lowest, highest } = after.numbers;
    if (lowest < before.numbers.lowest)
      add("bounds", `has ${what} from ${of(lowest)}, they began at ${of(before.numbers.lowest)}`);
    if (highest > before.numbers.highest)
      add("bounds", `has ${what} up to ${of(highest)}, they ended at ${of(before.numbers.highest)}`);
  }
  const known = new Set(before.categories?.map(([value]) => value));
  const unseen = before.categories === null ? [] : after.top.filter(([value]) => !known.has(value));
  if (unseen.length > 0) {
    const words = unseen.slice(0, 3).map(([value, count]) => `${JSON.stringify(value)} (${count})`);
    add("unseen", `has values that it did not have: ${words.join(", ")}${unseen.length > 3 ? ", …" : ""}`);
  }
  const index = stability(before, after);
  if (index > drift) add("drift", `has drifted: the population stability index is ${index.toFixed(2)}, above ${drift}`);
  return found;
}

/** Whether values of a kind are as expected: whole numbers are numbers, and no values are of any kind. */
const isKind = (before: ColumnKind, after: ColumnKind): boolean =>
  before === after || after === "empty" || before === "empty" || (before === "number" && after === "whole");

/** Shares below this count as this: an empty part would make the index infinite. */
const smallest = 1e-4;

const indexOf = (before: readonly number[], after: readonly number[]): number =>
  before.reduce((sum, share, at) => {
    const [q, p] = [Math.max(smallest, share), Math.max(smallest, after[at] ?? 0)];
    return sum + (p - q) * Math.log(p / q);
  }, 0);

/** The population stability index of a column over the schema's categories, or over its deciles. */
function stability({ categories, numbers }: ColumnSchema, after: ColumnStatistics): number {
  if (after.count === 0) return 0;
  if (categories !== null) {
    const now = new Map(after.top.map(([value, count]) => [value, count / after.count]));
    const known = categories.map(([value]) => now.get(value) ?? 0);
    const rest = Math.max(0, 1 - known.reduce((sum, share) => sum + share, 0));
    return indexOf([...categories.map(([, share]) => share), 0], [...known, rest]);
  }
  if (numbers === null || after.numbers === undefined) return 0;
  // Equal deciles are one bound: values that come often fill several parts.
  const bounds = [...new Set(numbers.deciles.slice(1, -1))];
  const before = bounds.map((bound) => numbers.deciles.lastIndexOf(bound) / 10);
  const now = bounds.map((bound) => shareBelow(after.numbers?.deciles as readonly number[], bound));
  const parts = (shares: readonly number[]): number[] =>
    [...shares, 1].map((share, at) => share - (at === 0 ? 0 : (shares[at - 1] as number)));
  return indexOf(parts(before), parts(now));
}

/** The share of values that are at most a bound, by deciles, between two of them in proportion. */
function shareBelow(deciles: readonly number[], bound: number): number {
  if (bound < (deciles[0] as number)) return 0;
  const at = deciles.findLastIndex((decile) => decile <= bound);
  if (at >= deciles.length - 1) return 1;
  const [low, high] = [deciles[at] as number, deciles[at + 1] as number];
  return (at + (bound - low) / (high - low)) / 10;
}
