/** @module CRC-32C (Castagnoli), as TFRecord has it; Node has only the other CRC-32. */

const table = Uint32Array.from({ length: 256 }, (_unused, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc >>> 0;
});

/** The checksum of some bytes. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) crc = (crc >>> 8) ^ (table[(crc ^ (bytes[at] as number)) & 255] as number);
  return ~crc >>> 0;
}
