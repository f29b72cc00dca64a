/** @module Windows over the spatial dims of `[batch, channels, …]`, as ONNX's poolings move them. */
import { pad, reduceWindow, type Tensor, tensor } from "../../functions/index.ts";
import { dtypes, isFloat, range } from "../../ir/index.ts";

/** One entry per spatial dim. */
export interface Window {
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  readonly padding: readonly (readonly [number, number])[];
}

/** From the first to the last element of a window of a dim. */
export const spanOf = ({ sizes, dilations }: Pick<Window, "sizes" | "dilations">, dim: number): number =>
  ((sizes[dim] as number) - 1) * (dilations[dim] as number) + 1;

/** Padded so that the last, incomplete window of each dim counts too. */
export function withLastWindows(sizes: readonly number[], window: Window): Window {
  const padding = window.padding.map(([low, high], dim): [number, number] => {
    const [size, span, stride] = [sizes[dim], spanOf(window, dim), window.strides[dim]] as [number, number, number];
    const steps = Math.ceil((size + low + high - span) / stride);
    // A window that would begin in the padding at the end does not count; padding that is left over is cut.
    const last = steps * stride >= size + low ? steps - 1 : steps;
    return [low, Math.max(0, last * stride + span - size - low)];
  });
  return { ...window, padding };
}

/** Reduces windows of an input that is padded with `fill`. */
export function reduceWindows(op: "max" | "sum", x: Tensor, window: Window, fill: number): Tensor {
  const padded = window.padding.some(([low, high]) => low > 0 || high > 0)
    ? pad(x, [[0, 0], [0, 0], ...window.padding], fill)
    : x;
  return reduceWindow(padded, window.sizes, { op, strides: window.strides, dilation: window.dilations });
}

export function maxWindows(x: Tensor, window: Window): Tensor {
  return reduceWindows("max", x, window, isFloat(x.dtype) ? -Infinity : dtypes[x.dtype].lowest);
}

/** The number of elements in each window of a dim: those of the input, or also those of the padding `padded`. */
function counts(size: number, window: Window, dim: number, padded: readonly [number, number] | undefined): number[] {
  const [low, high] = window.padding[dim] as readonly [number, number];
  const [taps, stride, gap] = [window.sizes[dim], window.strides[dim], window.dilations[dim]] as [
    number,
    number,
    number,
  ];
  const positions = Math.floor((size + low + high - spanOf(window, dim)) / stride) + 1;
  const [from, to] = padded === undefined ? [0, size] : [-padded[0], size + padded[1]];
  return range(positions).map((position) => {
    const first = position * stride - low;
    return range(taps).filter((tap) => first + tap * gap >= from && first + tap * gap < to).length;
  });
}

/**
 * Means of windows, divided by the number of input elements in each, or of input and padding elements with `padded`.
 */
export function averageWindows(x: Tensor, window: Window, padded: Window["padding"] | undefined): Tensor {
  return window.sizes.reduce(
    (y, _size, dim) => {
      const count = counts(x.shape[dim + 2] as number, window, dim, padded?.[dim]);
      const divisor = tensor(Float64Array.from(count), { shape: [count.length] }).cast(x.dtype);
      return y.div(divisor.reshape(x.shape.map((_size, each) => (each === dim + 2 ? count.length : 1))));
    },
    reduceWindows("sum", x, window, 0),
  );
}
