/** @module Values as 8 or 16 bits between the least and the greatest of a message, with stochastic rounding. */
import { HeddleError } from "../util/errors.ts";
import {
  eachPart,
  type Filter,
  type Message,
  malformedPart,
  noted,
  numbersOf,
  type Part,
  registerFilter,
  unnoted,
} from "./filter.ts";
import { uniforms } from "./random-skip.ts";

/** Codes at the top that stand for NaN, Infinity and -Infinity. */
const special = [NaN, Infinity, -Infinity];

/**
 * Rounds each value up or down at random, so that its mean is the value. NaN and infinite values have codes of their own and stay what
 * they are; the range is that of the finite ones.
 */
export function fixedPoint(bits: number, seed = 0): Filter {
  if (bits !== 8 && bits !== 16)
    throw new HeddleError("option", `filter 'fixed-point': there are 8 and 16 bits, got ${bits}`);
  const highest = 2 ** bits - 1 - special.length;
  return {
    name: "fixed-point",
    sender() {
      const next = uniforms(seed);
      return { encode: (message: Message) => eachPart(message, (part) => pack(part, bits, highest, next)) };
    },
    receiver: () => ({
      decode: (message: Message) => eachPart(message, (part, tensor) => unpack(part, tensor, highest)),
    }),
  };
}

function pack(part: Part, bits: number, highest: number, next: () => number): Part {
  const values = numbersOf(part, "fixed-point");
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (least > most) [least, most] = [0, 0];
  // Halves first: the distance of two f64 may be above the largest number.
  const step = most / highest - least / highest;
  const codes = new (bits === 8 ? Uint8Array : Uint16Array)(values.length);
  for (const [index, value] of values.entries()) {
    if (Number.isFinite(value)) {
      const place = step === 0 ? 0 : value / step - least / step;
      const low = Math.floor(place);
      codes[index] = Math.min(highest, Math.max(0, low + (next() < place - low ? 1 : 0)));
    } else codes[index] = highest + 1 + special.findIndex((one) => Object.is(one, value));
  }
  const kind = values instanceof Float32Array ? "f32" : "f64";
  return noted({ ...part, values: codes }, { filter: "fixed-point", least, most, kind });
}

function unpack(given: Part, tensor: string, highest: number): Part {
  const found = unnoted(given, "fixed-point");
  if (found === undefined) return given;
  const { part, note } = found;
  const { least, most, kind } = note as unknown as { least: number; most: number; kind: string };
  const { values: codes } = part;
  const isPacked = codes instanceof (highest < 256 ? Uint8Array : Uint16Array);
  if (!isPacked || typeof least !== "number" || typeof most !== "number")
    throw malformedPart("fixed-point", tensor, "is malformed");
  const values = new (kind === "f64" ? Float64Array : Float32Array)(codes.length);
  for (const [index, code] of codes.entries()) {
    const place = code / highest;
    values[index] = code > highest ? (special[code - highest - 1] as number) : least * (1 - place) + most * place;
  }
  return { ...part, values };
}

registerFilter({
  name: "fixed-point",
  doc: "values as BITS bits between the least and the greatest, rounded at random without bias",
  numbers: [
    { name: "BITS", doc: "8 or 16", default: 8 },
    { name: "SEED", doc: "the seed of the rounding", default: 0 },
  ],
  make: (bits, seed) => fixedPoint(bits as number, seed as number),
});
