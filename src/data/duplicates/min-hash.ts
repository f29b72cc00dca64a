/**
 * @module Texts as sets of shingles, and sets as short signatures whose agreement estimates their similarity (MinHash: Broder, 1997;
 * chapter 3 of Leskovec, Rajaraman and Ullman, Mining of Massive Datasets).
 */

import { mixed } from "../mix.ts";

/** A hash of a text: FNV-1a over its UTF-16 units, mixed. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return mixed(hash);
}

/** The words of a text as they are compared: letters and digits of any script, in lower case. A text of signs alone is one word. */
export const wordsOf = (text: string): string[] =>
  text.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? (text === "" ? [] : [text]);

/**
 * The set of a text's shingles, `width` words that follow each other, as ascending hashes. A text of fewer words is one shingle, an
 * empty one has none.
 */
export function shinglesOf(words: readonly string[], width: number): Uint32Array {
  const set = new Set<number>();
  const last = Math.max(words.length - width, words.length > 0 ? 0 : -1);
  for (let at = 0; at <= last; at++) set.add(textHash(words.slice(at, at + width).join(" ")));
  return Uint32Array.from(set).sort();
}

/** The similarity of Jaccard of two ascending sets: the share of elements of either that are in both. Two empty sets are equal: 1. */
export function jaccard(one: Uint32Array, other: Uint32Array): number {
  let [at, beside, shared] = [0, 0, 0];
  while (at < one.length && beside < other.length) {
    const difference = (one[at] as number) - (other[beside] as number);
    if (difference === 0) shared++;
    if (difference <= 0) at++;
    if (difference >= 0) beside++;
  }
  const either = one.length + other.length - shared;
  return either === 0 ? 1 : shared / either;
}

/**
 * The signature of a set: under each of `count` orders of all hashes, the first element of the set. The chance that two sets agree in a
 * place is their similarity.
 */
export function signatureOf(shingles: Uint32Array, count: number): Uint32Array {
  const signature = new Uint32Array(count).fill(0xffffffff);
  for (let order = 0; order < count; order++) {
    const salt = mixed(order + 1);
    let least = 0xffffffff;
    for (let at = 0; at < shingles.length; at++) {
      const place = mixed((shingles[at] as number) ^ salt);
      if (place < least) least = place;
    }
    signature[order] = least;
  }
  return signature;
}

/** How a signature is cut into bands; sets that agree in a whole band are compared. */
export interface Bands {
  readonly bands: number;
  /** Places of a band. */
  readonly rows: number;
}

/**
 * The widest bands with which two sets of the given similarity meet in one of them with a chance of at least `found`:
 * `1 - (1 - similarity^rows)^bands`. Wider bands bring fewer sets together that are not similar.
 */
export function bandsFor(hashes: number, similarity: number, found: number): Bands {
  for (let rows = hashes; rows > 1; rows--) {
    const bands = Math.floor(hashes / rows);
    if (1 - (1 - similarity ** rows) ** bands >= found) return { bands, rows };
  }
  return { bands: hashes, rows: 1 };
}

/** A hash of each band of a signature. Equal bands of different places are different keys. */
export function bandKeys(signature: Uint32Array, { bands, rows }: Bands): string[] {
  return Array.from({ length: bands }, (_unused, band) => {
    let [high, low] = [mixed(band + 1), mixed(~band)];
    for (let at = band * rows; at < (band + 1) * rows; at++) {
      high = mixed(high ^ (signature[at] as number));
      low = mixed(Math.imul(low, 31) + (signature[at] as number));
    }
    return `${high.toString(36)}.${low.toString(36)}`;
  });
}
