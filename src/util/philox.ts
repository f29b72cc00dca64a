/** @module Philox 4x32-10, the counter-based generator of Salmon et al. ("Parallel random numbers: as easy as 1, 2, 3", SC'11). */

const multiplier0 = 0xd2511f53;
const multiplier1 = 0xcd9e8d57;
const weyl0 = 0x9e3779b9;
const weyl1 = 0xbb67ae85;

/** Four random 32-bit words, a function of a 128-bit counter and a 64-bit key (both as unsigned 32-bit words). */
export function philox4x32(
  counter: readonly [number, number, number, number],
  key: readonly [number, number],
): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const high0 = multiplyHigh(multiplier0, c0);
    const low0 = Math.imul(multiplier0, c0) >>> 0;
    const high1 = multiplyHigh(multiplier1, c2);
    const low1 = Math.imul(multiplier1, c2) >>> 0;
    c0 = (high1 ^ c1 ^ k0) >>> 0;
    c1 = low1;
    c2 = (high0 ^ c3 ^ k1) >>> 0;
    c3 = low0;
    k0 = (k0 + weyl0) >>> 0;
    k1 = (k1 + weyl1) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** The upper 32 bits of the product of two unsigned 32-bit words; every partial sum stays below 2^32. */
function multiplyHigh(left: number, right: number): number {
  const leftLow = left & 0xffff;
  const leftHigh = left >>> 16;
  const rightLow = right & 0xffff;
  const rightHigh = right >>> 16;
  const middle = leftHigh * rightLow + ((leftLow * rightLow) >>> 16);
  const other = leftLow * rightHigh + (middle & 0xffff);
  return leftHigh * rightHigh + (middle >>> 16) + (other >>> 16);
}
