/** @module What the native core allocates for a buffer: size classes, so that freed memory serves again (`buffer.rs`). */

const smallest = 256;
const hugePage = 2 ** 21;

/** Bytes that are taken for a buffer of so many bytes: four classes per power of two, from 2 MiB on whole huge pages. */
export function allocatedBytes(bytes: number): number {
  if (bytes <= smallest) return smallest;
  const step = Math.max(2 ** Math.ceil(Math.log2(bytes)) / 8, 64);
  const taken = Math.ceil(bytes / step) * step;
  return taken < hugePage ? taken : Math.ceil(taken / hugePage) * hugePage;
}
