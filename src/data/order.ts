/**
 * @module The order of rows: a permutation that is a function of (seed, epoch, index) alone.
 *
 * Position `i` of an epoch is found without making the whole permutation: the index is enciphered by an alternating
 * Feistel network over the smallest power of two that holds the length, and enciphered again while it falls outside
 * ("cycle walking": Black and Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002). Mitchell, Stokes,
 * Frank and Holmes propose a network with 24 rounds as a random shuffle (Bandwidth-Optimal Random Shuffling for GPUs, 2021,
 * https://arxiv.org/abs/2106.06161). Round keys are Philox words; the round function is the finaliser of
 * MurmurHash3. So all ranks, for any number of ranks, and all resumed runs find the same rows.
 */
import { HeddleError } from "../util/errors.ts";
import { philox4x32 } from "../util/philox.ts";
import { mixed } from "./mix.ts";

/** A permutation of `0 … length - 1`. */
export interface Order {
  readonly length: number;
  /** The row at position `index`, in constant time. Throws when `index` is not in `[0, length)`. */
  at(index: number): number;
}

/** Largest number of rows in a batch: its indices have 32 bits. */
export const largestBatch = 2 ** 31 - 1;
/** Largest number of rows of a dataset: the halves of the permutation's network have 26 bits at most, and shapes hold 2^48 values. */
export const largestLength = 2 ** 48;

const rounds = 24;
/** Networks over fewer bits reach too few permutations; cycle walking within 256 costs little for tiny datasets. */
const fewestBits = 8;
/** Set in the last counter word, which is 0 for random ops, so that the two never use the same Philox block. */
const orderDomain = 0x80000000;

/**
 * The shuffled order of one epoch.
 *
 * @param seed a non-negative safe integer
 * @param epoch counted from 0
 * @param length number of rows, at most 2^48
 * @param ordinal distinguishes several shuffles of one dataset; default 0
 */
export function order(seed: number, epoch: number, length: number, ordinal = 0): Order {
  checkCount("seed", seed, Number.MAX_SAFE_INTEGER);
  checkCount("epoch", epoch, Number.MAX_SAFE_INTEGER);
  checkCount("length", length, largestLength);
  const bits = Math.max(fewestBits, bitsOf(Math.max(length - 1, 0)));
  const leftBits = bits >>> 1;
  const rightBits = bits - leftBits;
  const leftMask = 2 ** leftBits - 1;
  const rightMask = 2 ** rightBits - 1;
  const rightSize = 2 ** rightBits;
  const keys = roundKeys(seed, epoch, ordinal);

  function encipher(value: number): number {
    // Arithmetic, not shifts: a row may need more than 32 bits, each half needs fewer.
    let left = Math.floor(value / rightSize);
    let right = value - left * rightSize;
    for (let round = 0; round < rounds; round += 2) {
      left ^= mixed(right ^ (keys[round] as number)) & leftMask;
      right ^= mixed(left ^ (keys[round + 1] as number)) & rightMask;
    }
    return left * rightSize + right;
  }

  return {
    length,
    at(index) {
      if (!Number.isInteger(index) || index < 0 || index >= length) {
        throw new HeddleError("data", `row ${index} is not in [0, ${length})`);
      }
      let value = encipher(index);
      while (value >= length) value = encipher(value);
      return value;
    },
  };
}

/** Number of bits of a whole number. */
const bitsOf = (value: number): number =>
  value < 2 ** 32 ? 32 - Math.clz32(value) : 64 - Math.clz32(Math.floor(value / 2 ** 32));

function roundKeys(seed: number, epoch: number, ordinal: number): Uint32Array {
  const keys = new Uint32Array(rounds);
  const key = [low32(seed), high32(seed)] as const;
  for (let block = 0; block * 4 < rounds; block++) {
    keys.set(philox4x32([block, ordinal, low32(epoch), (high32(epoch) | orderDomain) >>> 0], key), block * 4);
  }
  return keys;
}

const low32 = (value: number): number => value >>> 0;
const high32 = (value: number): number => Math.floor(value / 2 ** 32);

/** Throws unless `value` is an integer in `[0, highest]`. */
export function checkCount(what: string, value: number, highest: number, lowest = 0): void {
  if (!Number.isSafeInteger(value) || value < lowest || value > highest) {
    throw new HeddleError("data", `${what} must be an integer in [${lowest}, ${highest}], got ${value}`);
  }
}

/**
 * Divides `count` rows among `ranks`: in order, as evenly as possible; the first ranks get one row more. A rank may get no row.
 */
export function shardSizes(count: number, ranks: number): number[] {
  checkCount("count", count, Number.MAX_SAFE_INTEGER);
  checkCount("ranks", ranks, largestBatch, 1);
  const base = Math.floor(count / ranks);
  const longer = count % ranks;
  return Array.from({ length: ranks }, (_unused, rank) => base + (rank < longer ? 1 : 0));
}
