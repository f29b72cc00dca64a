/** @module ONNX's poolings. */

import { HeddleError } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { range, sizeOf } from "../../ir/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { positions } from "./helpers.ts";
import { int64 } from "./tensors.ts";
import { autoPadding, perSpatial } from "./window.ts";
import { averageWindows, maxWindows, reduceWindows, type Window, withLastWindows } from "./windows.ts";

/** The window of a pooling; with `ceil_mode` padded so that the last, incomplete window counts. */
function poolWindow(c: NodeContext): { window: Window; padded: Window["padding"] } {
  const window = autoPadding(c, c.ints("kernel_shape"));
  const ceil = c.flag("ceil_mode", false) && c.string("auto_pad", "NOTSET") === "NOTSET";
  return { window: ceil ? withLastWindows(c.shape().slice(2), window) : window, padded: window.padding };
}

function averagePool(c: NodeContext): Tensor {
  const { window, padded } = poolWindow(c);
  return averageWindows(c.x(), window, c.flag("count_include_pad", false) ? padded : undefined);
}

function lpPool(c: NodeContext): Tensor {
  const p = c.int("p", 2);
  return reduceWindows("sum", c.x().abs().pow(p), poolWindow(c).window, 0).pow(1 / p);
}

/**
 * Maxima, and where in the whole input each of them is: among all elements in order, or, with `storage_order`, with the last
 * two dims in the other order.
 */
function maxPool(c: NodeContext): Result[] {
  const { window } = poolWindow(c);
  if (!c.asks(1)) return [maxWindows(c.x(), window)];
  const [batch, channels, ...sizes] = c.shape() as [number, number, ...number[]];
  const pool = [h.maxPool1d, h.maxPool2d, h.maxPool3d][sizes.length - 1];
  if (pool === undefined) throw new HeddleError("op", `indices of MaxPool over ${sizes.length} dims are not imported`);
  const { strides, dilations: dilation, padding } = window;
  const { values, indices } = pool(c.x(), window.sizes, { strides, dilation, padding, indices: true });
  const [rows, columns] = sizes.slice(-2) as [number, number];
  const turned = (position: Tensor): Tensor => {
    const within = position.rem(rows * columns);
    return position.sub(within).add(within.rem(columns).mul(rows)).add(within.div(columns));
  };
  const stored = c.int("storage_order", 0) === 1 && sizes.length > 1 ? turned(indices) : indices;
  const image = positions(batch, 0, c.rank())
    .mul(channels)
    .add(positions(channels, 1, c.rank()))
    .mul(sizeOf(sizes));
  return [values, stored.add(image).cast(int64)];
}

/** Elements put where MaxPool found them, among zeros; a larger requested shape has more zeros behind. */
function maxUnpool(c: NodeContext): Tensor {
  const kernel = c.ints("kernel_shape");
  const strides = perSpatial(c, "strides", kernel.length, 1);
  const pads = c.ints("pads", new Array<number>(2 * kernel.length).fill(0));
  const sizes = kernel.map((size, dim) => {
    const padded = (pads[dim] as number) + (pads[dim + kernel.length] as number);
    return ((c.shape()[dim + 2] as number) - 1) * (strides[dim] as number) - padded + size;
  });
  const shape = [...c.shape().slice(0, 2), ...sizes];
  const flat = c.x(1).cast("i32").reshape([-1]);
  const zeros = h.zeros([sizeOf(shape)], { dtype: c.dtype() });
  const y = h.scatter(zeros, flat, c.x().reshape([-1]), { op: "replace" }).reshape(shape);
  if (!c.has(2)) return y;
  return h.pad(
    y,
    c.numbers(2).map((size, dim): [number, number] => [0, size - (shape[dim] as number)]),
  );
}

const spatial = (c: NodeContext): number[] => range(c.rank()).slice(2);

export const windowRows: Rows = {
  AveragePool: row(1, averagePool),
  GlobalAveragePool: row(1, (c) => c.x().mean(spatial(c), { keepDims: true })),
  GlobalMaxPool: row(1, (c) => c.x().max(spatial(c), { keepDims: true })),
  LpPool: row(2, lpPool),
  MaxPool: row(1, maxPool),
  MaxUnpool: row(9, maxUnpool),
};
