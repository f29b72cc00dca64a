/** @module Random bits: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11). */

import { equationOf, letters } from "../ir/equation.ts";
import { inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import type { View } from "../ir/kernel.ts";
import type { Graph, HostTensor, Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatShape, formatType, type Shape, sameShape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import type { HloValue } from "../ir/stablehlo.ts";
import { apply } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";
import { philox4x32 } from "../util/philox.ts";
import { batchByLoop } from "./batch.ts";
import * as emit from "./emit.ts";
import { hloPhilox } from "./hlo.ts";
import { eachOffset } from "./host.ts";
import { blockStart, splitShape } from "./local.ts";

type RandomAttrs = { shape: Shape; total: Shape; stream: number };

const randomBitsOp = defineOp<RandomAttrs>({
  name: "randomBits",
  doc: "Uniform u32 words. The word at a position depends on the key (u32[2]), the stream and the position in the whole tensor of shape `total`, of which this is the block that begins at `start` (i32 per dim).",
  example: {
    inputs: [
      { dtype: "u32", shape: [2], data: Uint32Array.of(0, 0) },
      { dtype: "i32", shape: [1], data: Int32Array.of(0) },
    ],
    attrs: { shape: [2], total: [2], stream: 0 },
    // First words of the zero counter and key, from the known-answer tests of Random123.
    outputs: [{ dtype: "u32", shape: [2], data: Uint32Array.of(0x6627e8d5, 0xe169c58d) }],
  },
  infer: (inputs, { shape, total }) => {
    const [key, start] = inputs as [TensorType, TensorType];
    if (key.dtype !== "u32" || !sameShape(key.shape, [2]))
      throw new HeddleError("shape", `randomBits: the key must be u32[2], got ${formatType(key)}`);
    if (start.dtype !== "i32" || !sameShape(start.shape, [shape.length]))
      throw new HeddleError("shape", `randomBits: the start must be i32[${shape.length}], got ${formatType(start)}`);
    if (total.length !== shape.length || shape.some((size, dim) => size > (total[dim] as number))) {
      throw new HeddleError("shape", `randomBits: a block of ${formatShape(shape)} is not in ${formatShape(total)}`);
    }
    sizeOf(total);
    return { dtype: "u32", shape };
  },
  equation: (_inputs, { shape }) =>
    equationOf([["key"], ["start"]], [letters(shape.length)], { whole: ["key", "start"] }),
  linear: [],
  gradient: () => [undefined, undefined],
  // A key per element of the batch: each gets the bits that it would get alone. With one key for all, all get the same.
  batch: batchByLoop,
  localize: (context) => {
    const { shape, total, stream } = context.attrs;
    const [key, start] = context.inputs as [Node, Node];
    const rank = shape.length;
    let moved = start;
    shape.forEach((size, dim) => {
      const mine = blockStart(size, dim, context.splits);
      if (mine === undefined) return;
      const here = emit.eq(emit.iota("i32", [rank], 0), dim);
      moved = emit.add(moved, emit.select(here, emit.broadcastTo(mine, [rank]), 0));
    });
    return emit.call("randomBits", [key, moved], { shape: splitShape(shape, context.splits), total, stream });
  },
  cost: (_inputs, outputs) => 25 * sizeOf((outputs[0] as TensorType).shape),
  reference: ([key, start], { total, stream }, [type]) => {
    const { shape } = type as TensorType;
    const out = new Uint32Array(sizeOf(shape));
    const strides = stridesOf(total);
    const first = strides.reduce(
      (offset, stride, dim) => offset + stride * ((start as HostTensor).data[dim] as number),
      0,
    );
    const words: [number, number] = [key?.data[0] as number, key?.data[1] as number];
    let block = -1;
    let lanes: readonly number[] = [];
    eachOffset(shape, strides, first, (linear, index) => {
      const wanted = Math.floor(index / 4);
      if (wanted !== block) {
        block = wanted;
        lanes = philox4x32([wanted >>> 0, Math.floor(wanted / 2 ** 32) >>> 0, stream, 0], words);
      }
      out[linear] = lanes[index % 4] as number;
    });
    return [out];
  },
  stablehlo: ({ hlo, inputs, attrs: { shape, total, stream } }) => {
    const [key, start] = inputs as [HloValue, HloValue];
    return [hloPhilox(hlo, key, start, { shape, strides: stridesOf(total), stream })];
  },
  lower: {
    kind: "kernel",
    emit: (context) => {
      const [key, start] = context.inputs as [View, View];
      const { shape, total, stream } = context.attrs;
      return [
        {
          k: "randomBits",
          key: context.at(key),
          start: context.at(start),
          shape,
          total,
          stream,
          out: context.at(context.outputs[0] as View),
        },
      ];
    },
  },
});

/**
 * The body of a loop with keys folded with the count of its first input, where bits would be the same in every
 * iteration. `own` is how many inputs differ by iteration.
 */
export function foldKeys(body: Graph, own: number): Graph {
  const varying = new Set<Node>(body.inputs.slice(0, own));
  for (const node of topological(body.outputs)) {
    const fixed = !node.inputs.some((input) => varying.has(input));
    // What is folded varies, and so does what is made from it.
    if (!fixed || node.op === randomBitsOp) varying.add(node);
  }
  const folded = (node: Node): boolean => node.op === randomBitsOp && !node.inputs.some((input) => varying.has(input));
  return traceGraph(body.name, inputSpecs(body), (...given) =>
    inlineGraph(body, given, (node, inputs) =>
      folded(node)
        ? apply(node.op, [emit.foldIn(inputs[0] as Node, given[0] as Node), ...inputs.slice(1)], node.attrs)
        : apply(node.op, inputs, node.attrs),
    ),
  );
}
