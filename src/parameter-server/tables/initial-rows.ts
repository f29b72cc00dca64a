/**
 * @module InitialRows values of rows: those that `random.normal` gives the whole table, computed for some rows alone. So a row's value is a
 * function of seed, table and row, whichever server makes it, and whenever.
 */
import { philox4x32 } from "../../util/philox.ts";

/** What the initial values of a table depend on. */
export interface InitialRows {
  /** The keys of radius and angle, two words each. */
  readonly keys: readonly number[];
  /** Standard deviation; 0: zeros. */
  readonly std: number;
  /** The row that begins as zeros; -1: none. */
  readonly padding: number;
  readonly dtype: "f32" | "f64";
}

/** Uniform words, read in order. */
class Words {
  private readonly key: readonly [number, number];
  private readonly stream: number;
  private block = -1;
  private lanes: readonly number[] = [];

  constructor(key: readonly [number, number], stream: number) {
    this.key = key;
    this.stream = stream;
  }

  at(position: number): number {
    const block = Math.floor(position / 4);
    if (block !== this.block) {
      this.block = block;
      this.lanes = philox4x32([block >>> 0, Math.floor(block / 2 ** 32) >>> 0, this.stream, 0], this.key);
    }
    return this.lanes[position % 4] as number;
  }
}

/** Gives the numbers in [0, 1) of a key by their position: 24 bits in f32, in f64 53 of two streams. */
function units(key: readonly [number, number], dtype: "f32" | "f64"): (position: number) => number {
  const first = new Words(key, 0);
  if (dtype === "f32") return (position) => (first.at(position) >>> 8) * 2 ** -24;
  const second = new Words(key, 2);
  return (position) => first.at(position) * 2 ** -32 + (second.at(position) >>> 11) * 2 ** -53;
}

/** Gives a function that writes the initial values of a row of so many numbers, from a place on. */
export function initialRows({
  keys,
  std,
  padding,
  dtype,
}: InitialRows): (id: number, into: Float32Array | Float64Array, at: number, size: number) => void {
  const [a, b, c, d] = keys as [number, number, number, number];
  const [radius, angle] = [units([a, b], dtype), units([c, d], dtype)];
  return (id, into, at, size) => {
    if (std === 0 || id === padding) return void into.fill(0, at, at + size);
    const start = id * size;
    // Box and Muller, as `random.normal`.
    for (let column = 0; column < size; column++)
      into[at + column] =
        std * Math.sqrt(-2 * Math.log(1 - radius(start + column))) * Math.cos(2 * Math.PI * angle(start + column));
  };
}
