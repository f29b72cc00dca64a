/** @module The packets between workers and a switch that adds them up: a header and 32-bit lanes, little-endian. */

/** Lanes of a packet: 1 KiB, so that a packet fits into a frame of Ethernet. */
export const lanesPerPacket = 256;

/** Slots of a switch unless its address says otherwise. */
export const defaultSlots = 64;

/** The exponent of a chunk of which all elements are 0, and of one with an element that is not finite. */
export const allZero = -32768;
export const notFinite = 32767;

/** A worker's contribution to a slot, or the sum of all, which has the number of a worker that is not meant. */
export interface Packet {
  /** Which group of workers: packets of another are ignored. */
  readonly job: number;
  readonly worker: number;
  /** Number of workers, as the sender has it. */
  readonly workers: number;
  readonly slot: number;
  /** How often the slot has been used before by this group. */
  readonly phase: number;
  /** The largest exponent of what the worker will send next in the slot, or of what all will. */
  readonly exponent: number;
  readonly lanes: Int32Array;
}

const magic = 0x4857;
const headerBytes = 20;

export function encode({ job, worker, workers, slot, phase, exponent, lanes }: Packet): Buffer {
  const bytes = Buffer.alloc(headerBytes + 4 * lanes.length);
  bytes.writeUInt16LE(magic, 0);
  bytes.writeUInt16LE(worker, 2);
  bytes.writeUInt32LE(job, 4);
  bytes.writeUInt32LE(phase, 8);
  bytes.writeUInt16LE(slot, 12);
  bytes.writeInt16LE(exponent, 14);
  bytes.writeUInt16LE(lanes.length, 16);
  bytes.writeUInt16LE(workers, 18);
  lanes.forEach((lane, index) => {
    bytes.writeInt32LE(lane, headerBytes + 4 * index);
  });
  return bytes;
}

/** The packet in bytes; undefined for bytes that are none: anyone may send to a port. */
export function decode(bytes: Buffer): Packet | undefined {
  if (bytes.length < headerBytes || bytes.readUInt16LE(0) !== magic) return undefined;
  const count = bytes.readUInt16LE(16);
  if (count > lanesPerPacket || bytes.length !== headerBytes + 4 * count) return undefined;
  return {
    worker: bytes.readUInt16LE(2),
    job: bytes.readUInt32LE(4),
    phase: bytes.readUInt32LE(8),
    slot: bytes.readUInt16LE(12),
    exponent: bytes.readInt16LE(14),
    workers: bytes.readUInt16LE(18),
    lanes: Int32Array.from({ length: count }, (_unused, index) => bytes.readInt32LE(headerBytes + 4 * index)),
  };
}
