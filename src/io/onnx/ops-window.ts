/** @module ONNX's poolings. */
import { dtypes, isFloat } from "../../ir/dtype.ts";
import { range, type Shape, sizeOf } from "../../ir/shape.ts";
import type { Tensor } from "../../tensor/index.ts";
import * as h from "../../tensor/index.ts";
import { averageWindows, maxWindows, reduceWindows, type Window, withLastWindows } from "../windows.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { indexTensor, positions } from "./helpers.ts";
import { int64 } from "./tensors.ts";
import { autoPadding, perSpatial } from "./window.ts";

/** The window, and with `ceil_mode` padded so that it has its last, incomplete one. */
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
  const places = placesOf(sizes, window);
  const [count, taps, size] = [places.length, sizeOf(window.sizes), sizeOf(sizes)];
  // What lies in the padding is one more element, below all others.
  const least = isFloat(c.dtype()) ? -Infinity : dtypes[c.dtype()].lowest;
  const padding: [number, number][] = [
    [0, 0],
    [0, 0],
    [0, 1],
  ];
  const flat = h.pad(c.x().reshape([batch, channels, size]), padding, least);
  const windows = h.take(flat, indexTensor(places.flat()), 2).reshape([batch, channels, count, taps]);
  const turned = c.int("storage_order", 0) === 1;
  const [rows, columns] = sizes.slice(-2) as [number, number];
  const stored = (place: number): number => {
    const [plane, within] = [Math.floor(place / (rows * columns)), place % (rows * columns)];
    return turned ? plane * rows * columns + (within % columns) * rows + Math.floor(within / columns) : place;
  };
  const table = indexTensor(places.flat().map((place) => (place === size ? 0 : stored(place))));
  const tap = windows.argMax(3).add(positions(count, 2, 3).mul(taps));
  const image = positions(batch, 0, 3)
    .mul(channels)
    .add(positions(channels, 1, 3))
    .mul(size);
  const shape = [batch, channels, ...outputSizes(sizes, window)];
  const values = windows.max(3).reshape(shape);
  return [values, h.take(table, tap, 0).add(image).reshape(shape).cast(int64)];
}

/** How many windows each dim has. */
const outputSizes = (sizes: Shape, window: Window): number[] =>
  sizes.map((size, dim) => {
    const [low, high] = window.padding[dim] as readonly [number, number];
    const span = ((window.sizes[dim] as number) - 1) * (window.dilations[dim] as number) + 1;
    return Math.floor((size + low + high - span) / (window.strides[dim] as number)) + 1;
  });

/** For each window the flat places of its elements; those in the padding are the place behind the last one. */
function placesOf(sizes: Shape, window: Window): number[][] {
  let places: number[][] = [[0]];
  outputSizes(sizes, window).forEach((count, dim) => {
    const [size, stride, gap] = [sizes[dim], window.strides[dim], window.dilations[dim]] as [number, number, number];
    const low = window.padding[dim]?.[0] as number;
    const along = range(count).map((position) =>
      range(window.sizes[dim] as number).map((tap) => position * stride - low + tap * gap),
    );
    const extend = (before: number, at: number): number =>
      before < 0 || at < 0 || at >= size ? -1 : before * size + at;
    places = places.flatMap((outer) =>
      along.map((inner) => outer.flatMap((before) => inner.map((at) => extend(before, at)))),
    );
  });
  return places.map((one) => one.map((place) => (place < 0 ? sizeOf(sizes) : place)));
}

/** Elements put where MaxPool found them, among zeros; a larger shape that is asked for has more zeros behind. */
function maxUnpool(c: NodeContext): Tensor {
  const kernel = c.ints("kernel_shape");
  const strides = perSpatial(c, "strides", kernel.length, 1);
  const pads = c.ints("pads", new Array<number>(2 * kernel.length).fill(0));
  const sizes = kernel.map((size, dim) => {
    const padded = (pads[dim] as number) + (pads[dim + kernel.length] as number);
    return ((c.shape()[dim + 2] as number) - 1) * (strides[dim] as number) - padded + size;
  });
  const shape = [...c.shape().slice(0, 2), ...sizes];
  const places = c.x(1).cast("i32").reshape([-1]);
  const zeros = h.zeros([sizeOf(shape)], { dtype: c.dtype() });
  const y = h.scatter(zeros, places, c.x().reshape([-1]), { op: "replace" }).reshape(shape);
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
