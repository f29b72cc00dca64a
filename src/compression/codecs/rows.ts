/** @module What several compressors share: gradients as rows, parts of a row, bits in bytes. */
import { arange, pad, select, type Tensor, zeros } from "../../functions/index.ts";
import { sizeOf } from "../../ir/shape.ts";
import type { DecompressGiven, Parts } from "../compressor.ts";

/** The tensor of this name in a message. */
export const part = (parts: Parts, name: string): Tensor => parts[name] as Tensor;

/** A gradient `[devices, …]` as a matrix with a row for each device. */
export const asRows = (x: Tensor): Tensor => x.reshape([x.shape[0] as number, sizeOf(x.shape.slice(1))]);

/** Rows as gradients `[rows, …shape]`; elements beyond the shape are dropped. */
export function fromRows(rows: Tensor, { shape }: Pick<DecompressGiven, "shape">): Tensor {
  const [count, length] = rows.shape as [number, number];
  const size = sizeOf(shape);
  return (length === size ? rows : rows.slice([0, 0], [count, size])).reshape([count, ...shape]);
}

/** Rows filled up with zeros to a multiple of `unit` elements, as `[rows, units, unit]`. */
export function inUnits(rows: Tensor, unit: number): Tensor {
  const [count, length] = rows.shape as [number, number];
  const units = Math.ceil(length / unit);
  const missing = units * unit - length;
  const full =
    missing === 0
      ? rows
      : pad(rows, [
          [0, 0],
          [0, missing],
        ]);
  return full.reshape([count, units, unit]);
}

/** How many elements a share of `size` is: at least one. */
export const shareOf = (size: number, share: number): number => Math.min(size, Math.max(1, Math.ceil(size * share)));

/** Rows `[rows, size]` with `values` `[rows, k]` at `indices` `[rows, k]`, and zeros elsewhere. */
export const spread = (values: Tensor, indices: Tensor, size: number): Tensor =>
  zeros([values.shape[0] as number, size], { dtype: values.dtype }).scatterAlongDim(indices, values);

/** Decompresses messages of `values` `[rows, k]` at `indices` `[k]` that all devices know. */
export function atShared(message: Parts, { shape, shared }: DecompressGiven): Tensor {
  const values = part(message, "values");
  return fromRows(spread(values, part(shared, "indices").broadcastTo(values.shape), sizeOf(shape)), { shape });
}

/** Whether elements are not below 0, eight in a byte: u8 `[rows, bytes]`. */
export function packedSigns(rows: Tensor): Tensor {
  const bits = inUnits(rows, 8).ge(0).cast("i32");
  return bits
    .shiftLeft(arange(8, { dtype: "i32" }))
    .sum(-1)
    .cast("u8");
}

/** The bits of {@link packedSigns} as bools `[rows, 8 · bytes]`. */
export function unpackedSigns(bytes: Tensor): Tensor {
  const [count, length] = bytes.shape as [number, number];
  const bits = bytes
    .cast("i32")
    .reshape([count, length, 1])
    .shiftRightArithmetic(arange(8, { dtype: "i32" }))
    .and(1);
  return bits.eq(1).reshape([count, length * 8]);
}

/** `x / y`, and 0 where y is 0. */
export const ratio = (x: Tensor, y: Tensor): Tensor => select(y.eq(0), 0, x.div(select(y.eq(0), 1, y)));
