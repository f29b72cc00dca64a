/** @module vmap: a function of one example as a function of a batch of them. */
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
 * A dim (negative: counted from the last), null for none, or a tree of them in the form of the arguments or the result; one for
 * a whole part of the tree may stand in its place.
 */
export type DimTree = number | null | readonly DimTree[] | { readonly [name: string]: DimTree };

export interface VmapOptions {
  /** The dim of each tensor along which the examples lie; null: the same for all. One for all arguments, or a list. Default 0. */
  readonly inDims?: DimTree;
  /** Where the examples go in each tensor of the result; null: the result does not depend on the example. Default 0. */
  readonly outDims?: DimTree;
}

/**
 * A function of one example as a function of a batch: `vmap(f)(xs)` is `f` of each `xs[i]`, stacked, as one graph of batched
 * operations. It nests and composes with {@link grad}, {@link jvp}, {@link jit} and loops, in any order.
 *
 * - What does not depend on an example is computed once. Tensors that `fn` uses from outside are the same for all.
 * - Random numbers follow their keys: with a key per example each gets its own, with one key for all they all get the same.
 * - A convolution whose input and kernel both depend on the example, a branch or a loop whose predicate does, and slices that
 *   start where the example says, run one example after the other.
 *
 * @param fn a function over trees of tensors
 * @returns a function of the same arguments, compiled like one of {@link jit}
 * @throws HeddleError `argument` when no tensor is batched or dims do not have the form of the arguments; `shape` when sizes of
 *   the batch differ; `batch` naming an op that has no batching rule.
 * @example vmap((x, y) => x.mul(y).sum())(tensor([[1, 2], [3, 4]]), tensor([[1, 1], [2, 2]])) // [3, 14]
 * @example vmap(grad(loss), { inDims: [null, 0, 0] })(params, xs, ys) // a gradient per example
 */
export function vmap<F extends AnyFunction>(fn: F, options: VmapOptions = {}): F {
  checkOptions("vmap", options, ["inDims", "outDims"]);
  checkFunction("vmap", fn);
  const { inDims = 0, outDims = 0 } = options;
  const batched = (...inputs: unknown[]): unknown => {
    const given = flattenTree(inputs, isTensor);
    const dims = leafDims("inDims", inDims, given.shape).map((dim, place) => placeOf(given, "argument", dim, place, 0));
    const size = batchSize(given, dims);
    const types = given.leaves.map((leaf, place) => without(leaf, dims[place] as number | null));
    const { graph, captured, output } = traceBody(graphName(fn, "function"), named(given, "x", types), (leaves) =>
      fn(...(unflattenTree(given.shape, leaves) as unknown[])),
    );
    const wide = nodesOf(given.leaves).map((node, place): Batched => {
      const dim = dims[place] as number | null;
      return dim === null ? { node, batched: false } : { node: ops.moveDim(node, dim, 0), batched: true };
    });
    const results = batchGraph(
      graph,
      [...wide, ...capturedNodes(captured).map((node) => ({ node, batched: false }))],
      size,
    );
    const made = leafDims("outDims", outDims, output.shape).map((dim, place) => {
      const result = results[place] as Batched;
      const at = placeOf(output, "result", dim, place, 1);
      if (at !== null) return Tensor.ofNode(ops.moveDim(ops.spreadBatch(result, size), 0, at));
      if (!result.batched) return Tensor.ofNode(result.node);
      throw new HeddleError("argument", `vmap: ${pathOf(output, "result", place)} depends on the example`, {
        hint: "give its place in outDims; null is for results that are alike for all",
      });
    });
    return unflattenTree(output.shape, made);
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
const pathOf = ({ paths }: FlatTree<Tensor>, what: string, place: number): string =>
  paths[place] === "" ? `the ${what}` : `${what} '${paths[place]}'`;

/** The dim counted from the first; `more` dims are still to come. */
function placeOf(tree: FlatTree<Tensor>, what: string, dim: number | null, place: number, more: number): number | null {
  if (dim === null) return null;
  const leaf = tree.leaves[place] as Tensor;
  const rank = leaf.shape.length + more;
  if (Number.isInteger(dim) && dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
  const many = more === 0 ? "" : " for each example";
  throw new HeddleError(
    "shape",
    `vmap: ${pathOf(tree, what, place)}, ${formatType(leaf)}${many}, has no dim ${dim} for the examples`,
    { hint: "null is for a tensor that is the same for all" },
  );
}

function without({ dtype, shape }: TensorType, dim: number | null): TensorType {
  return { dtype, shape: dim === null ? shape : shape.filter((_size, at) => at !== dim) };
}

/** The number of examples, on which all agree. */
function batchSize(given: FlatTree<Tensor>, dims: readonly (number | null)[]): number {
  const sizes = dims.flatMap((dim, place) => (dim === null ? [] : [{ size: given.leaves[place]?.shape[dim], place }]));
  const [first] = sizes;
  if (first === undefined)
    throw new HeddleError("argument", "vmap: no tensor among the arguments is batched", {
      hint: "inDims says along which dim of which argument the examples lie",
    });
  const other = sizes.find(({ size }) => size !== first.size);
  if (other !== undefined)
    throw new HeddleError(
      "shape",
      `vmap: ${pathOf(given, "argument", first.place)} has ${first.size} examples, ${pathOf(given, "argument", other.place)} has ${other.size}`,
    );
  return first.size as number;
}
