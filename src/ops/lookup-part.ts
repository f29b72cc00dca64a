/**
 * @module Lookup in a table whose rows are spread over devices. A device looks up the rows that it holds and gives zeros for
 * other rows, so the devices' results add up. An index outside the whole table is an error on every device.
 */
import type { View } from "../ir/kernel.ts";
import { absent, type HostTensor } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { gatherRows, scatterRows } from "./lookup.ts";
import { lookupSizes, sumScratch } from "./lookup-sizes.ts";

const planned = absent("appears in planned graphs only");
const local = absent("its types are those of one device already");

function checkBlock(name: string, size: number, total: number, start: TensorType | undefined): void {
  if (start?.dtype !== "i32" || start.shape.length !== 0 || size > total)
    throw new HeddleError("shape", `${name}: ${size} rows of ${total} need an i32 scalar that says which is the first`);
}

defineOp<{ batchDims: number; total: number }>({
  name: "gatherPart",
  doc: "gather from a table of `total` rows, of which x holds the rows from `start` (an i32 scalar) on; rows of other devices come out as zeros.",
  example: planned,
  infer: ([x, indices, start], { batchDims, total }) => {
    const [table, where] = [x as TensorType, indices as TensorType];
    checkBlock("gatherPart", table.shape[batchDims] as number, total, start);
    return { dtype: table.dtype, shape: [...where.shape, ...table.shape.slice(batchDims + 1)] };
  },
  equation: planned,
  linear: [],
  gradient: planned,
  batch: planned,
  localize: local,
  cost: () => 0,
  reference: ([x, indices, start], { batchDims, total }) => [
    gatherRows(x as HostTensor, indices as HostTensor, batchDims, { start: start?.data[0] as number, total }),
  ],
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [x, indices, start] = context.inputs as [View, View, View];
      const { batchDims, total } = context.attrs;
      return [
        kernels.gather.call({
          dtype: x.dtype,
          ...lookupSizes(x.shape, indices.shape, batchDims),
          in: context.at(x),
          indices: context.at(indices),
          start: context.at(start),
          total,
          out: context.at(context.outputs[0] as View),
        }),
      ];
    },
  },
});

defineOp<{ batchDims: number; size: number; total: number }>({
  name: "scatterAddPart",
  doc: "scatterAdd into `size` rows, from `start` (an i32 scalar) on, of a table of `total` rows; other devices add the updates of other rows.",
  example: planned,
  infer: ([updates, indices, start], { batchDims, size, total }) => {
    const [source, where] = [updates as TensorType, indices as TensorType];
    checkBlock("scatterAddPart", size, total, start);
    const shape = [...where.shape.slice(0, batchDims), size, ...source.shape.slice(where.shape.length)];
    return { dtype: source.dtype, shape };
  },
  equation: planned,
  linear: [],
  gradient: planned,
  batch: planned,
  localize: local,
  cost: ([updates]) => sizeOf((updates as TensorType).shape),
  reference: ([updates, indices, start], { batchDims, total }, [type]) => {
    const block = { start: start?.data[0] as number, total };
    return [scatterRows(updates as HostTensor, indices as HostTensor, batchDims, type as TensorType, block)];
  },
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [updates, indices, start] = context.inputs as [View, View, View];
      const out = context.outputs[0] as View;
      const { batchDims, total } = context.attrs;
      const sizes = lookupSizes(out.shape, indices.shape, batchDims);
      return [
        kernels.scatterAdd.call({
          dtype: out.dtype,
          ...sizes,
          updates: context.at(updates),
          indices: context.at(indices),
          start: context.at(start),
          total,
          out: context.at(out),
          ...sumScratch(context, out, sizes),
        }),
      ];
    },
  },
});
