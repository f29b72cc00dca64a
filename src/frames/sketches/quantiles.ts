/** @module Quantiles of a stream of numbers in bounded memory, by a sketch that merges. */
import { lastAtMost } from "../../data/records/piece.ts";

/** A sketch as data. */
export interface QuantilesData {
  readonly count: number;
  readonly turn: number;
  /** The items of each level; one of level `n` stands for `2 ** n` numbers. */
  readonly levels: readonly (readonly number[])[];
}

/** Items of the largest level: up to so many numbers, quantiles are exact. */
const largestLevel = 2048;
/** Each level below the largest has so much of the room of the one above it. */
const shrink = 2 / 3;
const smallestLevel = 128;

/**
 * The sketch of Karnin, Lang and Liberty (Optimal Quantile Approximation in Streams, FOCS 2016): a level that is full gives every second
 * of its sorted items to the level above. Up to 2,048 numbers it is exact; above, ranks are off by some 0.1 % of the count. Which of the two
 * halves goes up alternates instead of being drawn, so equal streams have equal sketches.
 */
export class Quantiles {
  count = 0;
  private levels: number[][] = [[]];
  private turn = 0;
  private held = 0;
  private room = largestLevel;

  /** Adds a number that is not NaN. */
  add(value: number): void {
    (this.levels[0] as number[]).push(value);
    this.count++;
    this.held++;
    if (this.held >= this.room) this.compress();
  }

  /** Adds all numbers of another sketch. */
  merge(other: Quantiles): void {
    this.count += other.count;
    while (this.levels.length < other.levels.length) this.levels.push([]);
    other.levels.forEach((items, level) => {
      for (const item of items) (this.levels[level] as number[]).push(item);
    });
    this.measure();
    while (this.held >= this.room) this.compress();
  }

  private capacity(level: number): number {
    return Math.max(smallestLevel, Math.ceil(largestLevel * shrink ** (this.levels.length - 1 - level)));
  }

  private measure(): void {
    this.held = this.levels.reduce((sum, { length }) => sum + length, 0);
    this.room = this.levels.reduce((sum, _items, level) => sum + this.capacity(level), 0);
  }

  /** Halves the lowest level that is full. */
  private compress(): void {
    const level = this.levels.findIndex((items, at) => items.length >= this.capacity(at));
    if (level + 1 === this.levels.length) this.levels.push([]);
    const items = Float64Array.from(this.levels[level] as number[]).sort();
    const above = this.levels[level + 1] as number[];
    // An odd item stays, so that the weights add up to the count.
    const even = items.length - (items.length % 2);
    this.turn ^= 1;
    for (let at = this.turn; at < even; at += 2) above.push(items[at] as number);
    this.levels[level] = even < items.length ? [items[even] as number] : [];
    this.measure();
  }

  /**
   * The values below which these shares of the numbers are, between the two neighbours of a place as NumPy's `quantile` takes them
   * (`linear`); NaN without numbers.
   */
  at(shares: readonly number[]): number[] {
    const items = this.levels.flatMap((values, level) => values.map((value) => ({ value, weight: 2 ** level })));
    items.sort((one, other) => one.value - other.value);
    let passed = 0;
    const starts = items.map(({ weight }) => {
      passed += weight;
      return passed - weight;
    });
    const value = (place: number): number => items[lastAtMost(starts, place)]?.value ?? Number.NaN;
    return shares.map((share) => {
      const place = share * (this.count - 1);
      const low = Math.floor(place);
      const [below, above] = [value(low), value(Math.ceil(place))];
      return below === above ? below : below + (above - below) * (place - low);
    });
  }

  /** The share of the numbers that are at most each of these ascending values. */
  below(values: readonly number[]): number[] {
    const sums = values.map(() => 0);
    this.levels.forEach((items, level) => {
      for (const item of items) {
        const first = values.findIndex((value) => item <= value);
        if (first >= 0) sums[first] = (sums[first] as number) + 2 ** level;
      }
    });
    let sum = 0;
    return sums.map((own) => {
      sum += own;
      return this.count === 0 ? Number.NaN : sum / this.count;
    });
  }

  toJSON(): QuantilesData {
    return { count: this.count, turn: this.turn, levels: this.levels };
  }

  static from({ count, turn, levels }: QuantilesData): Quantiles {
    const made = new Quantiles();
    made.count = count;
    made.turn = turn;
    made.levels = levels.map((items) => [...items]);
    made.measure();
    return made;
  }
}
