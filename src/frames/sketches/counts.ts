/** @module How often each value comes: exact up to a number of values, then of the frequent ones. */

/** A value that stands for itself in JSON. */
export type Category = string | number | boolean;

/** Counts as data. */
export interface CountsData {
  readonly counts: readonly (readonly [Category, number])[];
  readonly lost: number;
}

/**
 * Counts of values, exact while there are at most `most` of them. Beyond, the summary of Misra and Gries (Finding repeated elements, 1982),
 * which merges (Agarwal and others, Mergeable Summaries, PODS 2012): each count is then too low by at most `lost`.
 */
export class Counts {
  /** What each count may lack; 0: all counts are exact. */
  lost = 0;
  private readonly most: number;
  private counts = new Map<Category, number>();

  /** `most`: the number of values that are counted. */
  constructor(most: number) {
    this.most = most;
  }

  /** Adds a value, `times` times. */
  add(value: Category, times = 1): void {
    this.counts.set(value, (this.counts.get(value) ?? 0) + times);
    // Twice the room before the rare ones go: each of these passes is paid by as many values.
    if (this.counts.size > 2 * this.most) this.shorten();
  }

  /** Adds all values of other counts. */
  merge(other: Counts): void {
    for (const [value, times] of other.counts) this.counts.set(value, (this.counts.get(value) ?? 0) + times);
    this.lost += other.lost;
    if (this.counts.size > this.most) this.shorten();
  }

  /** Number of values that are counted. */
  get size(): number {
    return this.counts.size;
  }

  /** Whether there are more values than are counted. */
  get isFull(): boolean {
    return this.lost > 0 || this.counts.size > this.most;
  }

  private shorten(): void {
    if (this.counts.size <= this.most) return;
    const ranked = [...this.counts.values()].sort((one, other) => other - one);
    const taken = ranked[this.most] as number;
    this.lost += taken;
    this.counts = new Map(
      [...this.counts].flatMap(([value, count]): [Category, number][] =>
        count > taken ? [[value, count - taken]] : [],
      ),
    );
  }

  /** The values with their counts, the most frequent first; equally frequent ones in their order. */
  ranked(): (readonly [Category, number])[] {
    return [...this.counts].sort(
      ([value, count], [other, theirs]) => theirs - count || compareCategories(value, other),
    );
  }

  toJSON(): CountsData {
    this.shorten();
    return { counts: [...this.counts], lost: this.lost };
  }

  static from({ counts, lost }: CountsData, most: number): Counts {
    const made = new Counts(most);
    made.counts = new Map(counts);
    made.lost = lost;
    return made;
  }
}

/** Numbers ascending, then texts by code point, as Python sorts them, then truth values. */
export function compareCategories(one: Category, other: Category): number {
  const kinds = ["number", "string", "boolean"];
  const kind = kinds.indexOf(typeof one) - kinds.indexOf(typeof other);
  if (kind !== 0) return kind;
  if (typeof one === "string") return compareTexts(one, other as string);
  return Number(one) - Number(other);
}

/** The order of code points, which differs from that of code units where one needs two of them. */
function compareTexts(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at++) {
    if (one.charCodeAt(at) === other.charCodeAt(at)) continue;
    return placeOf(one.charCodeAt(at)) - placeOf(other.charCodeAt(at));
  }
  return one.length - other.length;
}

/** Halves of code points beyond 2^16 come after all others. */
const placeOf = (unit: number): number => (unit >= 0xd800 && unit < 0xe000 ? unit + 2 ** 16 : unit);
