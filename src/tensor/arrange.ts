/** @module Moving, repeating, picking and combining elements of tensors, named as in NumPy and PyTorch. */
import type { Node } from "../ir/node.ts";
import { formatShape, formatType, normalizeDim, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError, type OutsideIndex, retold } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { checkDType, checkWhole } from "./arguments.ts";
import { arange, type CreateOptions } from "./create.ts";
import { selected } from "./selected.ts";
import {
  checkTensor,
  type Dims,
  isTensor,
  operate,
  type ReduceOptions,
  type Tensor,
  type TensorLike,
  valuesAtHand,
} from "./tensor.ts";

/** What becomes of a held element and an update: their sum, product, maximum, minimum, or the update. */
export type ScatterOp = ops.ScatterOp;

const scatterOps: readonly ScatterOp[] = ["sum", "prod", "max", "min", "replace"];

function checkScatterOp(what: string, op: unknown): void {
  if (!(scatterOps as readonly unknown[]).includes(op))
    throw new HeddleError("option", `${what}: op is ${shown(op)}`, { hint: `it can be ${scatterOps.join(", ")}` });
}

/** Product over dims (default all); integers wrap, of nothing 1; of bool, 1 where all are true, else 0, in i32. */
export const prod = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  operate("prod", ops.prod, [x], dims, options);
/** Whether all elements over dims (default all) are true, or not 0. */
export const all = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  operate("all", ops.all, [x], dims, options);
/** Whether any element over dims (default all) is true, or not 0. */
export const any = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  operate("any", ops.any, [x], dims, options);
/** Index (i32) of the smallest element along a dim (default the last): the first of ties, the first NaN. */
export const argMin = (x: Tensor, dim?: number): Tensor => operate("argMin", ops.argMin, [x], dim);

const cumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number): Tensor =>
    operate(name, (node: Node, at?: number) => ops.cumulative(kind, node, at), [x], dim);

/** Product of the elements up to and including each one, along a dim (default the last); integers wrap, bool gives i32. */
export const cumprod: (x: Tensor, dim?: number) => Tensor = cumulative("cumprod", "prod");
/** Largest of the elements up to and including each one; NaN stays; the first of ties takes the gradient. */
export const cummax: (x: Tensor, dim?: number) => Tensor = cumulative("cummax", "max");
/** Smallest of the elements up to and including each one; NaN stays; the first of ties takes the gradient. */
export const cummin: (x: Tensor, dim?: number) => Tensor = cumulative("cummin", "min");
/** log of the sum of exp of the elements up to and including each one, without overflow. */
export const logcumsumexp: (x: Tensor, dim?: number) => Tensor = cumulative("logcumsumexp", "logSumExp");

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting: NumPy's name of {@link select}. */
export const where = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("where", condition, onTrue, onFalse);

/** Element `indices[…, i, …]` (i32) of each line along a dim; other dims of both must agree. */
export const takeAlongDim = (x: Tensor, indices: Tensor, dim = -1): Tensor =>
  operate("takeAlongDim", ops.takeAlong, [x, indices], dim);
/** TensorFlow's gather_nd: `out[i…, r…] = x[indices[i…, 0], indices[i…, 1], …, r…]`, indices i32. */
export const gatherNd = (x: Tensor, indices: Tensor): Tensor =>
  placed("gatherNd", x, indices, () => operate("gatherNd", ops.gatherNd, [x, indices]));

/** Runs what looks up by several indices each: the op sees one number for them. */
function placed(name: string, x: Tensor, indices: Tensor, body: () => Tensor): Tensor {
  if (!isTensor(x) || !isTensor(indices)) return body();
  const parts = indices.shape.at(-1) as number;
  const { isTraced } = indices;
  const says = ({ position }: OutsideIndex): string => {
    const values = isTraced ? undefined : valuesAtHand(indices)?.slice(position * parts, (position + 1) * parts);
    const what = values === undefined ? "indices" : `indices [${[...values].join(", ")}]`;
    return `${what} at position ${position} are outside ${formatShape(x.shape.slice(0, parts))}`;
  };
  return retold(name, says, body);
}

/** Options of {@link scatter}, {@link scatterNd} and {@link scatterAlongDim}. */
export interface ScatterOptions {
  /** What becomes of a held element and an update; updates come in order of position. Default `"replace"`. */
  readonly op?: ScatterOp;
}

function opOf(what: string, options: ScatterOptions): ScatterOp {
  checkOptions(what, options, ["op"]);
  const { op = "replace" } = options;
  checkScatterOp(what, op);
  return op;
}

/**
 * A copy of x in which rows are combined with `updates[i…, r…]` at `indices[i…]` (i32).
 *
 * @throws HeddleError `value` from the run when an index lies outside.
 */
export const scatter = (x: Tensor, indices: Tensor, updates: Tensor, options: ScatterOptions = {}): Tensor =>
  operate(
    "scatter",
    (node: Node, at: Node, by: Node, op: ScatterOp) => ops.scatter(op, node, at, by),
    [x, indices, updates],
    opOf("scatter", options),
  );
/** {@link scatter} with `indices[i…, c]` into the first dims: a copy of x with `updates[i…, r…]` combined there. */
export const scatterNd = (x: Tensor, indices: Tensor, updates: Tensor, options: ScatterOptions = {}): Tensor =>
  placed("scatterNd", x, indices, () =>
    operate("scatterNd", ops.scatterNd, [x, indices, updates], opOf("scatterNd", options)),
  );
/** PyTorch's scatter_reduce: updates go into their own line along a dim, where indices of the same shape say. */
export const scatterAlongDim = (
  x: Tensor,
  indices: Tensor,
  updates: Tensor,
  dim = -1,
  options: ScatterOptions = {},
): Tensor => operate("scatterAlongDim", ops.scatterAlong, [x, indices, updates], dim, opOf("scatterAlongDim", options));
/** Rows of `updates` added into zeros of `size` rows at `indices` (i32): the transpose of {@link take} along dim 0. */
export function scatterAdd(updates: Tensor, indices: Tensor, size: number): Tensor {
  checkInteger("scatterAdd", "size", size, 0);
  return operate("scatterAdd", ops.scatterAdd, [updates, indices], size);
}

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

/** A slice of `sizes` that starts at `starts` (i32 scalars or numbers), moved so that it fits. */
export function dynamicSlice(x: Tensor, starts: readonly TensorLike[], sizes: readonly number[]): Tensor {
  checkStarts("dynamicSlice", starts);
  checkWhole("dynamicSlice", "sizes", sizes);
  const given = starts.filter((start) => typeof start !== "number");
  return operate("dynamicSlice", buildDynamicSlice, [x, ...given], starts.map(placeOf), sizes);
}
/** x with `update` written over it from `starts` (i32 scalars or numbers) on, moved so that it fits. */
export function dynamicUpdateSlice(x: Tensor, update: Tensor, starts: readonly TensorLike[]): Tensor {
  checkStarts("dynamicUpdateSlice", starts);
  const given = starts.filter((start) => typeof start !== "number");
  return operate("dynamicUpdateSlice", buildDynamicUpdate, [x, update, ...given], starts.map(placeOf));
}

function checkStarts(what: string, starts: unknown): void {
  if (Array.isArray(starts)) return;
  throw new HeddleError("argument", `${what}: starts must be an array, one per dim, got ${shown(starts)}`);
}

/** A number, or null where the next tensor says it. */
const placeOf = (start: TensorLike): number | null => (typeof start === "number" ? start : null);

function startNodes(places: readonly (number | null)[], given: readonly Node[]): Node[] {
  let next = 0;
  return places.map((place) => (place === null ? (given[next++] as Node) : ops.constant("i32", place)));
}

function buildDynamicSlice(...all: unknown[]): Node {
  const [places, sizes] = all.slice(-2) as [readonly (number | null)[], readonly number[]];
  const [x, ...given] = all.slice(0, -2) as [Node, ...Node[]];
  return ops.call("dynamicSlice", [x, ...startNodes(places, given)], { sizes });
}

function buildDynamicUpdate(...all: unknown[]): Node {
  const places = all.at(-1) as readonly (number | null)[];
  const [x, update, ...given] = all.slice(0, -1) as [Node, Node, ...Node[]];
  return ops.call("dynamicUpdateSlice", [x, update, ...startNodes(places, given)]);
}
