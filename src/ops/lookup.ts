/** @module Ops that take indices as values: gather, scatterAdd, and slices with a dynamic start. */

import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import { movingKernel, type View } from "../ir/kernel.ts";
import { absent, type Batched, type HostTensor, type Node, type Split } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatShape, formatType, type Shape, sameShape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { faultError, HeddleError } from "../util/errors.ts";
import { batchByEquation, batchByLoop, isBatched, spreadBatch, withBatch } from "./batch.ts";
import * as emit from "./emit.ts";
import { eachOffset } from "./host-arrays.ts";
import { blockStart, partOf, splitShape } from "./local.ts";
import { lookupSizes, sumScratch } from "./lookup-sizes.ts";

/** The length of a dim before the splits, from the length on one device. */
const wholeLength = (local: number, splits: readonly Split[]): number =>
  splits.reduceRight(
    (length, { uneven, parts }) =>
      uneven === undefined ? length * parts : uneven.sizes.reduce((sum, size) => sum + size, 0),
    local,
  );

/** The splits of an input as splits of an output with the same dims. */
const asOutputs = (splits: readonly Split[]): Split[] => splits.map((split) => ({ ...split, outputs: split.inputs }));

function checkIndices(name: string, data: TensorType, indices: TensorType, batchDims: number): void {
  if (indices.dtype !== "i32")
    throw new HeddleError("dtype", `${name}: indices must be i32, got ${formatType(indices)}`);
  const batch = data.shape.slice(0, batchDims);
  if (
    batchDims < 0 ||
    batchDims >= data.shape.length ||
    batchDims > indices.shape.length ||
    !sameShape(batch, indices.shape.slice(0, batchDims))
  ) {
    throw new HeddleError(
      "shape",
      `${name}: the first ${batchDims} dims of ${formatType(data)} and of the indices ${formatType(indices)} must agree`,
    );
  }
}

function checkedIndex(name: string, indices: HostTensor, position: number, size: number): number {
  const index = indices.data[position] as number;
  if (index < 0 || index >= size) {
    throw faultError({ kind: "index", by: name, index, position, size });
  }
  return index;
}

/** The rows of a table that a device holds: those from `start` on, of `total` rows. */
interface Block {
  readonly start: number;
  readonly total: number;
}

/** Calls `row` for each index with its position and the offset of its row; rows outside the block (default: all rows) are skipped. */
export function eachRow(
  name: string,
  shape: Shape,
  indices: HostTensor,
  batchDims: number,
  block: Block | undefined,
  row: (position: number, offset: number) => void,
): void {
  const { outer, size, inner, count } = lookupSizes(shape, indices.shape, batchDims);
  const { start, total } = block ?? { start: 0, total: size };
  for (let position = 0; position < outer * count; position++) {
    const index = checkedIndex(name, indices, position, total) - start;
    if (index >= 0 && index < size) row(position, (Math.floor(position / count) * size + index) * inner);
  }
}

/** The reference of gather. */
export function gatherRows(x: HostTensor, indices: HostTensor, batchDims: number, block?: Block): TypedArray {
  const inner = sizeOf(x.shape.slice(batchDims + 1));
  const out = dtypes[x.dtype].create(sizeOf(indices.shape) * inner);
  eachRow("gather", x.shape, indices, batchDims, block, (position, from) => {
    out.set(x.data.subarray(from, from + inner), position * inner);
  });
  return out;
}

/** The reference of scatterAdd. */
export function scatterRows(
  updates: HostTensor,
  indices: HostTensor,
  batchDims: number,
  { dtype, shape }: TensorType,
  block?: Block,
): TypedArray {
  const inner = sizeOf(shape.slice(batchDims + 1));
  const sums = dtype === "f32" ? new Float64Array(sizeOf(shape)) : dtypes[dtype].create(sizeOf(shape));
  eachRow("scatterAdd", shape, indices, batchDims, block, (position, to) => {
    for (let r = 0; r < inner; r++) (sums[to + r] as number) += updates.data[position * inner + r] as number;
  });
  return dtype === "f32" ? Float32Array.from(sums) : sums;
}

const batchRows = batchByEquation<{ batchDims: number }>(({ batchDims }) => ({ batchDims: batchDims + 1 }));

defineOp<{ batchDims: number }>({
  name: "gather",
  doc: "Takes rows by index: out[b…, i…, r…] = x[b…, indices[b…, i…], r…]. An index outside the range is an error of the run.",
  example: {
    inputs: [
      { dtype: "f32", shape: [3, 1], data: Float32Array.of(10, 20, 30) },
      { dtype: "i32", shape: [2], data: Int32Array.of(2, 0) },
    ],
    attrs: { batchDims: 0 },
    outputs: [{ dtype: "f32", shape: [2, 1], data: Float32Array.of(30, 10) }],
  },
  infer: (inputs, { batchDims }) => {
    const [x, indices] = inputs as [TensorType, TensorType];
    checkIndices("gather", x, indices, batchDims);
    return { dtype: x.dtype, shape: [...indices.shape, ...x.shape.slice(batchDims + 1)] };
  },
  equation: ([x, indices], { batchDims }) => {
    const batch = letters(batchDims, "b");
    const index = letters((indices as TensorType).shape.length - batchDims, "i");
    const rest = letters((x as TensorType).shape.length - batchDims - 1, "r");
    return equationOf(
      [
        [...batch, "s", ...rest],
        [...batch, ...index],
      ],
      // Split rows of the table: each device gives the rows that it holds, and zeros for other rows.
      [[...batch, ...index, ...rest]],
    );
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => {
    const [x, indices] = node.inputs as [Node, Node];
    const batchDims = node.attrs.batchDims as number;
    return [emit.scatterAdd(cotangents[0] as Node, indices, x.shape[batchDims] as number, batchDims), undefined];
  },
  batch: (context) => {
    const [x, indices] = context.inputs as [Batched, Batched];
    // A table that the whole batch shares is not repeated: the batch only adds indices.
    if (!x.batched && context.node.attrs.batchDims === 0) return [withBatch(emit.gather(x.node, indices.node))];
    return batchRows(context);
  },
  localize: ({ attrs: { batchDims }, inputs, splits }) => {
    const [x, indices] = inputs as [Node, Node];
    const split = splits.filter(({ inputs: [dim] }) => dim === batchDims);
    const total = wholeLength(x.shape[batchDims] as number, split);
    const start = blockStart(total, batchDims, asOutputs(split));
    return start === undefined
      ? emit.gather(x, indices, batchDims)
      : emit.call("gatherPart", [x, indices, start], { batchDims, total });
  },
  cost: () => 0,
  reference: ([x, indices], { batchDims }) => [gatherRows(x as HostTensor, indices as HostTensor, batchDims)],
  form: movingKernel,
  lower: {
    emit: (context) => {
      const [x, indices] = context.inputs as [View, View];
      const sizes = lookupSizes(x.shape, indices.shape, context.attrs.batchDims);
      return [
        kernels.gather.call({
          dtype: x.dtype,
          ...sizes,
          in: context.at(x),
          indices: context.at(indices),
          out: context.at(context.outputs[0] as View),
        }),
      ];
    },
  },
});

defineOp<{ batchDims: number; size: number }>({
  name: "scatterAdd",
  doc: "Adds rows into zeros by index, in order of position: the transpose of gather. An index outside the range is an error of the run.",
  example: {
    inputs: [
      { dtype: "f32", shape: [3, 1], data: Float32Array.of(1, 2, 4) },
      { dtype: "i32", shape: [3], data: Int32Array.of(1, 0, 1) },
    ],
    attrs: { batchDims: 0, size: 2 },
    outputs: [{ dtype: "f32", shape: [2, 1], data: Float32Array.of(2, 5) }],
  },
  infer: (inputs, { batchDims, size }) => {
    const [updates, indices] = inputs as [TensorType, TensorType];
    const lead = updates.shape.slice(0, indices.shape.length);
    if (
      indices.dtype !== "i32" ||
      batchDims < 0 ||
      batchDims > indices.shape.length ||
      !sameShape(lead, indices.shape)
    ) {
      throw new HeddleError(
        "shape",
        `scatterAdd: updates ${formatType(updates)} must start with the dims of the i32 indices, got ${formatType(indices)}`,
      );
    }
    if (updates.dtype === "bool") throw new HeddleError("dtype", `scatterAdd: not defined for ${formatType(updates)}`);
    return {
      dtype: updates.dtype,
      shape: [...indices.shape.slice(0, batchDims), size, ...updates.shape.slice(indices.shape.length)],
    };
  },
  equation: ([updates, indices], { batchDims }) => {
    const batch = letters(batchDims, "b");
    const index = letters((indices as TensorType).shape.length - batchDims, "i");
    const rest = letters((updates as TensorType).shape.length - (indices as TensorType).shape.length, "r");
    return equationOf(
      [
        [...batch, ...index, ...rest],
        [...batch, ...index],
      ],
      [[...batch, "s", ...rest]],
    );
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [
    emit.gather(cotangents[0] as Node, node.inputs[1] as Node, node.attrs.batchDims as number),
    undefined,
  ],
  batch: batchByEquation(({ batchDims, size }) => ({ batchDims: batchDims + 1, size })),
  localize: ({ attrs: { batchDims, size }, inputs, splits }) => {
    const [updates, indices] = inputs as [Node, Node];
    const split = splits.filter(({ outputs: [dim] }) => dim === batchDims);
    const start = blockStart(size, batchDims, split);
    if (start === undefined) return emit.scatterAdd(updates, indices, size, batchDims);
    const localSize = split.reduce(partOf, size);
    return emit.call("scatterAddPart", [updates, indices, start], { batchDims, size: localSize, total: size });
  },
  cost: ([updates]) => sizeOf((updates as TensorType).shape),
  reference: ([updates, indices], { batchDims }, [type]) => [
    scatterRows(updates as HostTensor, indices as HostTensor, batchDims, type as TensorType),
  ],
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [updates, indices] = context.inputs as [View, View];
      const out = context.outputs[0] as View;
      const sizes = lookupSizes(out.shape, indices.shape, context.attrs.batchDims);
      return [
        kernels.scatterAdd.call({
          dtype: out.dtype,
          ...sizes,
          updates: context.at(updates),
          indices: context.at(indices),
          out: context.at(out),
          ...sumScratch(context, out, sizes),
        }),
      ];
    },
  },
});

function checkStarts(name: string, starts: readonly TensorType[], rank: number): void {
  if (starts.length !== rank || starts.some((start) => start.dtype !== "i32" || start.shape.length !== 0)) {
    throw new HeddleError(
      "shape",
      `${name}: needs one i32 scalar per dim (${rank}), got ${starts.map(formatType).join(", ")}`,
    );
  }
}

/** The offset of a slice's first element; starts are clamped so that the slice fits. */
function clampedStart(shape: Shape, sizes: Shape, starts: readonly HostTensor[]): number {
  const strides = stridesOf(shape);
  return starts.reduce((offset, start, dim) => {
    const highest = (shape[dim] as number) - (sizes[dim] as number);
    return offset + Math.min(Math.max(start.data[0] as number, 0), highest) * (strides[dim] as number);
  }, 0);
}

const zero = (): Node => emit.constant("i32", 0);

const touchedDims = (shape: Shape, sizes: Shape): boolean[] => shape.map((size, dim) => size !== sizes[dim]);

defineOp<{ sizes: Shape }>({
  name: "dynamicSlice",
  doc: "A slice of the given sizes that starts at the i32 scalars given per dim, moved so that it fits.",
  example: {
    inputs: [
      { dtype: "f32", shape: [4], data: Float32Array.of(1, 2, 3, 4) },
      { dtype: "i32", shape: [], data: Int32Array.of(1) },
    ],
    attrs: { sizes: [2] },
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(2, 3) }],
  },
  infer: (inputs, { sizes }) => {
    const input = inputs[0] as TensorType;
    checkStarts("dynamicSlice", inputs.slice(1), input.shape.length);
    if (
      sizes.length !== input.shape.length ||
      sizes.some((size, dim) => size < 0 || size > (input.shape[dim] as number))
    ) {
      throw new HeddleError("shape", `dynamicSlice: ${formatShape(sizes)} does not fit into ${formatType(input)}`);
    }
    return { dtype: input.dtype, shape: sizes };
  },
  equation: (inputs, { sizes }) => {
    const shape = (inputs[0] as TensorType).shape;
    const all = letters(shape.length);
    const cut = touchedDims(shape, sizes);
    return equationOf([all, ...shape.map(() => [])], [all.map((letter, dim) => (cut[dim] ? `${letter}'` : letter))], {
      whole: all.flatMap((letter, dim) => (cut[dim] ? [letter, `${letter}'`] : [])),
    });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => {
    const [x, ...starts] = node.inputs as [Node, ...Node[]];
    return [
      emit.call("dynamicUpdateSlice", [emit.zerosLike(x), cotangents[0] as Node, ...starts]),
      ...starts.map(() => undefined),
    ];
  },
  batch: (context) => {
    const [x, ...starts] = context.inputs as [Batched, ...Batched[]];
    if (starts.some(isBatched)) return batchByLoop(context);
    const sizes = [context.size, ...context.node.attrs.sizes];
    return [withBatch(emit.call("dynamicSlice", [x.node, zero(), ...starts.map(({ node }) => node)], { sizes }))];
  },
  localize: (context) =>
    emit.call("dynamicSlice", context.inputs, { sizes: splitShape(context.attrs.sizes, context.splits) }),
  cost: () => 0,
  reference: ([x, ...starts], { sizes }) => {
    const { shape, dtype, data } = x as HostTensor;
    const out = dtypes[dtype].create(sizeOf(sizes));
    eachOffset(sizes, stridesOf(shape), clampedStart(shape, sizes, starts), (linear, offset) => {
      out[linear] = data[offset] as number;
    });
    return [out];
  },
  form: movingKernel,
  lower: {
    emit: (context) => {
      const [x, ...starts] = context.inputs as [View, ...View[]];
      const out = context.outputs[0] as View;
      return [
        kernels.dynamicSlice.call({
          dtype: x.dtype,
          shape: x.shape,
          sizes: out.shape,
          in: context.at(x),
          starts: starts.map((start) => context.at(start)),
          out: context.at(out),
        }),
      ];
    },
  },
});

defineOp({
  name: "dynamicUpdateSlice",
  doc: "The first input with the second written over it, starting at the i32 scalars given per dim, moved so that it fits.",
  example: {
    inputs: [
      { dtype: "f32", shape: [3], data: Float32Array.of(1, 2, 3) },
      { dtype: "f32", shape: [1], data: Float32Array.of(9) },
      { dtype: "i32", shape: [], data: Int32Array.of(1) },
    ],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(1, 9, 3) }],
  },
  infer: (inputs) => {
    const [input, update, ...starts] = inputs as [TensorType, TensorType, ...TensorType[]];
    checkStarts("dynamicUpdateSlice", starts, input.shape.length);
    if (
      update.dtype !== input.dtype ||
      update.shape.length !== input.shape.length ||
      update.shape.some((size, dim) => size > (input.shape[dim] as number))
    ) {
      throw new HeddleError(
        "shape",
        `dynamicUpdateSlice: ${formatType(update)} does not fit into ${formatType(input)}`,
      );
    }
    return input;
  },
  equation: (inputs) => {
    const [input, update] = inputs as [TensorType, TensorType];
    const all = letters(input.shape.length);
    const cut = touchedDims(input.shape, update.shape);
    return equationOf(
      [all, all.map((letter, dim) => (cut[dim] ? `${letter}'` : letter)), ...all.map(() => [])],
      [all],
      {
        whole: all.flatMap((letter, dim) => (cut[dim] ? [letter, `${letter}'`] : [])),
      },
    );
  },
  linear: [[0, 1]],
  gradient: ({ node, cotangents }) => {
    const [, update, ...starts] = node.inputs as [Node, Node, ...Node[]];
    const dy = cotangents[0] as Node;
    return [
      emit.call("dynamicUpdateSlice", [dy, emit.zerosLike(update), ...starts]),
      emit.call("dynamicSlice", [dy, ...starts], { sizes: update.shape }),
      ...starts.map(() => undefined),
    ];
  },
  batch: (context) => {
    const [x, update, ...starts] = context.inputs as [Batched, Batched, ...Batched[]];
    if (starts.some(isBatched)) return batchByLoop(context);
    const operands = [x, update].map((operand) => spreadBatch(operand, context.size));
    return [withBatch(emit.call("dynamicUpdateSlice", [...operands, zero(), ...starts.map(({ node }) => node)]))];
  },
  localize: absent("attributes hold no sizes"),
  cost: () => 0,
  reference: ([x, update, ...starts]) => {
    const { shape, data } = x as HostTensor;
    const out = data.slice();
    const sizes = (update as HostTensor).shape;
    eachOffset(sizes, stridesOf(shape), clampedStart(shape, sizes, starts), (linear, offset) => {
      out[offset] = update?.data[linear] as number;
    });
    return [out];
  },
  form: { ...movingKernel, updates: true },
  lower: {
    inPlace: 0,
    emit: (context) => {
      const [x, update, ...starts] = context.inputs as [View, View, ...View[]];
      const out = context.outputs[0] as View;
      return [
        kernels.dynamicUpdateSlice.call({
          dtype: x.dtype,
          shape: x.shape,
          sizes: update.shape,
          in: context.at(x),
          update: context.at(update),
          starts: starts.map((start) => context.at(start)),
          out: context.at(out),
        }),
      ];
    },
  },
});
