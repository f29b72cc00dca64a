/** @module Random bits: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11). */

import { type Control, controlOf } from "../ir/control.ts";
import { equationOf, letters } from "../ir/equation.ts";
import { inputSpecs, interpretGraph, mapGraphs, traceGraph } from "../ir/graph.ts";
import type { View } from "../ir/kernel.ts";
import type { Graph, HostTensor, Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatShape, formatType, type Shape, sameShape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { apply, isGraph } from "../ir/trace.ts";
import { nodesWithin } from "../ir/walk.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { philox4x32 } from "../util/philox.ts";
import { batchByLoop } from "./batch.ts";
import * as emit from "./emit.ts";
import { eachOffset } from "./host-arrays.ts";
import { blockStart, splitShape } from "./local.ts";

export type RandomAttrs = { shape: Shape; total: Shape; stream: number };

const randomBitsOp = defineOp<RandomAttrs>({
  name: "randomBits",
  doc: "Uniform u32 words. The word at a position depends on the key (u32[2]), the stream and the position in a tensor of shape `total`; the result is its block that begins at `start` (i32 per dim).",
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
  // With a key per element of the batch, each element gets the bits that it would get alone; with one key, all get the same.
  batch: batchByLoop,
  localize: (context) => {
    const { shape, total, stream } = context.attrs;
    const [key, start] = context.inputs as [Node, Node];
    const rank = shape.length;
    let moved = start;
    shape.forEach((size, dim) => {
      const first = blockStart(size, dim, context.splits);
      if (first === undefined) return;
      const here = emit.eq(emit.iota("i32", [rank], 0), dim);
      moved = emit.add(moved, emit.select(here, emit.broadcastTo(first, [rank]), 0));
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
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [key, start] = context.inputs as [View, View];
      const { shape, total, stream } = context.attrs;
      return [
        kernels.randomBits.call({
          key: context.at(key),
          start: context.at(start),
          shape,
          total,
          stream,
          out: context.at(context.outputs[0] as View),
        }),
      ];
    },
  },
});

/**
 * A loop body in which random keys that are the same in all iterations are folded with the iteration (its first input), so
 * that bits differ between iterations. The first `varying` inputs differ by iteration.
 */
export function foldKeys(body: Graph, varying: number): Graph {
  return traceGraph(body.name, inputSpecs(body), (...nodes) =>
    foldWithin(
      body,
      nodes.map((node, index) => ({ node, varies: index < varying })),
      nodes[0] as Node,
    ).map(({ node }) => node),
  );
}

/** A value in the body of a loop, and whether it differs by iteration. */
interface Folded {
  readonly node: Node;
  readonly varies: boolean;
}

function foldWithin(graph: Graph, inputs: readonly Folded[], count: Node): Folded[] {
  return interpretGraph<Folded>(graph, inputs, (node, operands) => {
    const varies = operands.some((input) => input.varies);
    const nodes = operands.map((input) => input.node);
    if (drawsBits(node)) return foldOwned(node, operands, count);
    if (node.op !== randomBitsOp) return { node: apply(node.op, nodes, node.attrs), varies };
    const [key, ...rest] = nodes as [Node, ...Node[]];
    // Bits of a folded key vary, and so does everything computed from them.
    return { node: apply(node.op, [varies ? key : emit.foldIn(key, count), ...rest], node.attrs), varies: true };
  });
}

const graphsOf = (node: Node): Graph[] => Object.values(node.attrs).filter(isGraph);
const drawsBits = (node: Node): boolean =>
  graphsOf(node).some((graph) => nodesWithin(graph).some(({ op }) => op === randomBitsOp));

/** A node that owns graphs: each graph takes the outer loop's iteration as a further input, constant in its own iterations. */
function foldOwned(node: Node, operands: readonly Folded[], count: Node): Folded {
  const control = controlOf(node);
  const loop = control?.kind === "loop";
  let flags = operands.map(({ varies }) => varies);
  for (;;) {
    const outputs = new Map<Graph, readonly boolean[]>();
    const replaced = (graph: Graph): Graph =>
      traceGraph(
        graph.name,
        [...inputSpecs(graph), { name: "outer index", type: { dtype: "i32", shape: [] } }],
        (...nodes) => {
          const varying = variesWithin(control, flags, graph.inputs.length);
          const inputs = varying.map((varies, index) => ({ node: nodes[index] as Node, varies }));
          const results = foldWithin(graph, inputs, nodes.at(-1) as Node);
          outputs.set(
            graph,
            results.map(({ varies }) => varies),
          );
          return results.map((result) => result.node);
        },
      );
    const attrs = mapGraphs(node.attrs, replaced);
    const next = loop ? outputs.get(control.body) : undefined;
    const grown = flags.map((varies, index) => varies || (loop && index < control.carries && next?.[index] === true));
    if (grown.every((varies, index) => varies === flags[index])) {
      const inputs = [...operands.map((input) => input.node), count];
      return { node: apply(node.op, inputs, attrs), varies: true };
    }
    flags = grown;
  }
}

/** Which inputs of a node's graph differ by iteration, from the flags of the node's inputs. */
function variesWithin(control: Control | undefined, flags: readonly boolean[], count: number): boolean[] {
  // The count of an inner loop does not differ by iteration of the outer one; of a branch, the first input is its test.
  if (control?.kind === "loop") return [false, ...flags];
  if (control?.kind === "branch") return flags.slice(1);
  // Graph inputs before the node's inputs are computed in the iteration.
  return [...new Array<boolean>(count - flags.length).fill(true), ...flags];
}
