/**
 * @module Discrete Fourier transforms over the last dims. There is no complex dtype: a complex tensor has a last dim of size
 * 2 with the real and the imaginary parts, as PyTorch's `view_as_real` has.
 */
import { dtypes, isFloat } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import type { View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node, type OpDef } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatShape, formatType, range, type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { inFloat32 } from "./wide.ts";

/** `forward` and `inverse` are between complex tensors; the other kinds have a real side of the given length. */
type Kind = "forward" | "inverse" | "fromReal" | "toReal";
export type FftAttrs = { kind: Kind; length: Shape };

export const realInput = (kind: Kind): boolean => kind === "fromReal";
export const realOutput = (kind: Kind): boolean => kind === "toReal";
/** Sizes of the complex side of a transform with a real one: the other half is its mirror image. */
const halved = (length: Shape): Shape => [...length.slice(0, -1), Math.floor((length.at(-1) as number) / 2) + 1];

function sides({ kind, length }: FftAttrs): { input: Shape; output: Shape } {
  if (realInput(kind)) return { input: length, output: [...halved(length), 2] };
  if (realOutput(kind)) return { input: [...halved(length), 2], output: length };
  return { input: [...length, 2], output: [...length, 2] };
}

function inferFft(inputs: readonly TensorType[], attrs: FftAttrs): TensorType {
  const [input] = inputs as [TensorType];
  const { input: from, output } = sides(attrs);
  const batch = input.shape.slice(0, Math.max(0, input.shape.length - from.length));
  const lastDims = input.shape.slice(batch.length);
  if (!isFloat(input.dtype)) throw new HeddleError("dtype", `fft: not defined for ${formatType(input)}`);
  const dims = attrs.length.length;
  const fits = lastDims.length === from.length && lastDims.every((size, dim) => size === from[dim]);
  if (!fits || dims < 1 || dims > 3 || attrs.length.some((size) => size < 1)) {
    throw new HeddleError("shape", `needs ${formatShape(from)} as the last dims, got ${formatType(input)}`, {
      by: `fft ${attrs.kind} of length ${formatShape(attrs.length)}`,
      hint: "a complex tensor has a last dim of size 2: the real and the imaginary parts",
    });
  }
  return { dtype: input.dtype, shape: [...batch, ...output] };
}

/** One line of complex numbers: by halves while the length is even, by the definition where it is odd. */
function line(re: Float64Array, im: Float64Array, sign: number): [Float64Array, Float64Array] {
  const n = re.length;
  const [outRe, outIm] = [new Float64Array(n), new Float64Array(n)];
  if (n % 2 === 1) {
    for (let k = 0; k < n; k++) {
      for (let j = 0; j < n; j++) {
        const angle = (sign * 2 * Math.PI * ((j * k) % n)) / n;
        const [c, s] = [Math.cos(angle), Math.sin(angle)];
        (outRe[k] as number) += (re[j] as number) * c - (im[j] as number) * s;
        (outIm[k] as number) += (re[j] as number) * s + (im[j] as number) * c;
      }
    }
    return [outRe, outIm];
  }
  const half = n / 2;
  const part = (values: Float64Array, odd: number): Float64Array =>
    Float64Array.from({ length: half }, (_unused, i) => values[2 * i + odd] as number);
  const [evenRe, evenIm] = line(part(re, 0), part(im, 0), sign);
  const [oddRe, oddIm] = line(part(re, 1), part(im, 1), sign);
  for (let k = 0; k < half; k++) {
    const angle = (sign * 2 * Math.PI * k) / n;
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    const x = (oddRe[k] as number) * c - (oddIm[k] as number) * s;
    const y = (oddRe[k] as number) * s + (oddIm[k] as number) * c;
    outRe[k] = (evenRe[k] as number) + x;
    outIm[k] = (evenIm[k] as number) + y;
    outRe[k + half] = (evenRe[k] as number) - x;
    outIm[k + half] = (evenIm[k] as number) - y;
  }
  return [outRe, outIm];
}

/** Transforms all lines along one dim in place. */
function transformDim(re: Float64Array, im: Float64Array, n: number, inner: number, sign: number): void {
  for (let start = 0; start < re.length; start += n * inner) {
    for (let column = 0; column < inner; column++) {
      const at = (i: number): number => start + column + i * inner;
      const pick = (from: Float64Array): Float64Array =>
        Float64Array.from({ length: n }, (_unused, i) => from[at(i)] as number);
      const [x, y] = line(pick(re), pick(im), sign);
      for (let i = 0; i < n; i++) {
        re[at(i)] = x[i] as number;
        im[at(i)] = y[i] as number;
      }
    }
  }
}

/** Fills the second half of each line from its first half, whose two ends are taken as real. */
function mirror(re: Float64Array, im: Float64Array, n: number): void {
  for (let start = 0; start < re.length; start += n) {
    im[start] = 0;
    if (n % 2 === 0) im[start + n / 2] = 0;
    for (let i = Math.floor(n / 2) + 1; i < n; i++) {
      re[start + i] = re[start + n - i] as number;
      im[start + i] = -(im[start + n - i] as number);
    }
  }
}

function referenceFft({ data, shape }: HostTensor, { kind, length }: FftAttrs): number[] {
  const last = length.at(-1) as number;
  const half = Math.floor(last / 2) + 1;
  const inputLast = realOutput(kind) ? half : last;
  const lines = sizeOf(shape) / (inputLast * (realInput(kind) ? 1 : 2));
  const [re, im] = [new Float64Array(lines * last), new Float64Array(lines * last)];
  for (let index = 0; index < lines * inputLast; index++) {
    const to = Math.floor(index / inputLast) * last + (index % inputLast);
    re[to] = data[realInput(kind) ? index : 2 * index] as number;
    im[to] = realInput(kind) ? 0 : (data[2 * index + 1] as number);
  }
  const sign = kind === "forward" || kind === "fromReal" ? -1 : 1;
  length.forEach((n, dim) => {
    if (realOutput(kind) && dim === length.length - 1) mirror(re, im, n);
    transformDim(re, im, n, sizeOf(length.slice(dim + 1)), sign);
  });
  const scale = sign === 1 ? sizeOf(length) : 1;
  const outputLast = realInput(kind) ? half : last;
  const out: number[] = [];
  for (let index = 0; index < lines * outputLast; index++) {
    const from = Math.floor(index / outputLast) * last + (index % outputLast);
    out.push((re[from] as number) / scale);
    if (!realOutput(kind)) out.push((im[from] as number) / scale);
  }
  return out;
}

/** A complex tensor times a number. */
const scaled = (x: Node, factor: number): Node => emit.mul(x, factor);

/** Pads the last complex dim with zeros at its end. */
function padded(x: Node, size: number): Node {
  const dim = x.shape.length - 2;
  const none = x.shape.map(() => 0);
  const high = none.map((_zero, at) => (at === dim ? size - (x.shape[dim] as number) : 0));
  return emit.pad(x, emit.constant(x.dtype, 0), none, high);
}

/** The real parts of a complex tensor. */
export function realPart(x: Node): Node {
  const start = x.shape.map(() => 0);
  const limit = x.shape.map((size, dim) => (dim === x.shape.length - 1 ? 1 : size));
  return emit.reshape(emit.slice(x, start, limit), x.shape.slice(0, -1));
}

/** The transpose of the transform, as a map of real numbers: F is symmetric, so its transpose is its conjugate. */
function transposed(dy: Node, { kind, length }: FftAttrs): Node {
  const count = sizeOf(length);
  const last = length.at(-1) as number;
  switch (kind) {
    case "forward":
      return scaled(transform(dy, "inverse", length), count);
    case "inverse":
      return scaled(transform(dy, "forward", length), 1 / count);
    case "fromReal":
      return scaled(realPart(transform(padded(dy, last), "inverse", length)), count);
    case "toReal": {
      const spectrum = transform(dy, "fromReal", length);
      // An element that also stands for its mirror image counts twice.
      const half = Math.floor(last / 2) + 1;
      const at = emit.iota("i32", spectrum.shape, spectrum.shape.length - 2);
      const once = emit.eq(at, 0);
      const ends = last % 2 === 0 ? emit.or(once, emit.eq(at, half - 1)) : once;
      return emit.mul(spectrum, emit.select(ends, emit.full(dy.dtype, spectrum.shape, 1 / count), 2 / count));
    }
  }
}

const fftOp: OpDef<FftAttrs> = defineOp<FftAttrs>({
  name: "fft",
  doc: "Fourier transform over the last dims, of `length` on the real side: `forward` without a factor, `inverse` over the number of points, both between complex tensors [..., 2]; `fromReal` gives the first half of the last dim, `toReal` is its inverse and takes the imaginary parts at both ends as 0.",
  example: {
    inputs: [{ dtype: "f32", shape: [2, 2], data: Float32Array.of(1, 0, 3, 0) }],
    attrs: { kind: "forward", length: [2] },
    outputs: [{ dtype: "f32", shape: [2, 2], data: Float32Array.of(4, 0, -2, 0) }],
  },
  infer: inferFft,
  equation: ([input], attrs) => {
    const { input: from, output } = sides(attrs);
    const batch = letters((input as TensorType).shape.length - from.length);
    const [inner, outer] = [letters(from.length, "i"), letters(output.length, "o")];
    return equationOf([[...batch, ...inner]], [[...batch, ...outer]], { whole: [...inner, ...outer] });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [inFloat32(cotangents, (dy) => transposed(dy as Node, node.attrs as FftAttrs))],
  batch: batchByEquation(),
  localize: absent("attributes hold sizes of dims that are never split"),
  cost: ([input], _outputs, { length }) =>
    5 * sizeOf((input as TensorType).shape) * Math.max(1, Math.log2(sizeOf(length))),
  reference: ([x], attrs, [type]) => [dtypes[(type as TensorType).dtype].create(referenceFft(x as HostTensor, attrs))],
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [x] = context.inputs as [View];
      const { kind, length } = context.attrs;
      const batch = sizeOf(x.shape.slice(0, x.shape.length - sides(context.attrs).input.length));
      const out = context.at(context.outputs[0] as View);
      return [kernels.fft.call({ kind, dtype: x.dtype, batch, length, in: context.at(x), out })];
    },
  },
});

const transform = (x: Node, kind: Kind, length: Shape): Node => apply(fftOp, [x], { kind, length });

/** The sizes of the last `dims` dims before `behind` further dims. */
function lengthOf(name: string, x: Node, dims: number, behind: number): number[] {
  const rank = x.shape.length - behind;
  if (behind === 1 && (x.shape.length < 2 || x.shape.at(-1) !== 2))
    throw new HeddleError("shape", `${name}: takes complex numbers, [..., n, 2], got ${formatType(x)}`, {
      hint: "real and imaginary parts are the last dim; use rfft for real numbers",
    });
  if (dims > rank || dims < 1 || dims > 3)
    throw new HeddleError("shape", `${name}: ${dims} dims of ${formatType(x)}: takes 1 to 3 of those there are`);
  return range(dims).map((dim) => x.shape[rank - dims + dim] as number);
}

/** Transform of a complex tensor [..., n, 2] over its last `dims` dims. */
export const fft = (x: Node, dims = 1): Node => transform(x, "forward", lengthOf("fft", x, dims, 1));
/** The inverse of {@link fft}, divided by the number of points. */
export const ifft = (x: Node, dims = 1): Node => transform(x, "inverse", lengthOf("ifft", x, dims, 1));
/** Transform of a real tensor: [..., n] to [..., n / 2 + 1, 2]. */
export const rfft = (x: Node, dims = 1): Node => transform(x, "fromReal", lengthOf("rfft", x, dims, 0));
/** The inverse of {@link rfft}: to a real tensor whose last size is `last`. */
export function irfft(x: Node, last?: number, dims = 1): Node {
  const length = lengthOf("irfft", x, dims, 1);
  length[dims - 1] = last ?? 2 * ((length[dims - 1] as number) - 1);
  return transform(x, "toReal", length);
}
