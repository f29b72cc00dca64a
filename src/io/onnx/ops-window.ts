/** @module ONNX's poolings. */
import { dtypes, isFloat } from "../../ir/dtype.ts";
import { range } from "../../ir/shape.ts";
import type { Tensor } from "../../tensor/index.ts";
import * as h from "../../tensor/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { along } from "./helpers.ts";
import { autoPadding, reduceWindows, type Window } from "./window.ts";

/** The window, padded so that `ceil_mode` gets its last, incomplete window; it must begin within what is padded. */
function poolWindow(c: NodeContext): { window: Window; padded: Window["padding"] } {
  const window = autoPadding(c, c.ints("kernel_shape"));
  const padded = window.padding;
  if (!c.flag("ceil_mode", false) || c.string("auto_pad", "NOTSET") !== "NOTSET") return { window, padded };
  const padding = padded.map(([low, high], dim): [number, number] => {
    const [size, stride] = [c.shape()[dim + 2] as number, window.strides[dim] as number];
    const span = ((window.sizes[dim] as number) - 1) * (window.dilations[dim] as number) + 1;
    let count = Math.ceil((size + low + high - span) / stride) + 1;
    if ((count - 1) * stride >= size + low) count--;
    return [low, Math.max(high, (count - 1) * stride + span - size - low)];
  });
  return { window: { ...window, padding }, padded };
}

function maxPool(c: NodeContext): Tensor {
  const { window } = poolWindow(c);
  const lowest = isFloat(c.dtype()) ? -Infinity : dtypes[c.dtype()].lowest;
  return reduceWindows("max", c.x(), window, lowest);
}

/** How many elements each window of a dim has: of the input, or also of its padding. */
function counts(size: number, window: Window, dim: number, padded: readonly [number, number] | undefined): number[] {
  const [low, high] = window.padding[dim] as readonly [number, number];
  const [taps, stride, gap] = [window.sizes[dim], window.strides[dim], window.dilations[dim]] as [
    number,
    number,
    number,
  ];
  const positions = Math.floor((size + low + high - (taps - 1) * gap - 1) / stride) + 1;
  const [from, to] = padded === undefined ? [0, size] : [-padded[0], size + padded[1]];
  return range(positions).map(
    (position) =>
      range(taps).filter((tap) => {
        const at = position * stride - low + tap * gap;
        return at >= from && at < to;
      }).length,
  );
}

function averagePool(c: NodeContext): Tensor {
  const { window, padded } = poolWindow(c);
  const withPadding = c.flag("count_include_pad", false);
  return window.sizes.reduce(
    (y, _size, dim) => {
      const count = counts(c.shape()[dim + 2] as number, window, dim, withPadding ? padded[dim] : undefined);
      const vector = h.tensor(Float64Array.from(count), { shape: [count.length] }).cast(c.dtype());
      return y.div(along(vector, dim + 2, c.rank()));
    },
    reduceWindows("sum", c.x(), window, 0),
  );
}

function lpPool(c: NodeContext): Tensor {
  const p = c.int("p", 2);
  return reduceWindows("sum", c.x().abs().pow(p), poolWindow(c).window, 0).pow(1 / p);
}

const spatial = (c: NodeContext): number[] => range(c.rank()).slice(2);

export const windowRows: Rows = {
  AveragePool: row(1, averagePool),
  GlobalAveragePool: row(1, (c) => c.x().mean(spatial(c), { keepDims: true })),
  GlobalMaxPool: row(1, (c) => c.x().max(spatial(c), { keepDims: true })),
    c
      .x()
      .abs()
      .pow(c.int("p", 2))
      .sum(spatial(c), { keepDims: true })
      .pow(1 / c.int("p", 2)),
  ),
  LpPool: row(11, lpPool),
  MaxPool: row(8, maxPool),
};
