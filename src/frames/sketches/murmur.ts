/** @module MurmurHash3 of texts, 32 bits (Appleby, 2011: https://github.com/aappleby/smhasher, `MurmurHash3_x86_32`), as scikit-learn's FeatureHasher has it. */
import { mixed } from "../../data/mix.ts";

const encoder = new TextEncoder();
let scratch = new Uint8Array(1024);

const rotated = (value: number, bits: number): number => (value << bits) | (value >>> (32 - bits));

const scrambled = (word: number): number => Math.imul(rotated(Math.imul(word, 0xcc9e2d51), 15), 0x1b873593);

/** The hash of a text's UTF-8 as a signed 32-bit number. `seed` has 32 bits; default 0. */
export function murmur3(text: string, seed = 0): number {
  // A code unit has three bytes at most.
  if (text.length * 3 > scratch.length) scratch = new Uint8Array(text.length * 6);
  const { written: length } = encoder.encodeInto(text, scratch);
  const bytes = scratch;
  let hash = seed | 0;
  const whole = length - (length % 4);
  for (let at = 0; at < whole; at += 4) {
    const word =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    hash = (Math.imul(rotated(hash ^ scrambled(word), 13), 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  for (let at = length - 1; at >= whole; at--) rest = (rest << 8) | (bytes[at] as number);
  if (whole < length) hash ^= scrambled(rest);
  return mixed(hash ^ length) | 0;
}
