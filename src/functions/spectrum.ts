/** @module The short-time Fourier transform and its inverse, and the frequencies of a transform. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkDType } from "../tensor/arguments.ts";
import { checkTensor, isTensor, operate, type Tensor, valuesAtHand } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type CreateOptions, tensor } from "./create.ts";
import { foldAlong, padBorderNode, sliceDim, windowsAlong } from "./nodes.ts";

/** Options of {@link istft}, and of {@link stft}. */
export interface SpectrumOptions {
  /** Distance between the starts of pieces; default a quarter of their size. */
  readonly hop?: number;
  /** Factors of a piece: up to `size` numbers, centred in the piece, in the dtype of the signal; default ones. */
  readonly window?: Tensor;
  /** Whether pieces are centred on their positions, with the signal padded at both ends; default true. */
  readonly center?: boolean;
  /** Whether spectra are divided by the square root of `size`; default false. */
  readonly normalized?: boolean;
}

/** Options of {@link stft}. */
export interface StftOptions extends SpectrumOptions {
  /** How `center` pads the signal; default by its mirror image. */
  readonly padding?: "reflect" | "replicate" | "circular" | "zeros";
}

/** Options of {@link istft}. */
export interface IstftOptions extends SpectrumOptions {
  /** The number of elements of the signal; default as many as the pieces cover. */
  readonly length?: number;
}

interface Pieces {
  readonly size: number;
  readonly hop: number;
  readonly center: boolean;
  readonly scale: number;
}

function piecesOf(what: string, x: Tensor, size: number, options: SpectrumOptions): Pieces {
  checkInteger(what, "size", size, 1);
  const { hop = Math.max(1, Math.floor(size / 4)), window, center = true, normalized = false } = options;
  checkInteger(what, "hop", hop, 1);
  if (!isFloat(x.dtype)) throw new HeddleError("dtype", `${what}: takes floats, got ${formatType(x)}`);
  const fits =
    window === undefined || (isTensor(window) && window.shape.length === 1 && window.size <= size && window.size > 0);
  if (!fits || (window !== undefined && window.dtype !== x.dtype))
    throw new HeddleError(
      "shape",
      `${what}: window must be a vector of at most ${size} numbers in ${x.dtype}, got ${isTensor(window) ? formatType(window) : shown(window)}`,
    );
  return { size, hop, center, scale: normalized ? 1 / Math.sqrt(size) : 1 };
}

/** The window centred in a piece of zeros. */
function windowOf(size: number, window: Node): Node {
  const [length] = window.shape as [number];
  const low = Math.floor((size - length) / 2);
  return ops.pad(window, ops.constant(window.dtype, 0), [low], [size - length - low]);
}

/**
 * Short-time Fourier transform of real signals `[…, time]`: the spectra of pieces of `size` elements, every `hop` elements, as
 * `[…, size / 2 + 1, pieces, 2]`, with real and imaginary parts last: PyTorch's `stft` of real numbers, whose other half is the mirror
 * image. f32 or f64; 16-bit floats are computed in f32.
 *
 * @throws HeddleError `shape` if a piece or the window does not fit; `dtype` for integers; `option` for another padding
 * @example stft(signal, 400, { hop: 160, window })
 */
export function stft(x: Tensor, size: number, options: StftOptions = {}): Tensor {
  checkTensor("stft", x);
  checkOptions("stft", options, ["hop", "window", "center", "normalized", "padding"]);
  const { window, padding = "reflect" } = options;
  if (!["reflect", "replicate", "circular", "zeros"].includes(padding))
    throw new HeddleError("option", `stft: padding is ${shown(padding)}`, {
      hint: "it can be reflect, replicate, circular, zeros",
    });
  const pieces = piecesOf("stft", x, size, options);
  const length = x.shape.at(-1) ?? 0;
  const border = pieces.center ? Math.floor(size / 2) : 0;
  if (x.shape.length === 0 || length + 2 * border < size || (padding === "reflect" && border >= Math.max(1, length)))
    throw new HeddleError("shape", `stft: pieces of ${size} do not fit into ${formatType(x)}`);
  const operands = window === undefined ? [x] : [x, window];
  return operate("stft", buildStft as never, operands, pieces, padding);
}

function buildStft(...all: unknown[]): Node {
  const [{ size, hop, center, scale }, padding] = all.slice(-2) as [Pieces, string];
  const [x, window] = all.slice(0, -2) as [Node, Node?];
  const last = x.shape.length - 1;
  const border = center ? Math.floor(size / 2) : 0;
  const around = x.shape.map((_size, dim): [number, number] => (dim === last ? [border, border] : [0, 0]));
  const amounts = around.map(([low]) => low);
  const zero = ops.constant(x.dtype, 0);
  const signal =
    border === 0
      ? x
      : padding === "zeros"
        ? ops.pad(x, zero, amounts, amounts)
        : padBorderNode(x, around, padding as "reflect");
  const count = Math.floor(((signal.shape[last] as number) - size) / hop) + 1;
  const cut = windowsAlong(signal, last, { size, count, stride: hop, dilation: 1 });
  const frames = ops.transpose(cut, [...range(last), last + 1, last]);
  const weighted = window === undefined ? frames : ops.mul(frames, windowOf(size, window));
  const spectra = ops.rfft(weighted);
  const scaled = scale === 1 ? spectra : ops.mul(spectra, scale);
  return ops.transpose(scaled, [...range(last), last + 1, last, last + 2]);
}

/**
 * The signals `[…, time]` whose pieces have these spectra `[…, size / 2 + 1, pieces, 2]`: PyTorch's `istft`, the inverse of
 * {@link stft} with the same options. Overlapping pieces are weighted by their windows (Griffin and Lim, 1984): if no signal has exactly
 * these spectra, the result is the nearest one.
 *
 * @throws HeddleError `shape` if spectra or the window do not fit; `dtype` for integers; `value` if squares of the windows add up to
 * no more than 1e-11 somewhere, as in PyTorch (with a traced window the result is not finite there)
 */
export function istft(x: Tensor, size: number, options: IstftOptions = {}): Tensor {
  checkTensor("istft", x);
  checkOptions("istft", options, ["hop", "window", "center", "normalized", "length"]);
  const pieces = piecesOf("istft", x, size, options);
  const [bins, count, parts] = x.shape.slice(-3);
  if (x.shape.length < 3 || bins !== Math.floor(size / 2) + 1 || count === 0 || parts !== 2)
    throw new HeddleError(
      "shape",
      `istft: takes spectra [..., ${Math.floor(size / 2) + 1}, pieces, 2] of pieces of ${size}, got ${formatType(x)}`,
    );
  if (options.length !== undefined) checkInteger("istft", "length", options.length, 0);
  const { window } = options;
  checkCovered(pieces, count as number, window, options.length ?? -1);
  const operands = window === undefined ? [x] : [x, window];
  return operate("istft", buildIstft as never, operands, pieces, options.length ?? -1);
}

/** Where the signal lies in the range that the pieces cover: its first element, and the element after its last. */
function extentOf(
  { size, hop, center }: Pieces,
  count: number,
  wanted: number,
): readonly [first: number, last: number] {
  const whole = size + hop * (count - 1);
  const border = center ? Math.floor(size / 2) : 0;
  return [border, Math.max(border, wanted < 0 ? whole - border : Math.min(whole, border + wanted))];
}

/** Refuses windows that miss an element of the signal, which the spectra then do not hold. */
function checkCovered(pieces: Pieces, count: number, window: Tensor | undefined, wanted: number): void {
  const { size, hop } = pieces;
  const weights = window === undefined ? range(size).map(() => 1) : valuesAtHand(window);
  if (weights === undefined) return;
  const low = Math.floor((size - weights.length) / 2);
  const squares = new Float64Array(size + hop * (count - 1));
  for (let start = low; start < low + hop * count; start += hop)
    for (const [at, weight] of weights.entries()) (squares[start + at] as number) += Number(weight) ** 2;
  const [first, last] = extentOf(pieces, count, wanted);
  const bare = squares.subarray(first, last).findIndex((square) => square <= 1e-11);
  if (bare >= 0)
    throw new HeddleError(
      "value",
      `istft: the windows of ${count} pieces of ${size}, ${hop} apart, add up to 0 at element ${bare} of the signal`,
      { hint: "take a smaller hop, or center: true if the window is 0 at its ends" },
    );
}

function buildIstft(...all: unknown[]): Node {
  const [pieces, wanted] = all.slice(-2) as [Pieces, number];
  const { size, hop, scale } = pieces;
  const [x, window] = all.slice(0, -2) as [Node, Node?];
  const last = x.shape.length - 3;
  const count = x.shape[last + 1] as number;
  const spectra = ops.transpose(scale === 1 ? x : ops.div(x, scale), [...range(last), last + 1, last, last + 2]);
  const weight = window === undefined ? ops.full(x.dtype, [size], 1) : windowOf(size, window);
  const frames = ops.mul(ops.irfft(spectra, size), weight);
  const whole = size + hop * (count - 1);
  const sliding = { size, count, stride: hop, dilation: 1 };
  const added = (parts: Node): Node => {
    const at = parts.shape.length - 2;
    return foldAlong(ops.transpose(parts, [...range(at), at + 1, at]), at, whole, sliding);
  };
  const squares = added(ops.broadcastTo(ops.square(weight), [count, size]));
  const [first, end] = extentOf(pieces, count, wanted);
  const cut = (signal: Node): Node => sliceDim(signal, signal.shape.length - 1, first, end);
  const signal = ops.div(cut(added(frames)), cut(squares));
  const missing = wanted < 0 ? 0 : wanted - (signal.shape.at(-1) as number);
  if (missing <= 0) return signal;
  const none = signal.shape.map(() => 0);
  return ops.pad(signal, ops.constant(x.dtype, 0), none, [...none.slice(1), missing]);
}

function frequencies(
  what: string,
  count: number,
  spacing: number,
  multiples: readonly number[],
  options: CreateOptions,
): Tensor {
  checkOptions(what, options, ["dtype"]);
  const { dtype = "f32" } = options;
  checkDType(what, dtype);
  if (!isFloat(dtype)) throw new HeddleError("dtype", `${what}: frequencies are floats, not ${dtype}`);
  return tensor(
    Float64Array.from(multiples, (multiple) => multiple / (count * spacing)),
    { dtype },
  );
}

function checkFrequencies(what: string, count: number, spacing: number): void {
  checkInteger(what, "count", count, 1);
  checkNumber(what, "spacing", spacing);
  if (spacing === 0) throw new HeddleError("option", `${what}: spacing must not be 0`);
}

/**
 * The frequencies of {@link fft} over `count` points that are `spacing` (default 1) apart: 0, 1, … and then the negative frequencies,
 * divided by `count · spacing`; `[count]`, f32 by default. NumPy's `fftfreq`.
 *
 * @throws HeddleError `option` for a count below 1 or a spacing of 0; `dtype` unless it is a float dtype
 */
export function fftfreq(count: number, spacing = 1, options: CreateOptions = {}): Tensor {
  checkFrequencies("fftfreq", count, spacing);
  const positive = Math.floor((count - 1) / 2) + 1;
  const multiples = range(count).map((index) => (index < positive ? index : index - count));
  return frequencies("fftfreq", count, spacing, multiples, options);
}

/** The frequencies of {@link rfft}: 0, 1, … up to `count / 2`, divided by `count · spacing`, as {@link fftfreq}; NumPy's `rfftfreq`. */
export function rfftfreq(count: number, spacing = 1, options: CreateOptions = {}): Tensor {
  checkFrequencies("rfftfreq", count, spacing);
  return frequencies("rfftfreq", count, spacing, range(Math.floor(count / 2) + 1), options);
}
