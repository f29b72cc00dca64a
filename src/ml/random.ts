/** @module Random numbers on the host, by a seed: the same on every machine. */

import { checkInteger } from "../util/options.ts";
import { philox4x32 } from "../util/philox.ts";

/** Uniform numbers in [0, 1) by a seed: a whole number from 0 on. @throws HeddleError `option` */
export function uniforms(what: string, seed: number, stream = 0): () => number {
  checkInteger(what, "seed", seed);
  const key: [number, number] = [seed >>> 0, Math.floor(seed / 2 ** 32)];
  let [block, words]: [number, readonly number[]] = [0, []];
  let at = 4;
  return () => {
    if (at >= 4) {
      words = philox4x32([block >>> 0, Math.floor(block / 2 ** 32), stream, 0], key);
      [block, at] = [block + 1, 0];
    }
    return (words[at++] as number) / 2 ** 32;
  };
}

/** 0 … length - 1 in random order (Fisher and Yates). */
export function permutation(length: number, draw: () => number): Int32Array {
  const order = Int32Array.from({ length }, (_unused, index) => index);
  for (let last = length - 1; last > 0; last--) {
    const other = Math.floor(draw() * (last + 1));
    [order[last], order[other]] = [order[other] as number, order[last] as number];
  }
  return order;
}
