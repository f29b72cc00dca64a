/** @module Lossless compression, by zlib. */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import {
  eachPart,
  type Filter,
  type Message,
  malformedPart,
  noted,
  type Part,
  registerFilter,
  unnoted,
  type Values,
} from "./filter.ts";

const arrays = { Float32Array, Float64Array, Uint16Array, Uint8Array, BigUint64Array } as const;
type Kind = keyof typeof arrays;
type Packed = { readonly kind: Kind; readonly bytes: number };

/** Deflates values and row numbers, byte by byte of their elements, where that is shorter. */
export const lossless = (level = 1): Filter => ({
  name: "lossless",
  sender: () => ({ encode: (message: Message) => eachPart(message, (part) => packed(part, level)) }),
  receiver: () => ({ decode: (message: Message) => eachPart(message, unpacked) }),
});

function packed(part: Part, level: number): Part {
  const values = deflated(part.values, level);
  const rows = part.rows === undefined ? undefined : deflated(part.rows, level);
  if (values === undefined && rows === undefined) return part;
  const note = { filter: "lossless", ...(values && { values: values.packed }), ...(rows && { rows: rows.packed }) };
  return noted({ ...part, ...(values && { values: values.bytes }), ...(rows && { rows: rows.bytes }) }, note);
}

function unpacked(given: Part, tensor: string): Part {
  const found = unnoted(given, "lossless");
  if (found === undefined) return given;
  const { part, note } = found;
  // The length is bounded before memory is taken: no other filter makes more of a part.
  const most = part.count * part.width * 16 + 2 ** 16;
  const open = (bytes: unknown, as: unknown) => inflated(bytes, as as Packed, most, tensor);
  return {
    ...part,
    ...(note["values"] !== undefined && { values: open(part.values, note["values"]) as Values }),
    ...(note["rows"] !== undefined && { rows: open(part.rows, note["rows"]) as BigUint64Array }),
  };
}

function deflated(array: Values | BigUint64Array, level: number): { bytes: Uint8Array; packed: Packed } | undefined {
  const bytes = deflateRawSync(planes(bytesOfArray(array), array.BYTES_PER_ELEMENT), { level });
  if (bytes.byteLength >= array.byteLength) return undefined;
  const kind = array.constructor.name as Kind;
  return { bytes, packed: { kind, bytes: array.byteLength } };
}

function inflated(
  bytes: unknown,
  { kind, bytes: length }: Packed,
  most: number,
  tensor: string,
): Values | BigUint64Array {
  const array = Object.hasOwn(arrays, kind) ? arrays[kind] : undefined;
  if (
    !(bytes instanceof Uint8Array) ||
    array === undefined ||
    !Number.isSafeInteger(length) ||
    length < 0 ||
    length > most
  )
    throw malformedPart("lossless", tensor, "is malformed");
  let whole: Uint8Array;
  try {
    whole = inflateRawSync(bytes, { maxOutputLength: Math.max(1, length) });
  } catch (error) {
    throw malformedPart("lossless", tensor, `cannot be unpacked: ${(error as Error).message}`);
  }
  if (whole.byteLength !== length || length % array.BYTES_PER_ELEMENT !== 0)
    throw malformedPart("lossless", tensor, `has ${whole.byteLength} bytes, not ${length}`);
  const joined = joinedPlanes(whole, array.BYTES_PER_ELEMENT);
  return new array(joined.buffer as ArrayBuffer, 0, length / array.BYTES_PER_ELEMENT);
}

const bytesOfArray = ({ buffer, byteOffset, byteLength }: Values | BigUint64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** All first bytes of the elements, then all second bytes, …: those of like numbers are alike. */
function planes(bytes: Uint8Array, width: number): Uint8Array {
  const count = bytes.length / width;
  const out = new Uint8Array(bytes.length);
  for (let index = 0; index < bytes.length; index++)
    out[(index % width) * count + Math.floor(index / width)] = bytes[index] as number;
  return out;
}

function joinedPlanes(bytes: Uint8Array, width: number): Uint8Array {
  const count = bytes.length / width;
  const out = new Uint8Array(bytes.length);
  for (let index = 0; index < bytes.length; index++)
    out[index] = bytes[(index % width) * count + Math.floor(index / width)] as number;
  return out;
}

registerFilter({
  name: "lossless",
  doc: "deflates values and row numbers",
  numbers: [{ name: "LEVEL", doc: "zlib's level, to 9", default: 1 }],
  make: (level) => lossless(level as number),
});
