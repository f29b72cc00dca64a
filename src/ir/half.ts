/**
 * @module The 16-bit floats: f16 (IEEE 754 binary16) and bf16 (the upper half of an f32). Rounding is to nearest even, in
 * one step; what is too large becomes infinite. `native/half` does the same.
 */

interface HalfFormat {
  /** Significant bits, with the leading one. */
  readonly precision: number;
  /** Exponent of the smallest normal number. */
  readonly least: number;
  readonly highest: number;
}

/** The formats by dtype. */
export const halfFormats: { readonly [D in "f16" | "bf16"]: HalfFormat } = {
  f16: { precision: 11, least: -14, highest: 65504 },
  bf16: { precision: 8, least: -126, highest: (2 - 2 ** -7) * 2 ** 127 },
};

const words = new DataView(new ArrayBuffer(8));
// Adding it rounds what is below 2^51 to an integer, halves to even.
const whole = 1.5 * 2 ** 52;

/** The nearest value of the format. */
export function roundToHalf(dtype: "f16" | "bf16", value: number): number {
  if (!Number.isFinite(value) || value === 0) return value;
  const { precision, least, highest } = halfFormats[dtype];
  words.setFloat64(0, value);
  const exponent = Math.max(((words.getUint16(0) >> 4) & 0x7ff) - 1023, least);
  const unit = 2 ** (exponent - precision + 1);
  const rounded = (Math.abs(value) / unit + whole - whole) * unit;
  const magnitude = rounded > highest ? Infinity : rounded;
  return value < 0 ? -magnitude : magnitude;
}

/** The largest value of the format below one of it, which is finite. */
export function halfBelow(dtype: "f16" | "bf16", value: number): number {
  const [bits] = encodeHalf(dtype, [value]) as unknown as [number];
  const below = value === 0 ? 0x8001 : value > 0 ? bits - 1 : bits + 1;
  return decodeHalf(dtype, Uint16Array.of(below))[0] as number;
}

/** The bits of values, two bytes each; values that are none of the format are rounded. */
export function encodeHalf(dtype: "f16" | "bf16", values: ArrayLike<number>): Uint16Array {
  const out = new Uint16Array(values.length);
  for (let index = 0; index < out.length; index++) {
    const value = values[index] as number;
    out[index] = dtype === "bf16" ? bf16Bits(value) : f16Bits(value);
  }
  return out;
}

/** The values of bits. */
export function decodeHalf(dtype: "f16" | "bf16", bits: Uint16Array): Float32Array {
  const out = new Float32Array(bits.length);
  if (dtype === "bf16") {
    const raw = new Uint32Array(out.buffer);
    for (let index = 0; index < bits.length; index++) raw[index] = (bits[index] as number) << 16;
    return out;
  }
  for (let index = 0; index < bits.length; index++) out[index] = f16Value(bits[index] as number);
  return out;
}

function bf16Bits(value: number): number {
  words.setFloat32(0, roundToHalf("bf16", value));
  return words.getUint16(0) | (Number.isNaN(value) ? 0x40 : 0);
}

function f16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const rounded = roundToHalf("f16", value);
  const sign = rounded < 0 || Object.is(rounded, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(rounded);
  if (magnitude === Infinity) return sign | 0x7c00;
  if (magnitude < 2 ** -14) return sign | (magnitude * 2 ** 24);
  words.setFloat32(0, magnitude);
  // The exponent is 112 less in f16, and the mantissa has 13 bits less.
  return sign | ((words.getUint32(0) - 0x38000000) >>> 13);
}

function f16Value(bits: number): number {
  const [sign, exponent, mantissa] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 0x3ff];
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : Number.NaN;
  return exponent === 0 ? sign * mantissa * 2 ** -24 : sign * (1024 + mantissa) * 2 ** (exponent - 25);
}
