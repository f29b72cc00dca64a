/** @module How many different values a stream has, in four kilobytes. */
import { murmur3 } from "./murmur.ts";

const bits = 12;
const registers = 2 ** bits;
/** The longest run of zeros in what a hash has left, plus one. */
const longest = 64 - bits + 1;

/**
 * HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007) with 4,096 registers and the estimator of Ertl (New cardinality estimation
 * algorithms for HyperLogLog sketches, 2017, algorithm 6), which needs no correction for small counts. The standard error is 1.6 %.
 */
export class Distinct {
  private readonly ranks = new Uint8Array(registers);

  /** Adds a value by its text. */
  add(text: string): void {
    const high = murmur3(text, 0);
    const low = murmur3(text, 0x9747b28c);
    const register = high & (registers - 1);
    const left = high >>> bits;
    // 20 bits of one hash, then 32 of the other.
    const rank = left === 0 ? 32 - bits + Math.clz32(low) + 1 : Math.clz32(left) - bits + 1;
    if (rank > (this.ranks[register] as number)) this.ranks[register] = rank;
  }

  /** Adds all values of another sketch. */
  merge(other: Distinct): void {
    for (let at = 0; at < registers; at++)
      if ((other.ranks[at] as number) > (this.ranks[at] as number)) this.ranks[at] = other.ranks[at] as number;
  }

  /** About how many different values there are. */
  get estimate(): number {
    const counts = new Float64Array(longest + 1);
    for (const rank of this.ranks) counts[rank] = (counts[rank] as number) + 1;
    let sum = registers * tau(1 - (counts[longest] as number) / registers);
    for (let rank = longest - 1; rank >= 1; rank--) sum = (sum + (counts[rank] as number)) / 2;
    sum += registers * sigma((counts[0] as number) / registers);
    return Math.round(((1 / (2 * Math.LN2)) * registers * registers) / sum);
  }

  toJSON(): readonly number[] {
    return [...this.ranks];
  }

  static from(ranks: readonly number[]): Distinct {
    const made = new Distinct();
    made.ranks.set(ranks);
    return made;
  }
}

function sigma(start: number): number {
  if (start === 1) return Number.POSITIVE_INFINITY;
  let [x, y, sum, before] = [start, 1, start, Number.NaN];
  while (sum !== before) {
    x *= x;
    before = sum;
    sum += x * y;
    y += y;
  }
  return sum;
}

function tau(start: number): number {
  if (start === 0 || start === 1) return 0;
  let [x, y, sum, before] = [start, 1, 1 - start, Number.NaN];
  while (sum !== before) {
    x = Math.sqrt(x);
    before = sum;
    y /= 2;
    sum -= (1 - x) ** 2 * y;
  }
  return sum / 3;
}
