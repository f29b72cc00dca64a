/** @module Equations of ops that move elements, and of sums and products over moved elements. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { otherDims, range, sameShape, sizeOf } from "../ir/shape.ts";
import { broadcastInDim, cast, dotGeneral, gather, reduce, reshape, reverse, slice, transpose } from "../ops/index.ts";
import type { DotAttrs } from "../ops/narrow/dtypes.ts";
import { type Rule, rule } from "../rewrite/index.ts";
import { attr, input, isOp, orderOf, repeatedScalar } from "./match.ts";

type Dims = readonly number[];

const isAscending = (dims: Dims): boolean =>
  dims.every((dim, index) => index === 0 || dim > (dims[index - 1] as number));
const isIdentity = (order: Dims): boolean => order.every((dim, index) => dim === index);

/** The order of the dims that are larger than 1. */
const movedOrder = (node: Node): number[] => orderOf(node).filter((dim) => input(node).shape[dim] !== 1);

function transposeOfBroadcast(node: Node): Node | undefined {
  const source = input(node);
  if (!isOp(source, "broadcast")) return undefined;
  const order = orderOf(node);
  const positions = attr<Dims>(source, "dims").map((dim) => order.indexOf(dim));
  const inner = range(positions.length).sort((a, b) => (positions[a] as number) - (positions[b] as number));
  return broadcastInDim(
    transpose(input(source), inner),
    node.shape,
    inner.map((dim) => positions[dim] as number),
  );
}

/** broadcast(reshape(x)) where the reshape only inserted dims of size 1, which the broadcast can skip. */
function broadcastOfReshape(node: Node): Node | undefined {
  const middle = input(node);
  if (!isOp(middle, "reshape")) return undefined;
  const { shape } = input(middle);
  const longDims = range(middle.shape.length).filter((dim) => middle.shape[dim] !== 1);
  const sizes = longDims.map((dim) => middle.shape[dim] as number);
  if (!sameShape(sizes, shape)) return undefined;
  const dims = attr<Dims>(node, "dims");
  return broadcastInDim(
    input(middle),
    node.shape,
    longDims.map((dim) => dims[dim] as number),
  );
}

/** A table of master weights is not cast whole for the few rows that are looked up. */
function gatherOfCast(node: Node): Node | undefined {
  const [wide, indices] = node.inputs as [Node, Node];
  if (!isOp(wide, "cast") || sizeOf(node.shape) >= sizeOf(wide.shape)) return undefined;
  return cast(gather(input(wide), indices, attr<number>(node, "batchDims")), node.dtype);
}

/** For each dim of a reduced value, the dim of the operand. */
const operandDims = (node: Node): number[] => otherDims(input(node).shape.length, attr<Dims>(node, "dims"));

function reduceOfReduce(node: Node): Node | undefined {
  const inner = input(node);
  if (!isOp(inner, "reduce") || inner.attrs["op"] !== node.attrs["op"]) return undefined;
  const innerDims = operandDims(inner);
  const dims = attr<Dims>(node, "dims").map((dim) => innerDims[dim] as number);
  return reduce(attr(node, "op"), input(inner), [...attr<Dims>(inner, "dims"), ...dims]);
}

function reduceOfTranspose(node: Node): Node | undefined {
  const transposed = input(node);
  if (!isOp(transposed, "transpose")) return undefined;
  const order = orderOf(transposed);
  const dims = attr<Dims>(node, "dims").map((dim) => order[dim] as number);
  const targetDims = operandDims(node).map((dim) => order[dim] as number);
  const reducedDims = otherDims(order.length, dims);
  return transpose(
    reduce(attr(node, "op"), input(transposed), dims),
    targetDims.map((dim) => reducedDims.indexOf(dim)),
  );
}

/** Dims of size 1 need no reducing; a float sum turns -0 into 0, so it stays. */
function reduceOfOnes(node: Node): Node | undefined {
  if (attr<string>(node, "op") === "sum" && isFloat(node.dtype)) return undefined;
  const { shape } = input(node);
  return attr<Dims>(node, "dims").every((dim) => shape[dim] === 1) ? reshape(input(node), node.shape) : undefined;
}

const dotDims = (node: Node): DotAttrs => node.attrs as unknown as DotAttrs;

/** A product reads its operands in any order of dims that keeps the order of the free dims. */
function dotOfTranspose(node: Node): Node | undefined {
  const dims = dotDims(node);
  const strip = (operand: Node, batch: Dims, contract: Dims) => {
    if (!isOp(operand, "transpose")) return undefined;
    const order = orderOf(operand);
    const free = otherDims(order.length, [...batch, ...contract]).map((dim) => order[dim] as number);
    const mapped = (list: Dims): number[] => list.map((dim) => order[dim] as number);
    return isAscending(free)
      ? { operand: input(operand), batch: mapped(batch), contract: mapped(contract) }
      : undefined;
  };
  const x = strip(input(node), dims.xBatch, dims.xContract);
  const y = strip(input(node, 1), dims.yBatch, dims.yContract);
  if (x === undefined && y === undefined) return undefined;
  return dotGeneral(x?.operand ?? input(node), y?.operand ?? input(node, 1), {
    ...dims,
    xBatch: x?.batch ?? dims.xBatch,
    yBatch: y?.batch ?? dims.yBatch,
    xContract: x?.contract ?? dims.xContract,
    yContract: y?.contract ?? dims.yContract,
  });
}

/** The transpose that puts the free dims of y before those of x is the product of y by x. */
function transposeOfDot(node: Node): Node | undefined {
  const product = input(node);
  if (!isOp(product, "dot")) return undefined;
  const { xBatch, yBatch, xContract, yContract, ...wider } = dotDims(product);
  const batch = xBatch.length;
  const split = batch + input(product).shape.length - batch - xContract.length;
  const rank = product.shape.length;
  const swapped = [
    ...range(batch),
    ...range(rank - split).map((dim) => split + dim),
    ...range(split - batch).map((dim) => batch + dim),
  ];
  if (!sameShape(orderOf(node), swapped)) return undefined;
  return dotGeneral(input(product, 1), input(product), {
    ...wider,
    xBatch: yBatch,
    yBatch: xBatch,
    xContract: yContract,
    yContract: xContract,
  });
}

function sliceOfSlice(node: Node): Node | undefined {
  const inner = input(node);
  if (!isOp(inner, "slice")) return undefined;
  const [start, limit, stride] = [attr<Dims>(node, "start"), attr<Dims>(node, "limit"), attr<Dims>(node, "stride")];
  const [from, step] = [attr<Dims>(inner, "start"), attr<Dims>(inner, "stride")];
  const sourceIndex = (dim: number, index: number): number => (from[dim] as number) + index * (step[dim] as number);
  return slice(
    input(inner),
    start.map((first, dim) => (node.shape[dim] === 0 ? 0 : sourceIndex(dim, first))),
    limit.map((end, dim) => (node.shape[dim] === 0 ? 0 : sourceIndex(dim, end - 1) + 1)),
    stride.map((by, dim) => by * (step[dim] as number)),
  );
}

const isZero = (list: Dims): boolean => list.every((amount) => amount === 0);

export const movementRules: readonly Rule[] = [
  rule("transpose", "transpose nothing", "transpose(x, identity) = x", (node) =>
    isIdentity(orderOf(node)) ? input(node) : undefined,
  ),
  rule("transpose", "transpose of transpose", "transpose(transpose(x, p), q) = transpose(x, p q)", (node) => {
    const inner = input(node);
    return isOp(inner, "transpose")
      ? transpose(
          input(inner),
          orderOf(node).map((dim) => orderOf(inner)[dim] as number),
        )
      : undefined;
  }),
  rule(
    "transpose",
    "transpose of broadcast",
    "transpose(broadcast(x)) = broadcast(transpose(x))",
    transposeOfBroadcast,
  ),
  rule("transpose", "transpose of dot", "transpose(dot(x, y)) = dot(y, x)", transposeOfDot),
  rule("transpose", "transpose of ones", "transpose(x) = reshape(x) where only dims of size 1 move", (node) =>
    isAscending(movedOrder(node)) ? reshape(input(node), node.shape) : undefined,
  ),
  rule("reshape", "reshape nothing", "reshape(x, shape(x)) = x", (node) =>
    sameShape(input(node).shape, node.shape) ? input(node) : undefined,
  ),
  rule("reshape", "reshape of reshape", "reshape(reshape(x)) = reshape(x)", (node) =>
    isOp(input(node), "reshape") ? reshape(input(input(node)), node.shape) : undefined,
  ),
  rule("reshape", "reshape of scalar", "reshape(broadcast(scalar)) = broadcast(scalar)", (node) => {
    const scalar = repeatedScalar(input(node));
    return scalar === undefined ? undefined : broadcastInDim(scalar, node.shape, []);
  }),
  rule("broadcast", "broadcast nothing", "broadcast(x, shape(x)) = x", (node) =>
    sameShape(input(node).shape, node.shape) ? input(node) : undefined,
  ),
  rule("broadcast", "broadcast of broadcast", "broadcast(broadcast(x)) = broadcast(x)", (node) => {
    const inner = input(node);
    if (!isOp(inner, "broadcast")) return undefined;
    const dims = attr<Dims>(node, "dims");
    return broadcastInDim(
      input(inner),
      node.shape,
      attr<Dims>(inner, "dims").map((dim) => dims[dim] as number),
    );
  }),
  rule("broadcast", "broadcast of reshape", "broadcast(reshape(x, with ones)) = broadcast(x)", broadcastOfReshape),
  rule("reduce", "reduce of ones", "reduce(x, dims of size 1, or none) = reshape(x)", reduceOfOnes),
  rule("reduce", "reduce of reduce", "sum(sum(x, a), b) = sum(x, a b)", reduceOfReduce),
  rule("reduce", "reduce of transpose", "reduce(transpose(x)) = transpose(reduce(x))", reduceOfTranspose),
  rule("dot", "dot of transpose", "dot(transpose(x), y) = dot(x, y) by other dims", dotOfTranspose),
  rule("slice", "slice of all", "slice(x, all) = x", (node) =>
    sameShape(input(node).shape, node.shape) ? input(node) : undefined,
  ),
  rule("slice", "slice of slice", "slice(slice(x)) = slice(x)", sliceOfSlice),
  rule("slice reverse", "move within scalar", "slice(broadcast(scalar)) = broadcast(scalar)", (node) => {
    const scalar = repeatedScalar(input(node));
    return scalar === undefined ? undefined : broadcastInDim(scalar, node.shape, []);
  }),
  rule("pad", "pad by nothing", "pad(x, 0) = x", (node) =>
    isZero(attr(node, "low")) && isZero(attr(node, "high")) && isZero(attr(node, "interior")) ? input(node) : undefined,
  ),
  rule("reverse", "reverse of ones", "reverse(x, dims of size 1) = x", (node) => {
    const dims = attr<Dims>(node, "dims");
    const long = dims.filter((dim) => (node.shape[dim] as number) > 1);
    return long.length < dims.length ? reverse(input(node), long) : undefined;
  }),
  rule("reverse", "reverse of reverse", "reverse(reverse(x)) = x", (node) => {
    const inner = input(node);
    if (!isOp(inner, "reverse")) return undefined;
    const [outerDims, innerDims] = [attr<Dims>(node, "dims"), attr<Dims>(inner, "dims")];
    return reverse(
      input(inner),
      [...outerDims, ...innerDims].filter((dim) => outerDims.includes(dim) !== innerDims.includes(dim)),
    );
  }),
  rule("concat", "concat of one", "concat(x) = x", (node) => (node.inputs.length === 1 ? input(node) : undefined)),
  rule("gather", "gather of cast", "gather(cast(x), i) = cast(gather(x, i)), where that casts less", gatherOfCast),
  rule("dynamicSlice", "dynamic slice of all", "dynamicSlice(x, all) = x", (node) =>
    sameShape(input(node).shape, node.shape) ? input(node) : undefined,
  ),
  rule("dynamicUpdateSlice", "update of all", "dynamicUpdateSlice(x, y) = y where y is as large as x", (node) =>
    sameShape(input(node, 1).shape, node.shape) ? input(node, 1) : undefined,
  ),
];
