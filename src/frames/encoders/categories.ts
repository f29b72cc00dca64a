/** @module Encoders of categories: their numbers, or a 1 in the place of each. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { Plain } from "../../util/text.ts";
import { isRecord } from "../../util/tree.ts";
import type { Encoded, Encoder, Kind, Learning } from "../encoder.ts";
import { type Category, Counts, type CountsData, compareCategories } from "../sketches/counts.ts";
import { badValue, categoryAt, type Field } from "../values.ts";
import { checkColumn, checkOneOf } from "./options.ts";

/** What becomes of values that were not there when the encoder learned, and of missing ones. */
export interface CategoryOptions {
  /** The categories in their order; default those of the records, numbers ascending, then texts by code point. */
  readonly categories?: readonly Category[];
  /**
   * A value that is none of the categories: an error (`"error"`, default), the last category of its own (`"other"`), or nothing
   * (`"ignore"`: zeros of oneHot; not for recode and ordinal).
   */
  readonly unseen?: "error" | "other" | "ignore";
  /** A missing value: a category of its own, after the others (`"category"`, default), an error, or as an unseen one (`"unseen"`). */
  readonly missing?: "category" | "error" | "unseen";
  /** Only so many of the most frequent categories; the others are as unseen ones. Default 10,000 for oneHot, else 2^20; beyond is an error. */
  readonly most?: number;
  /** Only categories that come at least so often; the others are as unseen ones. Default 1. */
  readonly least?: number;
}

/** Options of {@link oneHot}. */
export interface OneHotOptions extends CategoryOptions {
  /** Leaves out the first category, or the first of two (`"ifBinary"`), whose value the others imply. Default: none. */
  readonly drop?: "first" | "ifBinary";
}

const mostHot = 10_000;
/** Different values of a column that are counted, at most. */
const mostCategories = 2 ** 20;

function categoryEncoder<Column extends string, Value>(
  kind: "recode" | "ordinal" | "oneHot",
  column: Column,
  options: OneHotOptions,
): Encoder<Column, Value> {
  checkColumn(kind, column);
  const names = ["categories", "unseen", "missing", "most", "least"];
  checkOptions(kind, options, kind === "oneHot" ? [...names, "drop"] : names);
  const { categories = null, unseen = "error", missing = "category", most = null, least = 1, drop = null } = options;
  checkOneOf(kind, "unseen", unseen, kind === "oneHot" ? ["error", "other", "ignore"] : ["error", "other"]);
  checkOneOf(kind, "missing", missing, ["category", "error", "unseen"]);
  if (drop !== null) checkOneOf(kind, "drop", drop, ["first", "ifBinary"]);
  if (most !== null) checkInteger(kind, "most", most, 1, mostCategories);
  checkInteger(kind, "least", least, 1);
  if (categories !== null && !isCategories(categories))
    throw new HeddleError(
      "option",
      `${kind}: categories must be different texts, numbers or truth values, got ${shown(categories)}`,
    );
  if (unseen === "error" && (most !== null || least > 1))
    throw new HeddleError(
      "option",
      `${kind}: with most or least, rare values are unseen ones, which unseen: "error" refuses`,
      {
        hint: 'pass unseen: "other"',
      },
    );
  return { kind, column, options: { categories, unseen, missing, most, least, drop } };
}

/**
 * The number of a category, from 0: for classes, and for tables of embeddings. Makes i32; `frame.classes(name)` has the categories
 * by number.
 *
 * @example frames.recode("city", { unseen: "other" })
 */
export const recode = <const Column extends string>(
  column: Column,
  options: CategoryOptions = {},
): Encoder<Column, number> => categoryEncoder("recode", column, options);

/**
 * The number of a category, from 0, as a number to compute with, as scikit-learn's `OrdinalEncoder` has it: give the categories in
 * their order. Makes f32.
 *
 * @example frames.ordinal("size", { categories: ["small", "medium", "large"] })
 */
export const ordinal = <const Column extends string>(
  column: Column,
  options: CategoryOptions = {},
): Encoder<Column, number> => categoryEncoder("ordinal", column, options);

/** A number for each category, 1 for that of the value and else 0, as scikit-learn's `OneHotEncoder` has it. Makes f32. */
export const oneHot = <const Column extends string>(
  column: Column,
  options: OneHotOptions = {},
): Encoder<Column, Float32Array> => categoryEncoder("oneHot", column, options);

const isCategory = (value: unknown): value is Category =>
  typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);
const isCategories = (values: unknown): values is readonly Category[] =>
  Array.isArray(values) && values.every(isCategory) && new Set(values).size === values.length;

interface CategoryState {
  readonly counts: CountsData;
  readonly missing: number;
}

/** Counts of a column's values. */
class Categories implements Learning {
  private readonly counts = new Counts(mostCategories);
  private missing = 0;
  private readonly kind: string;
  private readonly column: string;
  private readonly options: { readonly [name: string]: Plain };

  constructor(kind: string, column: string, options: { readonly [name: string]: Plain }) {
    this.kind = kind;
    this.column = column;
    this.options = options;
  }

  see(field: Field): void {
    const { categories, missing } = this.options;
    const isGiven = Array.isArray(categories);
    for (let row = 0; row < field.length; row++) {
      const category = categoryAt(field, row);
      if (category === undefined) {
        if (missing === "error") throw missingCategory(field, row);
        this.missing++;
      } else if (!isGiven) this.counts.add(category);
    }
  }

  merge(other: Plain): void {
    const { counts, missing } = other as unknown as CategoryState;
    this.counts.merge(Counts.from(counts, mostCategories));
    this.missing += missing;
  }

  toJSON(): Plain {
    return { counts: this.counts.toJSON() as unknown as Plain, missing: this.missing };
  }

  finish(): Plain {
    const { unseen, drop, missing } = this.options as { readonly [name: string]: Plain };
    const found = this.found();
    const hasGap = missing === "category" && this.missing > 0;
    const categories: Plain[] = hasGap ? [...found, null] : [...found];
    if (categories.length === 0) throw this.lacking();
    const isDropped = drop === "first" || (drop === "ifBinary" && categories.length === 2);
    return {
      categories,
      unseen: unseen as Plain,
      missing: missing as Plain,
      drop: this.kind === "oneHot" && isDropped,
    };
  }

  /** The error of a column without categories. */
  private lacking(): HeddleError {
    const [most] = this.counts.ranked();
    const what = `frame: column "${this.column}"`;
    if (most === undefined)
      return new HeddleError("data", `${what} has no values to learn categories from, all are missing`);
    const { least } = this.options;
    return new HeddleError(
      "data",
      `${what} has no value that comes ${least} times, the most frequent comes ${most[1] === 1 ? "once" : `${most[1]} times`}`,
      {
        hint: "pass a smaller least",
      },
    );
  }

  /** The categories in their order. */
  private found(): readonly Category[] {
    const { categories, most, least } = this.options;
    if (Array.isArray(categories)) return categories as readonly Category[];
    const limit = (most ?? (this.kind === "oneHot" ? mostHot : mostCategories)) as number;
    if (this.counts.isFull || (most === null && this.counts.size > limit))
      throw new HeddleError("data", `frame: column "${this.column}" has more than ${limit} different values`, {
        hint: 'use frames.hash, or keep the frequent ones: most: 1000, unseen: "other"',
      });
    return this.counts
      .ranked()
      .slice(0, limit)
      .filter(([, count]) => count >= (least as number))
      .map(([category]) => category)
      .sort(compareCategories);
  }
}

const missingCategory = (field: Field, row: number): HeddleError =>
  badValue(field, row, "a value is missing", 'pass missing: "category" to make a category of its own of it');

interface Known {
  readonly categories: readonly (Category | null)[];
  readonly unseen: "error" | "other" | "ignore";
  readonly missing: "category" | "error" | "unseen";
  readonly drop: boolean;
}

function known(learned: Plain): Known | undefined {
  if (!isRecord(learned)) return undefined;
  const { categories, unseen, missing, drop } = learned as { readonly [name: string]: unknown };
  if (!Array.isArray(categories) || categories.length === 0 || categories.length > mostCategories + 1) return undefined;
  const own = categories.at(-1) === null ? categories.slice(0, -1) : categories;
  if (!isCategories(own)) return undefined;
  const isPolicy = ["error", "other", "ignore"].includes(unseen as string);
  if (!isPolicy || !["category", "error", "unseen"].includes(missing as string) || typeof drop !== "boolean")
    return undefined;
  return learned as unknown as Known;
}

/** Calls `use` with the number of each value's category; -1 for an ignored one. Unseen ones are after all others. */
function eachCategory(field: Field, learned: Known, use: (row: number, id: number) => void): void {
  const { categories, unseen, missing } = learned;
  const ids = idsOf(learned);
  const outside = unseen === "other" ? categories.length : -1;
  for (let row = 0; row < field.length; row++) {
    const category = categoryAt(field, row);
    const id = ids.get(category ?? null);
    if (id !== undefined) use(row, id);
    else if (category === undefined && missing === "error") throw missingCategory(field, row);
    else if (unseen !== "error") use(row, outside);
    else if (category === undefined)
      throw badValue(field, row, "a value is missing, which none was when the encoder learned", 'pass unseen: "other"');
    else throw badValue(field, row, `${shown(category)} is none of the ${categories.length} categories`, unseenHint);
  }
}

const unseenHint = 'pass unseen: "other" for a category of its own';

const numbered = new WeakMap<Known, ReadonlyMap<Category | null, number>>();

function idsOf(learned: Known): ReadonlyMap<Category | null, number> {
  const made = numbered.get(learned) ?? new Map(learned.categories.map((category, id) => [category, id]));
  numbered.set(learned, made);
  return made;
}

/** The categories by name, all different: with texts in quotes where "other" is a text of the records, or "1" beside 1. */
function labels({ categories, unseen }: Known): string[] {
  const named = (textOf: (category: string) => string): string[] => [
    ...categories.map((category) =>
      category === null ? "missing" : typeof category === "string" ? textOf(category) : String(category),
    ),
    ...(unseen === "other" ? ["other"] : []),
  ];
  const plain = named((text) => text);
  return new Set(plain).size === plain.length ? plain : named((text) => JSON.stringify(text));
}

const numberKind = (kind: "recode" | "ordinal"): Kind => ({
  learn: (column, options) => new Categories(kind, column, options),
  read(column, learned): Encoded | undefined {
    const own = known(learned);
    if (own === undefined || own.unseen === "ignore") return undefined;
    const others: readonly Plain[] = own.unseen === "other" ? ["other"] : [];
    return {
      column,
      names: [column],
      dtype: kind === "recode" ? "i32" : "f32",
      isVector: false,
      classes: [...own.categories, ...others],
      encode(field, { data, start, stride }) {
        eachCategory(field, own, (row, id) => {
          data[start + row * stride] = id;
        });
      },
    };
  },
});

export const recodeKind: Kind = numberKind("recode");
export const ordinalKind: Kind = numberKind("ordinal");

export const oneHotKind: Kind = {
  learn: (column, options) => new Categories("oneHot", column, options),
  read(column, learned): Encoded | undefined {
    const own = known(learned);
    if (own === undefined) return undefined;
    const first = own.drop ? 1 : 0;
    const names = labels(own)
      .slice(first)
      .map((label) => `${column}=${label}`);
    return {
      column,
      names,
      dtype: "f32",
      isVector: true,
      encode(field, { data, start, stride }) {
        for (let row = 0; row < field.length; row++)
          data.fill(0, start + row * stride, start + row * stride + names.length);
        eachCategory(field, own, (row, id) => {
          if (id >= first) data[start + row * stride + id - first] = 1;
        });
      },
    };
  },
};
