/** @module Moving, repeating, picking and combining elements of tensors, named as in NumPy and PyTorch. */
import type { DType } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, normalizeDim, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkDType, checkWhole, checkWide } from "../tensor/arguments.ts";
import { checkTensor, operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { arange, type CreateOptions } from "./create.ts";
import type { Dims, WideOptions } from "./reductions.ts";
import { selected } from "./selected.ts";

const cumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number): Tensor =>
    operate(name, (node: Node, at?: number) => ops.cumulative(kind, node, at), [x], dim);

/** A running sum or product, in a dtype that may be named. */
const wideCumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number, options: WideOptions = {}): Tensor => {
    checkOptions(name, options, ["dtype"]);
    checkWide(name, options.dtype);
    const wide = (node: Node, at?: number, dtype?: DType): Node =>
      ops.cumulative(kind, dtype === undefined ? node : ops.cast(node, dtype), at);
    return operate(name, wide, [x], dim, options.dtype);
  };
type WideCumulative = (x: Tensor, dim?: number, options?: WideOptions) => Tensor;

/**
 * Sum of the elements up to and including each one, along a dim (default the last), in the same shape and dtype; integers
 * wrap, or are added in `{ dtype }`; bool is counted in i32.
 */
export const cumsum: WideCumulative = wideCumulative("cumsum", "sum");
/**
 * Product of the elements up to and including each one, along a dim (default the last); integers wrap, or are multiplied in
 * `{ dtype }`; bool gives i32.
 */
export const cumprod: WideCumulative = wideCumulative("cumprod", "prod");
/** Largest of the elements up to and including each one; NaN stays; the first of ties takes the gradient. */
export const cummax: (x: Tensor, dim?: number) => Tensor = cumulative("cummax", "max");
/** Smallest of the elements up to and including each one; NaN stays; the first of ties takes the gradient. */
export const cummin: (x: Tensor, dim?: number) => Tensor = cumulative("cummin", "min");
/** log of the sum of exp of the elements up to and including each one, without overflow. */
export const logcumsumexp: (x: Tensor, dim?: number) => Tensor = cumulative("logcumsumexp", "logSumExp");

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting: NumPy's name of {@link select}. */
export const where = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("where", condition, onTrue, onFalse);

const segmentOf =
  (name: string, build: (x: Node, segments: Node, count: number) => Node) =>
  (x: Tensor, segments: Tensor, count: number): Tensor => {
    checkInteger(name, "count", count, 0);
    return operate(name, build, [x, segments], count);
  };
type Segment = (x: Tensor, segments: Tensor, count: number) => Tensor;

/** Sums of the rows of each of `count` segments; `segments` (i32) says of which one each row is. An empty one gives 0. */
export const segmentSum: Segment = segmentOf("segmentSum", (x, at, count) => ops.segment("sum", x, at, count));
/** Largest of the rows of each segment; an empty one gives -inf, or the lowest integer. Ties share the gradient. */
export const segmentMax: Segment = segmentOf("segmentMax", (x, at, count) => ops.segment("max", x, at, count));
/** Smallest of the rows of each segment; an empty one gives inf, or the highest integer. Ties share the gradient. */
export const segmentMin: Segment = segmentOf("segmentMin", (x, at, count) => ops.segment("min", x, at, count));
/** Product of the rows of each segment; an empty one gives 1. */
export const segmentProd: Segment = segmentOf("segmentProd", (x, at, count) => ops.segment("prod", x, at, count));
/** Mean of the rows of each segment; an empty one gives NaN. */
export const segmentMean: Segment = segmentOf("segmentMean", ops.segmentMean);

/** Elements move `shift` places on along a dim, and those that leave come in at the other end. */
export const roll = (x: Tensor, shift: number, dim = -1): Tensor => operate("roll", ops.roll, [x], shift, dim);
/** NumPy's tile, PyTorch's repeat: the whole tensor `counts[dim]` times along each dim. */
export function tile(x: Tensor, counts: readonly number[]): Tensor {
  checkWhole("tile", "counts", counts);
  return operate("tile", ops.tile, [x], counts);
}
/** NumPy's repeat, PyTorch's repeat_interleave: each element `count` times along a dim. */
export function repeat(x: Tensor, count: number, dim = -1): Tensor {
  checkInteger("repeat", "count", count, 0);
  return operate("repeat", ops.repeat, [x], count, dim);
}
/** Tensors of one shape side by side along a new dim. */
export function stack(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `stack: takes an array of at least one tensor, got ${shown(inputs)}`);
  const build = (...given: (Node | number)[]): Node => ops.stack(given.slice(0, -1) as Node[], given.at(-1) as number);
  return operate("stack", build, inputs, dim);
}
/** The slices along a dim, which goes. */
export function unstack(x: Tensor, dim = 0): Tensor[] {
  checkTensor("unstack", x);
  const at = normalizeDim(dim, x.shape.length, "unstack");
  return range(x.shape[at] as number).map((index) => operate("unstack", pickNode, [x], at, index));
}
/**
 * Slice `index` along a dim (default the last), which goes: NumPy's `x[..., index]`, PyTorch's `x.select(dim, index)`. From the end
 * for a negative index.
 *
 * @throws HeddleError `shape` when there is no such slice.
 */
export function pick(x: Tensor, index: number, dim = -1): Tensor {
  checkTensor("pick", x);
  checkInteger("pick", "index", index, -Number.MAX_SAFE_INTEGER);
  const at = normalizeDim(dim, x.shape.length, "pick");
  const size = x.shape[at] as number;
  const place = index < 0 ? index + size : index;
  if (place < 0 || place >= size)
    throw new HeddleError(
      "shape",
      `pick: index ${index} is not in [${-size}, ${size - 1}], dim ${at} of ${formatType(x)}`,
    );
  return operate("pick", pickNode, [x], at, place);
}

const pickNode = (node: Node, at: number, index: number): Node =>
  ops.squeeze(ops.sliceDim(node, at, index, index + 1), at);

/** Parts along a dim: of these sizes, or of one size, the last being what is left. */
export function split(x: Tensor, sizes: number | readonly number[], dim = 0): Tensor[] {
  checkTensor("split", x);
  checkWhole("split", "sizes", sizes, true);
  const at = normalizeDim(dim, x.shape.length, "split");
  const whole = x.shape[at] as number;
  if (typeof sizes === "number") checkInteger("split", "sizes", sizes, 1);
  const list =
    typeof sizes === "number"
      ? range(Math.ceil(whole / sizes)).map((index) => Math.min(sizes, whole - index * sizes))
      : sizes;
  if (list.some((size) => size < 0) || list.reduce((sum, size) => sum + size, 0) !== whole)
    throw new HeddleError("shape", `split: sizes ${shown(sizes)} do not add up to ${whole}`);
  let from = 0;
  return list.map((size) => {
    from += size;
    return operate("split", ops.sliceDim, [x], at, from - size, from);
  });
}
/** A dim of size 1 before dim `dim` of the result: PyTorch's unsqueeze. */
export const expandDims = (x: Tensor, dim: number): Tensor => operate("expandDims", ops.expandDim, [x], dim);
/** Without a dim of size 1, or without all of them. */
export const squeeze = (x: Tensor, dim?: number): Tensor => operate("squeeze", ops.squeeze, [x], dim);
/** A dim moved to another place; the others keep their order. */
export const moveDim = (x: Tensor, from: number, to: number): Tensor =>
  operate(
    "moveDim",
    (node: Node, a: number, b: number) =>
      ops.moveDim(node, normalizeDim(a, node.shape.length, "moveDim"), normalizeDim(b, node.shape.length, "moveDim")),
    [x],
    from,
    to,
  );
/** The order of elements turned around along dims (default all): NumPy's name of {@link reverse}. */
export const flip = (x: Tensor, dims?: Dims): Tensor =>
  operate(
    "flip",
    (node: Node, over?: Dims) => ops.reverse(node, ops.resolveDims("flip", over, node.shape.length)),
    [x],
    dims,
  );

/** Zeros below diagonal `k` of the last two dims. */
export const triu = (x: Tensor, k = 0): Tensor => operate("triu", ops.triu, [x], k);
/** Zeros above diagonal `k` of the last two dims. */
export const tril = (x: Tensor, k = 0): Tensor => operate("tril", ops.tril, [x], k);
/** The matrix with a vector as its diagonal `k`, or diagonal `k` of a matrix. */
export const diag = (x: Tensor, k = 0): Tensor => operate("diag", ops.diag, [x], k);
/** Diagonal `k` of the last two dims. */
export const diagonal = (x: Tensor, k = 0): Tensor => operate("diagonal", ops.diagonal, [x], k);
/**
 * The identity matrix: ones on the diagonal, zeros elsewhere; f32 by default.
 *
 * @param columns default: as many as rows
 * @throws HeddleError `option` for a size that is none, and for an unknown option
 */
export function eye(rows: number, columns?: number | CreateOptions, options: CreateOptions = {}): Tensor {
  const given = typeof columns === "object" ? columns : options;
  const wide = typeof columns === "object" ? rows : (columns ?? rows);
  checkOptions("eye", given, ["dtype"]);
  const { dtype = "f32" } = given;
  checkDType("eye", dtype);
  checkInteger("eye", "rows", rows, 0);
  checkInteger("eye", "columns", wide, 0);
  return arange(rows).reshape([rows, 1]).eq(arange(wide)).cast(dtype);
}

/** Options of {@link meshgrid}. */
export interface MeshgridOptions {
  /** `"ij"` (default): dim i follows vector i; `"xy"`: the first two change places, as NumPy's default. */
  readonly indexing?: "ij" | "xy";
}

/** The coordinates of a grid: for each vector a tensor of the grid's shape. */
export function meshgrid(vectors: readonly Tensor[], options: MeshgridOptions = {}): Tensor[] {
  checkOptions("meshgrid", options, ["indexing"]);
  if (!Array.isArray(vectors) || vectors.some((vector) => vector?.shape?.length !== 1))
    throw new HeddleError("argument", `meshgrid: takes an array of vectors, got ${shown(vectors)}`);
  const { indexing = "ij" } = options;
  if (indexing !== "ij" && indexing !== "xy")
    throw new HeddleError("option", `meshgrid: indexing is ${shown(indexing)}`, { hint: 'it can be "ij" or "xy"' });
  const order = range(vectors.length);
  if (indexing === "xy" && order.length > 1) order.splice(0, 2, 1, 0);
  return vectors.map((_vector, at) =>
    operate(
      "meshgrid",
      (...given: (Node | number | readonly number[])[]) =>
        ops.gridOf(given.slice(0, -2) as Node[], given.at(-2) as number, given.at(-1) as readonly number[]),
      vectors,
      at,
      order,
    ),
  );
}

/** A border of `amounts[dim] = [low, high]` elements taken from the tensor: mirrored, the nearest, or from the other side. */
export const padBorder = (
  x: Tensor,
  amounts: readonly (readonly [number, number])[],
  mode: "reflect" | "replicate" | "circular",
): Tensor => operate("padBorder", ops.padBorder, [x], amounts, mode);
