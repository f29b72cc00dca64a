/** @module A network that loses, repeats and delays packets, by a seed. */

/** Shares of packets to which something happens, each from 0 to below 1; default 0. */
export interface Losses {
  readonly drop?: number;
  readonly duplicate?: number;
  /** Delayed by up to 5 ms, so that later packets overtake them. */
  readonly reorder?: number;
  readonly seed?: number;
}

/** Numbers in [0, 1), the same for the same seed. */
function numbers(seed: number): () => number {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** For each packet the delays in milliseconds after which it arrives: none if it is lost, two if it is repeated. */
export function arrivals({ drop = 0, duplicate = 0, reorder = 0, seed = 0 }: Losses): () => number[] {
  const next = numbers(seed);
  const one = (): number[] => (next() < drop ? [] : [next() < reorder ? 1 + Math.floor(next() * 4) : 0]);
  return () => (next() < duplicate ? [...one(), ...one()] : one());
}
