/** @module The one hash of whole numbers of 32 bits that orders, sketches and tables share. */

/** The finaliser of MurmurHash3 (Appleby): each bit of the input changes each bit of the result with a probability near one half. Not negative. */
export function mixed(bits: number): number {
  let hash = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
