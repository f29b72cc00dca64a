/** @module What compression keeps from step to step: types, layouts, other numbers of devices. */
import { isTensor, random, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { type Layout, shard } from "../plan/layout.ts";
import type { Mesh } from "../plan/mesh.ts";
import { flattenTree } from "../util/tree.ts";
import type { Parts } from "./compressor.ts";
import type { Compression } from "./options.ts";

/** Tensors by the names of parameters. */
export type ByName = { readonly [parameter: string]: Tensor };

/** The state: records by the names of parameters. */
export type CompressionState = {
  /** What each device has not sent: `[devices, …shape]`. */
  readonly residual: ByName;
  /** The momentum of each device, `[devices, …shape]`. */
  readonly momentum: ByName;
  /** The momentum of gradients that travel uncompressed. */
  readonly whole: ByName;
  /** The compressor's own, the same on all devices. */
  readonly own: { readonly [parameter: string]: Parts };
};

/** The state before the first step. */
export function initialCompression(compression: Compression, params: Tensors, key: Tensor): CompressionState {
  const { by, feedback, momentum, devices, chooses } = compression;
  const { leaves, paths } = flattenTree(params, isTensor);
  const all = paths.map((name, index) => [name, leaves[index] as Tensor, random.foldIn(key, index)] as const);
  const chosen = all.filter(([name, x]) => chooses(name, x));
  const others = all.filter(([name, x]) => !chooses(name, x));
  const kept = (list: typeof all, by: number): ByName =>
    Object.fromEntries(
      list.map(([name, x]) => [name, zeros(by === 0 ? x.shape : [by, ...x.shape], { dtype: x.dtype })]),
    );
  const { initial } = by;
  return {
    residual: feedback ? kept(chosen, devices) : {},
    momentum: momentum > 0 ? kept(chosen, devices) : {},
    whole: momentum > 0 ? kept(others, 0) : {},
    own:
      initial === undefined
        ? {}
        : Object.fromEntries(chosen.map(([name, { shape, dtype }, own]) => [name, initial({ shape, dtype }, own)])),
  };
}

/** The parameter of a value of a compressor's own, by the path below the state; undefined for other values. */
export const parameterOfOwn = (path: string): string | undefined => /^own\.(.*)\.[^.]+$/.exec(path)?.[1];

/** Whether the value at a path below the state has a row for each device. */
const isPerDevice = (path: string): boolean => /^(residual|momentum)\./.test(path);

/**
 * The layout of a value of the state at a path below it: the rows of devices are split over the axis of compression, the other dims as
 * those of the parameter are.
 *
 * @param parameter the layout in which the parameter is used
 * @param everywhere the layout of a value that all devices have that hold the parameter
 */
export function compressionLayout(
  { axis: own }: Compression,
  path: string,
  { parameter, everywhere, mesh }: { readonly parameter: Layout; readonly everywhere: Layout; readonly mesh: Mesh },
): Layout {
  if (path.startsWith("own.")) return everywhere;
  if (!isPerDevice(path)) return parameter;
  return mesh.axes.map(({ name }, axis) => {
    const placement = parameter[axis] as Layout[number];
    if (name === own) return shard(0);
    return placement.kind === "shard" ? { ...placement, dim: placement.dim + 1 } : placement;
  });
}

/** Whether a value of the state is the same but for the number of devices that have kept it. `path` is below the state. */
export const fitsDevices = (path: string, value: TensorType, type: TensorType): boolean =>
  isPerDevice(path) && value.dtype === type.dtype && rowOf(value) === rowOf(type);
const rowOf = ({ shape: [devices, ...row] }: TensorType) => devices !== undefined && `${row}`;

/**
 * A value of the state that another number of devices has kept ({@link fitsDevices}), for as many as the shape says: each gets an equal
 * share of the sum, so that the sum of what was not sent stays.
 */
export function forDevices(value: HostTensor, { shape, dtype }: TensorType): HostTensor {
  const size = sizeOf(shape.slice(1));
  const sums = new Float64Array(size);
  value.data.forEach((one, index) => {
    sums[index % size] = (sums[index % size] as number) + Number(one);
  });
  const data = dtypes[dtype].create(sizeOf(shape));
  for (let index = 0; index < data.length; index++) data[index] = (sums[index % size] as number) / (shape[0] as number);
  return { shape, dtype, data };
}
