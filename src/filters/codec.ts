/** @module The codecs of gradient compression as a filter: a worker's update is the gradient of one device. */
import { type Compressor, compressorNamed, type Parts } from "../compression/index.ts";
import { random, type Tensor, tensor } from "../functions/index.ts";
import { type DType, dtypes, isDType, isHalf } from "../ir/dtype.ts";
import { decodeHalf, encodeHalf } from "../ir/half.ts";
import { sizeOf } from "../ir/shape.ts";
import { concatenated } from "../util/bytes.ts";
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

/** One tensor in the bytes of a part. */
interface Stored {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** Options of {@link codec}. */
export interface CodecOptions {
  /** The seed of what a compressor draws at random; default 0. */
  readonly seed?: number;
}

/**
 * Updates through a compressor of `compression`, such as `"topK"`; what it does not send is added to the next update, where the compressor
 * wants that. Such a compressor takes whole tensors only. A part with an infinite value or a NaN is sent as it is.
 *
 * @throws HeddleError `option` when there is no such compressor
 */
export function codec(by: Compressor | string, { seed = 0 }: CodecOptions = {}): Filter {
  const compressor = typeof by === "string" ? compressorNamed(by) : by;
  return {
    name: compressor.name,
    sender() {
      const kept = new Map<string, Kept>();
      return {
        encode: (message: Message) =>
          eachPart(message, (part, name) => {
            const before = kept.get(name) ?? { step: 0, state: undefined, residual: undefined };
            const { part: encoded, after } = compressed(compressor, part, before, seed);
            kept.set(name, after);
            return encoded;
          }),
      };
    },
    receiver: () => ({
      decode: (message: Message) => eachPart(message, (part, name) => decompressed(compressor, part, name)),
    }),
  };
}

/** What the sender keeps for a tensor. */
interface Kept {
  readonly step: number;
  readonly state: Parts | undefined;
  readonly residual: Tensor | undefined;
}

const shapeOf = ({ width, values }: Part): number[] => (width === 1 ? [values.length] : [values.length / width, width]);

function compressed(by: Compressor, part: Part, before: Kept, seed: number): { part: Part; after: Kept } {
  const values = numbersOf(part, by.name);
  const shape = shapeOf(part);
  if (by.feedback && part.rows !== undefined)
    throw new HeddleError(
      "option",
      `filter '${by.name}' adds what it does not send to the next update of the whole tensor`,
      {
        hint: "put no filter that chooses rows before it",
      },
    );
  if (by.fits?.(shape) === false || values.length === 0 || !values.every((value) => Number.isFinite(value)))
    return { part, after: before };
  const dtype = values instanceof Float64Array ? "f64" : "f32";
  const key = random.foldIn(random.key(seed), before.step);
  const own = tensor(values, { shape: [1, ...shape], dtype });
  const x = before.residual === undefined ? own : own.add(before.residual);
  const state = before.state ?? by.initial?.({ shape, dtype }, key) ?? {};
  const { message, shared = {} } = by.compress(x, { key, state, sum: (one) => one.sum(0) });
  // What devices know anyway travels too: the receiver has not seen the update.
  const stored = { ...prefixed("m", message), ...prefixed("s", shared) };
  const given = { shape, dtype, shared } as const;
  const residual = by.feedback ? x.sub(by.decompress(message, given)) : undefined;
  const after = { step: before.step + 1, state: by.next?.(message, shared) ?? state, residual };
  const tensors = Object.entries(stored).map(([name, one]): Stored => ({ name, dtype: one.dtype, shape: one.shape }));
  const bytes = concatenated(Object.values(stored).map(bytesOfTensor));
  return { part: noted({ ...part, values: bytes }, { filter: "codec", by: by.name, dtype, shape, tensors }), after };
}

function decompressed(by: Compressor, given: Part, name: string): Part {
  const found = unnoted(given, "codec");
  if (found === undefined) return given;
  const { part, note } = found;
  const { dtype, shape, tensors } = note as unknown as { dtype: "f32" | "f64"; shape: number[]; tensors: Stored[] };
  const bytes = part.values;
  if (note["by"] !== by.name || !(bytes instanceof Uint8Array) || !Array.isArray(tensors) || !isShape(shape))
    throw malformedPart(by.name, name, "is malformed");
  if (sizeOf(shape) > part.count * part.width) throw malformedPart(by.name, name, "is of more values than there are");
  const parts: { m: Record<string, Tensor>; s: Record<string, Tensor> } = { m: {}, s: {} };
  let at = 0;
  for (const stored of tensors) {
    if (!isStored(stored)) throw malformedPart(by.name, name, "is malformed");
    const size = sizeOf(stored.shape) * elementBytes(stored.dtype);
    if (at + size > bytes.length) throw malformedPart(by.name, name, "is too short");
    parts[stored.name[0] as "m" | "s"][stored.name.slice(2)] = tensorOf(stored, bytes.slice(at, at + size));
    at += size;
  }
  if (at !== bytes.length) throw malformedPart(by.name, name, "is too long");
  const whole = by.decompress(parts.m, { shape, dtype, shared: parts.s });
  return { ...part, values: whole.dataSync<Float32Array | Float64Array>() };
}

const prefixed = (prefix: "m" | "s", parts: Parts): Record<string, Tensor> =>
  Object.fromEntries(Object.entries(parts).map(([name, one]) => [`${prefix}.${name}`, one]));

const isShape = (shape: unknown): shape is number[] =>
  Array.isArray(shape) && shape.every((size) => Number.isSafeInteger(size) && size >= 0);

const isStored = ({ name, dtype, shape }: Stored): boolean =>
  typeof name === "string" && /^[ms]\./.test(name) && isDType(String(dtype)) && isShape(shape);

const elementBytes = (dtype: DType): number => (isHalf(dtype) ? 2 : dtypes[dtype].create(1).BYTES_PER_ELEMENT);

function bytesOfTensor(one: Tensor): Uint8Array {
  const data = one.dataSync();
  const stored = isHalf(one.dtype) ? encodeHalf(one.dtype, data) : data;
  return new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength);
}

function tensorOf({ dtype, shape }: Stored, bytes: Uint8Array): Tensor {
  if (isHalf(dtype)) return tensor(decodeHalf(dtype, new Uint16Array(bytes.buffer)), { dtype, shape });
  // A name of its own: esbuild 0.28 drops the parentheses of an expression after `new`.
  const Elements = dtypes[dtype].create(0).constructor as Float64ArrayConstructor;
  const data = new Elements(bytes.buffer as ArrayBuffer);
  return tensor(data, { dtype, shape });
}

for (const name of ["bf16", "f16", "int8", "sign", "oneBit", "topK", "randomK", "quantiles"])
  registerFilter({
    name: name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    doc: `the codec ${name} of gradient compression`,
    make: () => codec(name),
  });
