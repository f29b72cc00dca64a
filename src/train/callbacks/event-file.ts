/**
 * @module Files of events as TensorBoard reads them: records of TFRecord framing, each an `Event` message of protocol buffers
 * (`tensorflow/core/util/event.proto`, `framework/summary.proto`).
 */

import { hostname } from "node:os";
import { join } from "node:path";
import { BinaryWriter } from "@bufbuild/protobuf/wire";

/** The content of an event. */
export type EventValue =
  | { readonly kind: "version" }
  /** A resumed run continues here: earlier events of this step and of later steps are void. */
  | { readonly kind: "start" }
  | { readonly kind: "scalar"; readonly tag: string; readonly value: number }
  | { readonly kind: "histogram"; readonly tag: string; readonly values: ArrayLike<number> }
  | { readonly kind: "text"; readonly tag: string; readonly text: string };

/** An event of a step. */
export interface Event {
  /** Seconds since 1970. */
  readonly wallTime: number;
  readonly step: number;
  readonly value: EventValue;
}

/** Wire types and field numbers of the messages. */
const f64 = 1;
const bytes = 2;
const f32 = 5;
const varint = 0;
const tag = (field: number, wireType: number): number => (field << 3) | wireType;

/** The record of an event in a file. */
export const eventRecord = (event: Event): Uint8Array => framed(encodeEvent(event));

/** An `Event` message. */
export function encodeEvent({ wallTime, step, value }: Event): Uint8Array {
  const event = new BinaryWriter();
  event.uint32(tag(1, f64)).double(wallTime);
  if (step !== 0) event.uint32(tag(2, varint)).int64(step);
  if (value.kind === "version") return event.uint32(tag(3, bytes)).string("brain.Event:2").finish();
  if (value.kind === "start") {
    const sessionStart = 1;
    const log = new BinaryWriter().uint32(tag(1, varint)).int32(sessionStart).finish();
    return event.uint32(tag(7, bytes)).bytes(log).finish();
  }
  const entry = new BinaryWriter();
  entry.uint32(tag(1, bytes)).string(value.tag);
  if (value.kind === "scalar") entry.uint32(tag(2, f32)).float(value.value);
  if (value.kind === "histogram") entry.uint32(tag(5, bytes)).bytes(histogram(value.values));
  if (value.kind === "text") {
    entry.uint32(tag(8, bytes)).bytes(textTensor(value.text));
    entry.uint32(tag(9, bytes)).bytes(textMetadata());
  }
  const summary = new BinaryWriter().uint32(tag(1, bytes)).bytes(entry.finish()).finish();
  return event.uint32(tag(5, bytes)).bytes(summary).finish();
}

/** A `TensorProto` of one string. */
function textTensor(text: string): Uint8Array {
  const stringType = 7;
  const dim = new BinaryWriter().uint32(tag(1, varint)).int64(1).finish();
  const shape = new BinaryWriter().uint32(tag(2, bytes)).bytes(dim).finish();
  const tensor = new BinaryWriter().uint32(tag(1, varint)).int32(stringType).uint32(tag(2, bytes)).bytes(shape);
  return tensor.uint32(tag(8, bytes)).bytes(Buffer.from(text)).finish();
}

/** A `SummaryMetadata` for the plugin that shows texts. */
function textMetadata(): Uint8Array {
  const plugin = new BinaryWriter().uint32(tag(1, bytes)).string("text").finish();
  return new BinaryWriter().uint32(tag(1, bytes)).bytes(plugin).finish();
}

/** The upper ends of the buckets: TensorFlow's, by factors of 1.1 from 1e-12 to 1e20 on both sides of 0. */
const limits: readonly number[] = (() => {
  const positive: number[] = [];
  for (let value = 1e-12; value < 1e20; value *= 1.1) positive.push(value);
  positive.push(Number.MAX_VALUE);
  return [...positive.map((value) => -value).reverse(), 0, ...positive];
})();

/** A `HistogramProto` of the finite values; one empty bucket represents a range of empty buckets. */
function histogram(values: ArrayLike<number>): Uint8Array {
  const counts = new Map<number, number>();
  let [min, max, count, sum, squares] = [Infinity, -Infinity, 0, 0, 0];
  for (let index = 0; index < values.length; index++) {
    const value = values[index] as number;
    if (!Number.isFinite(value)) continue;
    [min, max] = [Math.min(min, value), Math.max(max, value)];
    count++;
    sum += value;
    squares += value * value;
    const bucket = firstAbove(value);
    counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
  }
  if (count === 0) [min, max] = [0, 0];
  const writer = new BinaryWriter();
  const doubles = [min, max, count, sum, squares];
  doubles.forEach((value, index) => {
    if (value !== 0) writer.uint32(tag(index + 1, f64)).double(value);
  });
  // Each bucket with values, and before it an empty bucket that ends where it begins.
  const used = [...counts.keys()].sort((left, right) => left - right);
  const shown = [...new Set(used.flatMap((bucket) => (bucket === 0 ? [bucket] : [bucket - 1, bucket])))];
  const packed = (field: number, numbers: readonly number[]): void => {
    writer.uint32(tag(field, bytes)).fork();
    for (const value of numbers) writer.double(value);
    writer.join();
  };
  packed(
    6,
    shown.map((bucket) => limits[bucket] as number),
  );
  packed(
    7,
    shown.map((bucket) => counts.get(bucket) ?? 0),
  );
  return writer.finish();
}

/** The bucket of a value: the first whose upper end is above the value; the last bucket includes its end. */
function firstAbove(value: number): number {
  let [low, high] = [0, limits.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value < (limits[middle] as number)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A record: length, masked checksum of the length, data, masked checksum of the data; all little-endian. */
export function framed(data: Uint8Array): Uint8Array {
  const record = new Uint8Array(12 + data.length + 4);
  const view = new DataView(record.buffer);
  view.setBigUint64(0, BigInt(data.length), true);
  view.setUint32(8, maskedCrc32c(record.subarray(0, 8)), true);
  record.set(data, 12);
  view.setUint32(12 + data.length, maskedCrc32c(data), true);
  return record;
}

/** The checksum of a record: the CRC-32C is rotated and shifted, as data may contain checksums themselves. */
export function maskedCrc32c(data: Uint8Array): number {
  const crc = crc32c(data);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** Castagnoli's polynomial, bits reversed. */
const table = Uint32Array.from({ length: 256 }, (_unused, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});

/** CRC-32C (RFC 3720, appendix B.4). */
export function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = (table[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

let files = 0;

/** The path of a new event file, as TensorBoard expects it; names sort by time. */
export function eventFilePath(folder: string, now: number): string {
  const seconds = String(Math.floor(now)).padStart(10, "0");
  return join(folder, `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${files++}.heddle`);
}
