/** @module Encoders of texts: the numbers of their words by a vocabulary, counts of words, and hashes without one. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import type { Plain } from "../../util/text.ts";
import { isRecord } from "../../util/tree.ts";
import type { Encoded, Encoder, Kind, Learning } from "../encoder.ts";
import { Counts, type CountsData, compareCategories } from "../sketches/counts.ts";
import { murmur3 } from "../sketches/murmur.ts";
import { badValue, type Field, textAt } from "../values.ts";
import { checkColumn, checkOneOf } from "./options.ts";

/** Options of {@link words}. */
export interface WordOptions {
  /** `"ids"` (default): the numbers of the words, in their order; `"counts"`: how often each word of the vocabulary comes. */
  readonly as?: "ids" | "counts";
  /** For ids: numbers of a text; longer texts are cut, shorter ones filled up with 0. Default the longest of the texts that were learned from. */
  readonly length?: number;
  /** Words of the vocabulary, the most frequent; default 20,000. */
  readonly most?: number;
  /** Only words that come in so many texts (counts) or so often (ids) at least; default 1. */
  readonly least?: number;
  /** Letters of a word, at least; default 1. */
  readonly shortest?: number;
  /** Whether words are compared without case; default true. */
  readonly lowerCase?: boolean;
  /** A word that is not in the vocabulary: number 1 (`"other"`, default), left out, or an error. Counts always leave it out. */
  readonly unseen?: "other" | "ignore" | "error";
}

/** Options of {@link hash}. */
export interface HashOptions {
  /** Numbers of the vector, or of different ids; default 1,024. */
  readonly size?: number;
  /** `"vector"` (default): each value adds 1 or -1, by a bit of its hash, to the place that its hash names; `"id"`: that place. */
  readonly as?: "vector" | "id";
  /** Take the words of a text instead of the text; default false. */
  readonly words?: boolean;
}

const mostWords = 20_000;
/** Different words that are counted exactly, at most. */
const countedWords = 2 ** 20;
const longestText = 2 ** 16;

/**
 * The words of a text, as runs of letters, digits and underscores, by a vocabulary of the texts that were learned from. As ids
 * (i32 `[length]`) 0 fills texts up, 1 is a word that is not in the vocabulary, and words follow from 2, the most frequent first. As counts
 * (f32, one for each word in its order) as scikit-learn's `CountVectorizer` has them (with `shortest: 2`).
 *
 * @example frames.words("subject", { length: 32, most: 5000 })
 */
export function words<const Column extends string>(
  column: Column,
  options: WordOptions = {},
): Encoder<Column, Int32Array | Float32Array> {
  checkColumn("words", column);
  checkOptions("words", options, ["as", "length", "most", "least", "shortest", "lowerCase", "unseen"]);
  const { as = "ids", length = null, most = mostWords, least = 1, shortest = 1, lowerCase = true } = options;
  const { unseen = as === "ids" ? "other" : "ignore" } = options;
  checkOneOf("words", "as", as, ["ids", "counts"]);
  checkOneOf("words", "unseen", unseen, as === "ids" ? ["other", "ignore", "error"] : ["ignore", "error"]);
  if (length !== null) checkInteger("words", "length", length, 1, longestText);
  checkInteger("words", "most", most, 1, countedWords);
  checkInteger("words", "least", least, 1);
  checkInteger("words", "shortest", shortest, 1, 64);
  if (typeof lowerCase !== "boolean")
    throw new HeddleError("option", `words: lowerCase must be true or false, got ${shown(lowerCase)}`);
  return { kind: "words", column, options: { as, length, most, least, shortest, lowerCase, unseen } };
}

/**
 * Texts or other categories by their hash, without a vocabulary: nothing is learned, nothing is unseen, and a missing value is none. The
 * vector is that of scikit-learn's `FeatureHasher` for texts (MurmurHash3). Makes f32, or an i32 for ids, where 0 stands for a
 * missing value and hashes follow from 1.
 */
export function hash<const Column extends string>(
  column: Column,
  options: HashOptions = {},
): Encoder<Column, Float32Array | number> {
  checkColumn("hash", column);
  checkOptions("hash", options, ["size", "as", "words"]);
  const { size = 1024, as = "vector", words: isWords = false } = options;
  checkInteger("hash", "size", size, 1, 2 ** 24);
  checkOneOf("hash", "as", as, ["vector", "id"]);
  checkOneOf("hash", "words", isWords, [true, false]);
  if (as === "id" && isWords) throw new HeddleError("option", 'hash: an id is of one value; as: "vector" takes words');
  return { kind: "hash", column, options: { size, as, words: isWords } };
}

/** The words of a text. */
function wordsOf(text: string, shortest: number, lowerCase: boolean): string[] {
  const found = (lowerCase ? text.toLowerCase() : text).match(/[\p{L}\p{N}_]+/gu) ?? [];
  return shortest === 1 ? found : found.filter((word) => [...word].length >= shortest);
}

interface WordState {
  readonly counts: CountsData;
  readonly longest: number;
}

/** Counts of words: how often they come, or in how many texts. */
class Vocabulary implements Learning {
  private readonly counts = new Counts(countedWords);
  /** For counts, in how many texts each word comes. */
  private readonly texts: Counts | undefined;
  private longest = 0;
  private readonly column: string;
  private readonly options: { readonly [name: string]: Plain };

  constructor(column: string, options: { readonly [name: string]: Plain }) {
    this.column = column;
    this.options = options;
    this.texts = options["as"] === "counts" ? new Counts(countedWords) : undefined;
  }

  see(field: Field): void {
    const { shortest, lowerCase } = this.options as { readonly shortest: number; readonly lowerCase: boolean };
    for (let row = 0; row < field.length; row++) {
      const found = wordsOf(textAt(field, row) ?? "", shortest, lowerCase);
      this.longest = Math.max(this.longest, found.length);
      for (const word of found) this.counts.add(word);
      if (this.texts !== undefined) for (const word of new Set(found)) this.texts.add(word);
    }
  }

  merge(other: Plain): void {
    const { counts, texts, longest } = other as unknown as WordState & { readonly texts: CountsData | null };
    this.counts.merge(Counts.from(counts, countedWords));
    if (texts !== null) this.texts?.merge(Counts.from(texts, countedWords));
    this.longest = Math.max(this.longest, longest);
  }

  toJSON(): Plain {
    return {
      counts: this.counts.toJSON() as unknown as Plain,
      texts: (this.texts?.toJSON() ?? null) as unknown as Plain,
      longest: this.longest,
    };
  }

  finish(): Plain {
    const { as, length, most, least, shortest, lowerCase, unseen } = this.options as { readonly [name: string]: Plain };
    const often = new Map(this.texts?.ranked() ?? []);
    const kept = this.counts
      .ranked()
      .filter(([word, count]) => (this.texts === undefined ? count : (often.get(word) ?? 0)) >= (least as number))
      .slice(0, most as number)
      .map(([word]) => word as string);
    if (kept.length === 0) throw new HeddleError("data", `frame: column "${this.column}" has no words to learn`);
    return {
      as: as as Plain,
      vocabulary: as === "counts" ? kept.sort(compareCategories) : kept,
      length: length ?? Math.max(1, Math.min(longestText, this.longest)),
      shortest: shortest as Plain,
      lowerCase: lowerCase as Plain,
      unseen: unseen as Plain,
    };
  }
}

/** The number of the first word: 0 fills up, 1 is another word. */
const firstWord = 2;

export const wordsKind: Kind = {
  learn: (column, options) => new Vocabulary(column, options),
  read(column, learned): Encoded | undefined {
    if (!isRecord(learned)) return undefined;
    const { as, vocabulary, length, shortest, lowerCase, unseen } = learned as { readonly [name: string]: unknown };
    const isWhole =
      Array.isArray(vocabulary) &&
      vocabulary.every((word) => typeof word === "string") &&
      isWithin(length, longestText) &&
      isWithin(shortest, 64);
    if (!isWhole || typeof lowerCase !== "boolean") return undefined;
    const ids = new Map((vocabulary as string[]).map((word, id) => [word, id]));
    const find = (field: Field, row: number): (number | undefined)[] =>
      wordsOf(textAt(field, row) ?? "", shortest as number, lowerCase).map((word) => {
        const id = ids.get(word);
        if (id === undefined && unseen === "error")
          throw badValue(field, row, `${shown(word)} is not in the vocabulary of ${ids.size} words`);
        return id;
      });
    if (as === "counts")
      return {
        column,
        names: (vocabulary as string[]).map((word) => `${column}: ${word}`),
        dtype: "f32",
        isVector: true,
        classes: vocabulary as string[],
        encode(field, { data, start, stride }) {
          for (let row = 0; row < field.length; row++) {
            const at = start + row * stride;
            data.fill(0, at, at + ids.size);
            for (const id of find(field, row)) if (id !== undefined) data[at + id] = (data[at + id] as number) + 1;
          }
        },
      };
    if (as !== "ids" || !["other", "ignore", "error"].includes(unseen as string)) return undefined;
    const width = length as number;
    return {
      column,
      names: Array.from({ length: width }, (_unused, at) => `${column} word ${at}`),
      dtype: "i32",
      isVector: true,
      classes: [null, null, ...(vocabulary as string[])],
      encode(field, { data, start, stride }) {
        for (let row = 0; row < field.length; row++) {
          const all = find(field, row);
          const kept = unseen === "ignore" ? all.filter((id) => id !== undefined) : all;
          const at = start + row * stride;
          for (let word = 0; word < width; word++) {
            const id = kept[word];
            data[at + word] = word >= kept.length ? 0 : id === undefined ? 1 : id + firstWord;
          }
        }
      },
    };
  },
};

const isWithin = (value: unknown, most: number): boolean =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= most;

export const hashKind: Kind = {
  learn: (_column, options) => ({ see() {}, merge() {}, toJSON: () => null, finish: () => options }),
  read(column, learned): Encoded | undefined {
    if (!isRecord(learned)) return undefined;
    const { size, as, words: isWords } = learned as { readonly [name: string]: unknown };
    if (!isWithin(size, 2 ** 24) || typeof isWords !== "boolean") return undefined;
    const width = size as number;
    const isId = as === "id";
    if (!isId && as !== "vector") return undefined;
    return {
      column,
      names: isId ? [column] : Array.from({ length: width }, (_unused, at) => `${column} hash ${at}`),
      dtype: isId ? "i32" : "f32",
      isVector: !isId,
      encode(field, { data, start, stride }) {
        for (let row = 0; row < field.length; row++) {
          const at = start + row * stride;
          const text = textAt(field, row);
          if (isId) {
            data[at] = text === undefined ? 0 : 1 + (Math.abs(murmur3(text)) % width);
            continue;
          }
          data.fill(0, at, at + width);
          if (text === undefined) continue;
          for (const value of isWords ? wordsOf(text, 1, true) : [text]) {
            const found = murmur3(value);
            const place = at + (Math.abs(found) % width);
            data[place] = (data[place] as number) + (found >= 0 ? 1 : -1);
          }
        }
      },
    };
  },
};
