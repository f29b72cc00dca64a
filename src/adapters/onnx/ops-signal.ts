/** @module ONNX's Fourier transforms, window functions and the weights of mel bands. */

import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type DType, dtypes, type HostTensor, range } from "../../ir/index.ts";
import { type NodeContext, type Row, type Rows, row } from "./context.ts";
import { indexTensor, moved } from "./helpers.ts";
import { dtypeOfCode } from "./tensors.ts";

/** A dim cut, or padded with zeros at its end, to a size. */
function sized(x: Tensor, dim: number, size: number): Tensor {
  const before = x.shape[dim] as number;
  if (before === size) return x;
  const limit = x.shape.map((whole, each) => (each === dim ? Math.min(before, size) : whole));
  const cut = x.slice(
    limit.map(() => 0),
    limit,
  );
  return h.pad(
    cut,
    x.shape.map((_size, each): [number, number] => [0, each === dim ? Math.max(0, size - before) : 0]),
  );
}

interface Transform {
  readonly length: number;
  readonly inverse: boolean;
  readonly onesided: boolean;
}

const half = (length: number): number => Math.floor(length / 2) + 1;

/** The transform of the last but one dim; the last one holds real numbers (size 1) or complex ones (size 2). */
function transform(x: Tensor, { length, inverse, onesided }: Transform): Tensor {
  const dim = x.shape.length - 2;
  const isReal = x.shape.at(-1) === 1;
  const complex = (part: Tensor): Tensor => (isReal ? sized(part, dim + 1, 2) : part);
  if (inverse && onesided) {
    const points = h.irfft(complex(sized(x, dim, half(length))), length);
    return points.reshape([...points.shape, 1]);
  }
  const points = sized(x, dim, length);
  if (inverse) return h.ifft(complex(points));
  if (onesided && isReal) return h.rfft(points.reshape(points.shape.slice(0, -1)));
  const whole = h.fft(complex(points));
  return onesided ? sized(whole, dim, half(length)) : whole;
}

/** The axis is an attribute up to opset 19, an input from then on. */
function dft(c: NodeContext): Tensor {
  const rank = c.rank();
  const [axis] = c.opset < 20 ? [c.axis("axis", 1)] : (c.dims([c.number(2, -2)]) as [number]);
  const [inverse, onesided] = [c.flag("inverse", false), c.flag("onesided", false)];
  const size = c.shape()[axis] as number;
  const length = c.number(1, inverse && onesided ? 2 * (size - 1) : size);
  const order = moved(rank, axis, rank - 2);
  const transformed = transform(c.x().transpose(order), { length, inverse, onesided });
  return transformed.transpose(order.map((_dim, index) => order.indexOf(index)));
}

/** Transforms of frames `[batch, frame, bin, 2]`. */
function stft(c: NodeContext): Tensor {
  const [batch, size, parts] = [c.shape()[0], c.shape()[1], c.shape()[2] ?? 1] as [number, number, number];
  const step = c.number(1);
  const length = c.number(3, c.has(2) ? (c.shape(2)[0] as number) : size);
  const taps = c.has(2) ? (c.shape(2)[0] as number) : length;
  const frames = 1 + Math.floor((size - length) / step);
  const positions = range(frames).flatMap((frame) => range(taps).map((tap) => frame * step + tap));
  const signal = c.x().reshape([batch, size, parts]);
  const framed = h.take(signal, indexTensor(positions), 1).reshape([batch, frames, taps, parts]);
  const weighted = c.has(2) ? framed.mul(c.x(2).reshape([taps, 1])) : framed;
  return transform(weighted, { length, inverse: false, onesided: c.flag("onesided", true) });
}

/**
 * A window whose values follow from its size: the sum of cosines of 0, 1, 2, … times the angle 2 pi n / size, by these
 * weights.
 */
const windowOf = (...weights: readonly number[]): Row =>
  row(17, (c) => {
    const size = c.number(0);
    const whole = c.flag("periodic", true) ? size : size - 1;
    const values = range(size).map((index) =>
      weights.reduce((sum, weight, times) => sum + weight * Math.cos((2 * Math.PI * times * index) / whole), 0),
    );
    return known(c, [size], values);
  });

function known(c: NodeContext, shape: readonly number[], values: readonly number[]): HostTensor {
  const dtype: DType = dtypeOfCode(c.int("output_datatype", 1), c.node.opType ?? "");
  return { dtype, shape, data: dtypes[dtype].create(values) };
}

const toMel = (hertz: number): number => 2595 * Math.log10(1 + hertz / 700);
const fromMel = (mel: number): number => 700 * (10 ** (mel / 2595) - 1);

/** Triangles over the bins of a spectrum, at equal distances on the mel scale. */
function melWeights(c: NodeContext): HostTensor {
  const [bands, length, rate, lowest, highest] = range(5).map((index) => c.number(index)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const bins = half(length);
  const step = (toMel(highest) - toMel(lowest)) / (bands + 2);
  const edges = range(bands + 2).map((edge) =>
    Math.floor(((length + 1) * fromMel(toMel(lowest) + edge * step)) / rate),
  );
  const weight = (bin: number, band: number): number => {
    const [left, centre, right] = edges.slice(band, band + 3) as [number, number, number];
    if (bin >= centre && bin < right) return (right - bin) / (right - centre);
    if (left === centre) return bin === centre ? 1 : 0;
    return bin >= left && bin <= centre ? (bin - left) / (centre - left) : 0;
  };
  const values = range(bins).flatMap((bin) => range(bands).map((band) => weight(bin, band)));
  return known(c, [bins, bands], values);
}

export const signalRows: Rows = {
  BlackmanWindow: windowOf(0.42, -0.5, 0.08),
  DFT: row(17, dft),
  HammingWindow: windowOf(25 / 46, -21 / 46),
  HannWindow: windowOf(0.5, -0.5),
  MelWeightMatrix: row(17, melWeights),
  STFT: row(17, stft),
};
