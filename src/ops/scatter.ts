/** @module Scatter: rows combined into a table at indices that are themselves values. */
import { type DType, dtypes, isFloat } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import type { View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, range, sameShape, sizeOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { eachRow } from "./lookup.ts";
import { lookupSizes, sumScratch } from "./lookup-sizes.ts";
import { combine } from "./reduce.ts";
import { scatterOthers } from "./scatter-others.ts";

export type ScatterAttrs = { op: emit.ScatterOp; batchDims: number };

function inferScatter(inputs: readonly TensorType[], { op, batchDims }: ScatterAttrs): TensorType {
  const [x, indices, updates] = inputs as [TensorType, TensorType, TensorType];
  if (inputs.length !== 3) throw new HeddleError("op", `scatter ${op}: takes 3 inputs, got ${inputs.length}`);
  if (indices.dtype !== "i32")
    throw new HeddleError("dtype", `scatter ${op}: indices must be i32, got ${formatType(indices)}`);
  const lead = (type: TensorType): readonly number[] => type.shape.slice(0, batchDims);
  const fits = batchDims >= 0 && batchDims < x.shape.length && sameShape(lead(x), lead(indices));
  const wanted = [...indices.shape, ...x.shape.slice(batchDims + 1)];
  if (!fits || updates.dtype !== x.dtype || !sameShape(updates.shape, wanted)) {
    throw new HeddleError(
      "shape",
      `scatter ${op}: updates into ${formatType(x)} at ${formatType(indices)} must be ${formatType({ dtype: x.dtype, shape: wanted })}, got ${formatType(updates)}`,
    );
  }
  if (x.dtype === "bool" && (op === "sum" || op === "prod"))
    throw new HeddleError("dtype", `scatter ${op}: not defined for ${formatType(x)}`);
  return x;
}

const ruleOf = (op: emit.ScatterOp): ((x: number, y: number, dtype: DType) => number) =>
  op === "replace" ? (_held, update) => update : combine[op];

/** The last of several updates of a row stays. */
function replaceGradient(x: Node, indices: Node, updates: Node, dy: Node, batchDims: number): Node[] {
  const dx = emit.scatter("replace", dy, indices, emit.zerosLike(updates), batchDims);
  const count = indices.shape.slice(batchDims).reduce((product, size) => product * size, 1);
  const lead = indices.shape.slice(0, batchDims);
  const order = emit.reshape(emit.iota("i32", [...lead, count], batchDims), indices.shape);
  const rows = emit.full("i32", [...lead, x.shape[batchDims] as number], -1);
  const last = emit.gather(emit.scatter("replace", rows, indices, order, batchDims), indices, batchDims);
  const stays = emit.broadcastInDim(emit.eq(last, order), updates.shape, range(indices.shape.length));
  return [dx, emit.select(stays, emit.gather(dy, indices, batchDims), 0)];
}

/** All elements and updates that equal the extreme share the cotangent. */
function extremeGradient(node: Node, dy: Node): Node[] {
  const [x, indices, updates] = node.inputs as [Node, Node, Node];
  const { batchDims } = node.attrs as ScatterAttrs;
  const held = emit.eq(x, node);
  const wins = emit.eq(updates, emit.gather(node, indices, batchDims));
  const ones = (mask: Node): Node => emit.cast(mask, x.dtype);
  const share = emit.div(dy, emit.scatter("sum", ones(held), indices, ones(wins), batchDims));
  return [emit.select(held, share, 0), emit.select(wins, emit.gather(share, indices, batchDims), 0)];
}

/** The gradient by each factor is the product of the others; exact also where factors are 0. */
function productGradient(node: Node, dy: Node): Node[] {
  const [x, indices, updates] = node.inputs as [Node, Node, Node];
  const { batchDims } = node.attrs as ScatterAttrs;
  const [others, ofUpdates] = scatterOthers(x, indices, updates, batchDims);
  return [emit.mul(dy, others), emit.mul(emit.gather(dy, indices, batchDims), ofUpdates)];
}

defineOp<ScatterAttrs>({
  name: "scatter",
  doc: "A copy of x in which rows are combined with updates, in order of position, by sum, prod, max, min or replace: out[b…, indices[b…, i…], r…] with updates[b…, i…, r…]. An index outside the range is an error of the run.",
  example: {
    inputs: [
      { dtype: "f32", shape: [3], data: Float32Array.of(5, 6, 7) },
      { dtype: "i32", shape: [3], data: Int32Array.of(2, 0, 2) },
      { dtype: "f32", shape: [3], data: Float32Array.of(8, 1, 9) },
    ],
    attrs: { op: "max", batchDims: 0 },
    outputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(5, 6, 9) }],
  },
  infer: inferScatter,
  equation: ([x, indices], { batchDims }) => {
    const batch = letters(batchDims, "b");
    const index = letters((indices as TensorType).shape.length - batchDims, "i");
    const rest = letters((x as TensorType).shape.length - batchDims - 1, "r");
    const table = [...batch, "s", ...rest];
    const whole = ["s", ...index];
    return equationOf([table, [...batch, ...index], [...batch, ...index, ...rest]], [table], { whole });
  },
  linear: ({ op }) => (op === "sum" || op === "replace" ? [[0, 2]] : []),
  gradient: ({ node, cotangents }) => {
    const [x, indices, updates] = node.inputs as [Node, Node, Node];
    const { op, batchDims } = node.attrs as ScatterAttrs;
    const dy = cotangents[0] as Node;
    const derive = (): Node[] => {
      if (op === "sum") return [dy, emit.gather(dy, indices, batchDims)];
      if (op === "replace") return replaceGradient(x, indices, updates, dy, batchDims);
      return op === "prod" ? productGradient(node, dy) : extremeGradient(node, dy);
    };
    const [byX, byUpdates] = derive();
    return [byX, undefined, byUpdates];
  },
  batch: batchByEquation(({ op, batchDims }) => ({ op, batchDims: batchDims + 1 })),
  localize: absent("attributes hold no sizes"),
  cost: ([, , updates]) => sizeOf((updates as TensorType).shape),
  reference: ([x, indices, updates], { op, batchDims }) => {
    const { shape, dtype, data } = x as HostTensor;
    const inner = sizeOf(shape.slice(batchDims + 1));
    const held = isFloat(dtype) ? Float64Array.from(data) : data.slice();
    const rule = ruleOf(op);
    eachRow("scatter", shape, indices as HostTensor, batchDims, undefined, (position, to) => {
      for (let r = 0; r < inner; r++) {
        const update = updates?.data[position * inner + r] as number;
        held[to + r] = rule(held[to + r] as number, update, isFloat(dtype) ? "f64" : dtype);
      }
    });
    return [isFloat(dtype) ? dtypes[dtype].create(Array.from(held)) : held];
  },
  form: { kind: "kernel", updates: true, moves: ({ op }) => op === "replace" },
  lower: {
    inPlace: 0,
    emit: (context) => {
      const [x, indices, updates] = context.inputs as [View, View, View];
      const { op, batchDims } = context.attrs;
      const sizes = lookupSizes(x.shape, indices.shape, batchDims);
      return [
        kernels.scatter.call({
          op,
          dtype: x.dtype,
          ...sizes,
          in: context.at(x),
          updates: context.at(updates),
          indices: context.at(indices),
          out: context.at(context.outputs[0] as View),
          ...(op === "sum" ? sumScratch(context, x, sizes) : {}),
        }),
      ];
    },
  },
});
