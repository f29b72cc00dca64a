/**
 * @module For each factor of scattered products, the product of the other factors: the gradient of scatter by `prod`
 * multiplies by it. Values come by division, with a count of the factors that are 0. A derivative of the division would miss
 * how a factor of 0 changes the others, so the gradient differentiates products: exact with any number of zeros, at any order.
 */
import { equationOf, letters } from "../ir/equation.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { batchByEquation } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";
import { f32 } from "./movement.ts";
import { resultsOf } from "./results.ts";
import { argsort } from "./sort.ts";

type Attrs = { batchDims: number };

/** Computes by division: the product of all factors that are not 0, divided by each factor. */
function byDivision([x, indices, updates]: readonly [Node, Node, Node], batchDims: number): Node[] {
  const at = (value: Node): Node => emit.gather(value, indices, batchDims);
  const zeros = (value: Node): Node => emit.cast(emit.eq(value, 0), x.dtype);
  const without = (value: Node): Node => emit.select(emit.eq(value, 0), 1, value);
  const count = emit.scatter("sum", zeros(x), indices, zeros(updates), batchDims);
  const product = emit.scatter("prod", without(x), indices, without(updates), batchDims);
  const others = (value: Node, counted: Node, all: Node): Node => {
    const rest = emit.div(all, without(value));
    return emit.select(emit.eq(emit.sub(counted, zeros(value)), 0), rest, 0);
  };
  return [others(x, count, product), others(updates, at(count), at(product))];
}

/** For each factor, the product of the factors of its row before it, by doubling; `keys` are the rows, ascending. */
function before(factors: Node, keys: Node): Node {
  const length = keys.shape[1] as number;
  const sameRow = (by: number): Node => {
    const same = emit.eq(keys, emit.shifted(keys, 1, by, -1));
    return emit.broadcastInDim(same, factors.shape, [0, 1]);
  };
  const earlier = (value: Node, by: number): Node => emit.select(sameRow(by), emit.shifted(value, 1, by, 1), 1);
  let products = factors;
  for (let by = 1; by < length; by *= 2) products = emit.mul(products, earlier(products, by));
  return earlier(products, 1);
}

/** Computes by products only: the product of the factors before each factor, in order of rows, times that of the factors after it. */
function byProducts([x, indices, updates]: readonly [Node, Node, Node], batchDims: number): Node[] {
  const lead = sizeOf(x.shape.slice(0, batchDims));
  const rows = x.shape[batchDims] as number;
  const inner = sizeOf(x.shape.slice(batchDims + 1));
  const count = sizeOf(indices.shape.slice(batchDims));
  const factors = emit.concat([emit.reshape(x, [lead, rows, inner]), emit.reshape(updates, [lead, count, inner])], 1);
  const keys = emit.concat([emit.iota("i32", [lead, rows], 1), emit.reshape(indices, [lead, count])], 1);
  const order = argsort(keys, 1);
  const [sorted, sortedKeys] = [emit.gather(factors, order, 1), emit.gather(keys, order, 1)];
  const reversed = (value: Node): Node => emit.reverse(value, [1]);
  const others = emit.mul(before(sorted, sortedKeys), reversed(before(reversed(sorted), reversed(sortedKeys))));
  const back = emit.gather(others, argsort(order, 1), 1);
  const part = (from: number, to: number, shape: Shape): Node =>
    emit.reshape(emit.slice(back, [0, from, 0], [lead, to, inner]), shape);
  return [part(0, rows, x.shape), part(rows, rows + count, updates.shape)];
}

const othersOp: OpDef<Attrs> = defineComposite<Attrs>({
  name: "scatterOthers",
  doc: "For each element of x and of the updates of a scatter by prod, the product of the other factors of its row.",
  example: {
    inputs: [f32([2], [2, 3]), { dtype: "i32", shape: [2], data: Int32Array.of(1, 1) }, f32([2], [0, 5])],
    attrs: { batchDims: 0 },
    outputs: [f32([2], [1, 0]), f32([2], [15, 0])],
  },
  body: (inputs, { batchDims }) => byDivision(inputs as unknown as readonly [Node, Node, Node], batchDims),
  equation: ([x, indices], { batchDims }) => {
    const batch = letters(batchDims, "b");
    const index = letters((indices as TensorType).shape.length - batchDims, "i");
    const rest = letters((x as TensorType).shape.length - batchDims - 1, "r");
    const table = [...batch, "s", ...rest];
    const rows = [...batch, ...index, ...rest];
    return equationOf([table, [...batch, ...index], rows], [table, rows], { whole: ["s", ...index] });
  },
  linear: [],
  gradient: ({ node, cotangents, pullback }) => {
    const [x, indices, updates] = node.inputs as [Node, Node, Node];
    // If x and updates are one node, a barrier keeps their derivatives apart.
    const apart = x === updates ? emit.barrier(updates, [indices]) : updates;
    const products = byProducts([x, indices, apart], node.attrs.batchDims as number);
    const [byX, byUpdates] = pullback(products, cotangents, [x, apart]);
    return [byX, undefined, byUpdates];
  },
  batch: batchByEquation(({ batchDims }) => ({ batchDims: batchDims + 1 })),
  form: absent("its body is a few fused calls around two scatters"),
});

/** The products of the other factors of each row, for each element of x and for each element of updates. */
export const scatterOthers = (x: Node, indices: Node, updates: Node, batchDims: number): [Node, Node] =>
  resultsOf(apply(othersOp, [x, indices, updates], { batchDims })) as [Node, Node];
