/** @module Count, mean, variance and bounds of numbers in one pass; two summaries merge into that of all numbers. */

/** A summary as data. */
export interface MomentsData {
  readonly count: number;
  readonly mean: number;
  /** What rounding took from the mean. */
  readonly rest: number;
  /** Sum of the squared distances from the mean. */
  readonly squares: number;
  /** Null where there is no number. */
  readonly lowest: number | null;
  readonly highest: number | null;
}

/**
 * Numbers are added by Welford's update (Technometrics 4, 1962), summaries by the pairwise one (Chan, Golub and LeVeque, Updating Formulae
 * and a Pairwise Algorithm for Computing Sample Variances, 1979). What rounding takes from the mean is kept beside it (Knuth's two-sum), so
 * that numbers whose spread is near the last digit of f64 have their mean and variance. NaN is not a number here: callers count it as
 * missing. The variance is infinite where squares are beyond f64.
 */
export class Moments {
  count = 0;
  mean = 0;
  private rest = 0;
  squares = 0;
  lowest = Number.POSITIVE_INFINITY;
  highest = Number.NEGATIVE_INFINITY;

  /** Adds a number, `times` times. */
  add(value: number, times = 1): void {
    if (times === 0) return;
    const count = this.count + times;
    const distance = value - this.mean - this.rest;
    this.move(distance * (times / count));
    this.squares += distance * (value - this.mean - this.rest) * times;
    this.count = count;
    if (value < this.lowest) this.lowest = value;
    if (value > this.highest) this.highest = value;
  }

  /** Adds all numbers of another summary. */
  merge(other: Moments): void {
    if (other.count === 0) return;
    const count = this.count + other.count;
    const distance = other.mean - this.mean + (other.rest - this.rest);
    this.squares += other.squares + distance * distance * this.count * (other.count / count);
    this.move(distance * (other.count / count));
    this.count = count;
    this.lowest = Math.min(this.lowest, other.lowest);
    this.highest = Math.max(this.highest, other.highest);
  }

  /** Moves the mean. */
  private move(step: number): void {
    const whole = step + this.rest;
    const moved = this.mean + whole;
    const own = moved - whole;
    this.rest = this.mean - own + (whole - (moved - own));
    this.mean = moved;
  }

  /** The variance over all numbers (divided by their count); NaN where there is none. */
  get variance(): number {
    return this.count === 0 ? Number.NaN : this.squares / this.count;
  }

  toJSON(): MomentsData {
    const { count, mean, rest, squares, lowest, highest } = this;
    const isEmpty = count === 0;
    return { count, mean, rest, squares, lowest: isEmpty ? null : lowest, highest: isEmpty ? null : highest };
  }

  static from({ count, mean, rest, squares, lowest, highest }: MomentsData): Moments {
    const made = new Moments();
    Object.assign(made, { count, mean, rest, squares });
    if (lowest !== null) made.lowest = lowest;
    if (highest !== null) made.highest = highest;
    return made;
  }
}
