/** @module ONNX's poolings. */
import { range } from "../../ir/shape.ts";
import type { Tensor } from "../../tensor/index.ts";
import { averageWindows, maxWindows, reduceWindows, type Window, withLastWindow } from "../windows.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { autoPadding } from "./window.ts";

/** The window, and with `ceil_mode` padded so that it has its last, incomplete one. */
function poolWindow(c: NodeContext): { window: Window; padded: Window["padding"] } {
  const window = autoPadding(c, c.ints("kernel_shape"));
  const ceil = c.flag("ceil_mode", false) && c.string("auto_pad", "NOTSET") === "NOTSET";
  return { window: ceil ? withLastWindow(c.shape().slice(2), window) : window, padded: window.padding };
}

function averagePool(c: NodeContext): Tensor {
  const { window, padded } = poolWindow(c);
  return averageWindows(c.x(), window, c.flag("count_include_pad", false) ? padded : undefined);
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
  LpPool: row(11, lpPool),
  MaxPool: row(8, (c) => maxWindows(c.x(), poolWindow(c).window)),
};
