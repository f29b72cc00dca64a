/** @module vmap: turns a function of one example into a function of a batch. */
import { batchGraph } from "../autodiff/index.ts";
import type { Batched } from "../ir/node.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { type FlatTree, flattenTree, type TreeShape, unflattenTree } from "../util/tree.ts";
import { checkFunction } from "./arguments.ts";
import { capturedNodes, graphName, named, nodesOf, traceBody } from "./nested.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { type AnyFunction, jit } from "./transforms.ts";

/**
 * A dim (a negative one counts from the last), null for none, or a tree of dims in the form of the arguments or the result; one dim
 * may stand for a whole part of the tree.
 */
export type DimTree = number | null | readonly DimTree[] | { readonly [name: string]: DimTree };

export interface VmapOptions {
  /** The batch dim of each tensor; null: the tensor is the same for all examples. One dim for all arguments, or a list. Default 0. */
  readonly inDims?: DimTree;
  /** The batch dim of each tensor of the result; null: the tensor does not depend on the example. Default 0. */
  readonly outDims?: DimTree;
}

/**
 * Turns a function of one example into a function of a batch: `vmap(f)(xs)` is `f` of each `xs[i]`, stacked, as one graph of
 * batched operations. It nests and composes with {@link grad}, {@link jvp}, {@link jit} and loops, in any order.
 *
 * - Values that do not depend on an example are computed once. Tensors that `fn` uses from outside are the same for all examples.
 * - Random numbers follow their keys: with a key per example each example gets its own numbers, with one key all get the same.
 * - These run one example after the other: a convolution whose input and kernel both depend on the example, a branch or a loop whose
 *   predicate does, and slices whose start does.
 *
 * @param fn a function over trees of tensors
 * @returns a function of the same arguments, compiled like one of {@link jit}
 * @throws HeddleError `argument` if no tensor is batched or dims do not have the form of the arguments; `shape` if batch sizes differ
 *   or a tensor lacks its batch dim; `batch` for an op without a batching rule.
 * @example vmap(grad(loss), { inDims: [null, 0, 0] })(params, xs, ys) // a gradient per example
 */
export function vmap<F extends AnyFunction>(fn: F, options: VmapOptions = {}): F {
  checkOptions("vmap", options, ["inDims", "outDims"]);
  checkFunction("vmap", fn);
  const { inDims = 0, outDims = 0 } = options;
  const batched = (...inputs: unknown[]): unknown => {
    const flat = flattenTree(inputs, isTensor);
    const dims = leafDims("inDims", inDims, flat.shape).map((dim, index) => placeOf(flat, "argument", dim, index, 0));
    const size = batchSize(flat, dims);
    const types = flat.leaves.map((leaf, index) => without(leaf, dims[index] as number | null));
    const { graph, captured, output } = traceBody(graphName(fn, "function"), named(flat, "x", types), (leaves) =>
      fn(...(unflattenTree(flat.shape, leaves) as unknown[])),
    );
    const wide = nodesOf(flat.leaves).map((node, index): Batched => {
      const dim = dims[index] as number | null;
      return dim === null ? { node, batched: false } : { node: ops.moveDim(node, dim, 0), batched: true };
    });
    const results = batchGraph(
      graph,
      [...wide, ...capturedNodes(captured).map((node) => ({ node, batched: false }))],
      size,
    );
    const outputs = leafDims("outDims", outDims, output.shape).map((dim, index) => {
      const result = results[index] as Batched;
      const at = placeOf(output, "result", dim, index, 1);
      if (at !== null) return Tensor.ofNode(ops.moveDim(ops.spreadBatch(result, size), 0, at));
      if (!result.batched) return Tensor.ofNode(result.node);
      throw new HeddleError("argument", `vmap: ${pathOf(output, "result", index)} depends on the example`, {
        hint: "give its batch dim in outDims; null is for results that are the same for all examples",
      });
    });
    return unflattenTree(output.shape, outputs);
  };
  return jit(batched, { name: `vmap of ${fn.name === "" ? "function" : fn.name}` }) as F;
}

/** One dim per leaf of a tree. */
function leafDims(option: string, dims: DimTree, shape: TreeShape, path = ""): (number | null)[] {
  if (shape.kind === "static") return [];
  if (shape.kind === "leaf" && (typeof dims === "number" || dims === null)) return [dims];
  const at = (key: string | number): string => (path === "" ? String(key) : `${path}.${key}`);
  const all = typeof dims === "number" || dims === null;
  if (shape.kind === "array" && (all || (Array.isArray(dims) && dims.length === shape.items.length)))
    return shape.items.flatMap((item, index) =>
      leafDims(option, all ? dims : ((dims as readonly DimTree[])[index] as DimTree), item, at(index)),
    );
  if (shape.kind === "record" && (all || (!Array.isArray(dims) && shape.keys.every((key) => Object.hasOwn(dims, key)))))
    return shape.items.flatMap((item, index) => {
      const key = shape.keys[index] as string;
      return leafDims(option, all ? dims : ((dims as { [name: string]: DimTree })[key] as DimTree), item, at(key));
    });
  const what = option === "inDims" ? "the arguments" : "the result";
  throw new HeddleError(
    "argument",
    `vmap: ${option} does not have the form of ${what}${path === "" ? "" : ` at '${path}'`}: got ${JSON.stringify(dims)}`,
    { hint: "give one dim for all, or a dim or null for each part" },
  );
}

/** "argument '0.x'", for messages. */
const pathOf = ({ paths }: FlatTree<Tensor>, what: string, index: number): string =>
  paths[index] === "" ? `the ${what}` : `${what} '${paths[index]}'`;

/** The dim counted from the first; the tensor gets `more` further dims. */
function placeOf(tree: FlatTree<Tensor>, what: string, dim: number | null, index: number, more: number): number | null {
  if (dim === null) return null;
  const leaf = tree.leaves[index] as Tensor;
  const rank = leaf.shape.length + more;
  if (Number.isInteger(dim) && dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
  const many = more === 0 ? "" : " for each example";
  throw new HeddleError(
    "shape",
    `vmap: ${pathOf(tree, what, index)}, ${formatType(leaf)}${many}, has no dim ${dim} for the examples`,
    { hint: "null is for a tensor that is the same for all" },
  );
}

function without({ dtype, shape }: TensorType, dim: number | null): TensorType {
  return { dtype, shape: dim === null ? shape : shape.filter((_size, at) => at !== dim) };
}

/** The number of examples, the same in all batched tensors. */
function batchSize(flat: FlatTree<Tensor>, dims: readonly (number | null)[]): number {
  const sizes = dims.flatMap((dim, index) => (dim === null ? [] : [{ size: flat.leaves[index]?.shape[dim], index }]));
  const [first] = sizes;
  if (first === undefined)
    throw new HeddleError("argument", "vmap: no tensor among the arguments is batched", {
      hint: "inDims gives the batch dim of each argument",
    });
  const other = sizes.find(({ size }) => size !== first.size);
  if (other !== undefined)
    throw new HeddleError(
      "shape",
      `vmap: ${pathOf(flat, "argument", first.index)} has ${first.size} examples, ${pathOf(flat, "argument", other.index)} has ${other.size}`,
    );
  return first.size as number;
}
