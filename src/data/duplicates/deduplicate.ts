/** @module Records without duplicates: equal ones by their words, similar ones by signatures that meet in a band and are then compared. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { hashOf } from "../records/identity.ts";
import { placed, rowsOf } from "../records/piece.ts";
import { nodeOf, Records } from "../records/records.ts";
import { selected } from "../records/steps.ts";
import { bandKeys, bandsFor, jaccard, shinglesOf, signatureOf, wordsOf } from "./min-hash.ts";

/** Options of {@link deduplicate}. */
export interface DeduplicateOptions<Row> {
  /** What is compared of a record: a text by its words, or a list of texts as a set, such as `["name Kim", "city Paris"]`. */
  readonly of: (row: Row) => string | readonly string[];
  /**
   * Records whose sets of shingles have at least this similarity of Jaccard (the share of all their shingles that both have) are
   * duplicates; above 0 and at most 1, default 0.8. With 1 only records of the same words in the same order are.
   */
  readonly similarity?: number;
  /** Words of a shingle; default 3. */
  readonly shingle?: number;
  /** Length of a signature; default 128. More find more of the pairs that are just similar enough, and take longer. */
  readonly hashes?: number;
}

/** Records without duplicates, and what was left out. */
export interface Deduplicated<Row extends object> {
  /** The first record of each group, and all records that have no duplicate, in their order. */
  readonly records: Records<Row>;
  /** Records that are duplicates of each other, by number, ascending: a group is what pairs connect. */
  readonly groups: readonly (readonly number[])[];
}

/** The chance that a pair that is just similar enough is compared. */
const found = 0.99;
/** Records of a band that each other record of it is compared with. */
const mostInBand = 256;

/**
 * Finds duplicates among records, equal or near, and leaves out all but the first of each group. Reads the records twice, and keeps a
 * signature of each record with words of its own (4 bytes for each hash). Pairs are first found by signatures (MinHash and bands, see
 * Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3) and then compared by their shingles, so no pair is less similar
 * than asked; of the pairs that are just similar enough 1 in 100 may be missed. Results depend on the records and options alone.
 *
 * @throws HeddleError `option` for a similarity outside (0, 1]; `data` where `of` gives no text
 */
export async function deduplicate<Row extends object>(
  records: Records<Row>,
  options: DeduplicateOptions<Row>,
): Promise<Deduplicated<Row>> {
  checkOptions("deduplicate", options, ["of", "similarity", "shingle", "hashes"]);
  const node = nodeOf("deduplicate")(records);
  const { of, similarity = 0.8, shingle = 3, hashes = 128 } = options;
  checkNumber("deduplicate", "similarity", similarity, Number.MIN_VALUE, 1);
  checkInteger("deduplicate", "shingle", shingle, 1, 64);
  checkInteger("deduplicate", "hashes", hashes, 1, 4096);
  if (typeof of !== "function")
    throw new HeddleError("option", `deduplicate: of must be a function of a record, got ${shown(of)}`, {
      hint: typeof of === "string" ? `write (row) => row.${of}` : "such as (row) => row.text",
    });

  const setOf = (words: readonly string[], isSet: boolean) => shinglesOf(words, isSet ? 1 : shingle);
  const groups = new Groups();
  const firstOf = new Map<string, number>();
  const inBand = new Map<string, number[]>();
  const bands = bandsFor(hashes, similarity, found);
  const pairs = new Map<number, number[]>();
  let length = 0;
  for await (const { row, words, isSet } of wordsOfRecords(records, of)) {
    length = row + 1;
    const key = hashOf(words);
    const first = firstOf.get(key);
    if (first !== undefined) groups.join(first, row);
    else firstOf.set(key, row);
    if (first !== undefined || similarity === 1) continue;
    const beside = new Set<number>();
    for (const band of bandKeys(signatureOf(setOf(words, isSet), hashes), bands)) {
      const own = inBand.get(band);
      if (own === undefined) inBand.set(band, [row]);
      else {
        for (const other of own) beside.add(other);
        if (own.length < mostInBand) own.push(row);
      }
    }
    if (beside.size > 0) pairs.set(row, [...beside]);
  }
  firstOf.clear();
  inBand.clear();
  if (pairs.size > 0) await compare(records, of, { pairs, groups, similarity, setOf });

  const all = groups.all();
  const left = new Set(all.flatMap(([, ...others]) => others));
  const kept = Float64Array.from({ length: length - left.size });
  for (let row = 0, at = 0; row < length; row++) if (!left.has(row)) kept[at++] = row;
  const why = `deduplicate ${left.size} of ${length}, similarity ${similarity}`;
  return { records: new Records<Row>(selected(node, kept, why)), groups: all };
}

/** Reads the records again, and joins the pairs that are similar enough. */
async function compare<Row extends object>(
  records: Records<Row>,
  of: (row: Row) => string | readonly string[],
  { pairs, groups, similarity, setOf }: Comparison,
): Promise<void> {
  const wanted = new Set([...pairs].flatMap(([row, others]) => [row, ...others]));
  const sets = new Map<number, Uint32Array>();
  for await (const { row, words, isSet } of wordsOfRecords(records, of)) {
    if (!wanted.has(row)) continue;
    const own = setOf(words, isSet);
    sets.set(row, own);
    for (const other of pairs.get(row) ?? [])
      if (!groups.together(row, other) && jaccard(own, sets.get(other) as Uint32Array) >= similarity)
        groups.join(other, row);
  }
}

interface Comparison {
  /** Records that each record is compared with, all before it. */
  readonly pairs: ReadonlyMap<number, readonly number[]>;
  readonly groups: Groups;
  readonly similarity: number;
  readonly setOf: (words: readonly string[], isSet: boolean) => Uint32Array;
}

/** The words of each record, with its number. @throws HeddleError `data` where `of` gives no text */
async function* wordsOfRecords<Row extends object>(
  records: Records<Row>,
  of: (row: Row) => string | readonly string[],
): AsyncGenerator<{ readonly row: number; readonly words: readonly string[]; readonly isSet: boolean }> {
  let row = 0;
  for await (const piece of records.pieces()) {
    for (const [index, own] of (rowsOf(piece) as Row[]).entries()) {
      const value: unknown = of(own);
      const isSet = Array.isArray(value) && value.every((part) => typeof part === "string");
      if (typeof value !== "string" && !isSet)
        throw new HeddleError("data", `deduplicate: of gives ${shown(value)} for ${placed(index, piece.place)}`, {
          hint: "give a text, or a list of texts",
        });
      yield { row: row++, words: isSet ? [...new Set(value as string[])].sort() : wordsOf(value as string), isSet };
    }
  }
}

/** Groups of numbers that grow together (union-find with the least number as root). */
class Groups {
  readonly #above = new Map<number, number>();

  #root(row: number): number {
    let root = row;
    for (let above = this.#above.get(root); above !== undefined; above = this.#above.get(root)) root = above;
    // The path is cut short, so that long chains are walked once.
    for (let at = row; at !== root; ) {
      const next = this.#above.get(at) as number;
      this.#above.set(at, root);
      at = next;
    }
    return root;
  }

  together = (one: number, other: number): boolean => this.#root(one) === this.#root(other);

  join(one: number, other: number): void {
    const [first, second] = [this.#root(one), this.#root(other)];
    if (first !== second) this.#above.set(Math.max(first, second), Math.min(first, second));
  }

  /** The groups of at least two, by their first. */
  all(): number[][] {
    const groups = new Map<number, number[]>();
    for (const row of [...this.#above.keys()].sort((one, other) => one - other)) {
      const root = this.#root(row);
      const own = groups.get(root);
      if (own === undefined) groups.set(root, [root, row]);
      else own.push(row);
    }
    return [...groups].sort(([one], [other]) => one - other).map(([, group]) => group);
  }
}
