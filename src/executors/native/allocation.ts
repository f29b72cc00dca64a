/** @module The native core's size classes of buffers, by which freed memory is used again (`buffer.rs`). */

const smallest = 256;
const hugePage = 2 ** 21;

/** Bytes that are allocated for a buffer: four classes per power of two, whole huge pages from 2 MiB on. */
export function allocatedBytes(bytes: number): number {
  if (bytes <= smallest) return smallest;
  const step = Math.max(2 ** Math.ceil(Math.log2(bytes)) / 8, 64);
  const rounded = Math.ceil(bytes / step) * step;
  return rounded < hugePage ? rounded : Math.ceil(rounded / hugePage) * hugePage;
}
