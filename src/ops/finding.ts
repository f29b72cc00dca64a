/** @module Places found by value: in sorted numbers, of what is true, by counts. Their number is that of the values, shapes are static: room is made for so many. */
import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, sizeOf, stridesOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { literal, type Operand } from "./emit-scalar.ts";

/** Whether x comes before y in the order in which {@link sort} puts them: NaN is above all numbers. */
function isBefore(x: Node, y: Node): Node {
  const less = emit.lt(x, y);
  return isFloat(x.dtype) ? emit.or(less, emit.and(emit.isNaN(y), emit.not(emit.isNaN(x)))) : less;
}

/** Where each value goes in a sorted vector (i32): before elements that are equal, or behind them with `right`. */
export function searchsorted(sorted: Node, given: Operand, right: boolean): Node {
  if (sorted.shape.length !== 1)
    throw new HeddleError("shape", `searchsorted: takes a sorted vector, got ${formatType(sorted)}`, {
      hint: "several vectors, each with its own values, are vmap(searchsorted)",
    });
  const values = typeof given === "object" ? given : literal("searchsorted", sorted.dtype, given);
  if (sorted.dtype !== values.dtype)
    throw new HeddleError("dtype", `searchsorted: ${formatType(sorted)} and ${formatType(values)} are of two dtypes`, {
      hint: "cast one of them",
    });
  const [count] = sorted.shape as [number];
  let found = emit.full("i32", values.shape, 0);
  if (count === 0 || sizeOf(values.shape) === 0) return found;
  // Steps of powers of two, each taken where the last element of it still belongs before the value.
  for (let step = 2 ** Math.floor(Math.log2(count)); step >= 1; step /= 2) {
    const next = emit.add(found, step);
    const last = emit.gather(sorted, emit.minimum(emit.sub(next, 1), count - 1));
    const passes = right ? emit.not(isBefore(values, last)) : isBefore(last, values);
    found = emit.select(emit.and(emit.le(next, count), passes), next, found);
  }
  return found;
}

/**
 * `[places, number]`: where the first `size` elements of a vector of truth values that are true stand (i32), in order, and how
 * many are true in all; places that stay free hold the vector's length.
 */
function whereTrue(flags: Node, size: number): [places: Node, number: Node] {
  const [count] = flags.shape as [number];
  const ones = emit.cast(flags, "i32");
  const number = emit.sum(ones);
  if (count === 0) return [emit.full("i32", [size], 0), number];
  const rank = emit.sub(emit.cumsum(ones), 1);
  // One more row takes what there is no room for.
  const row = emit.select(flags, emit.minimum(rank, size), size);
  const start = emit.full("i32", [size + 1], count);
  const places = emit.scatter("min", start, row, emit.iota("i32", [count], 0));
  return [emit.slice(places, [0], [size]), number];
}

const flagsOf = (x: Node): Node => emit.reshape(x.dtype === "bool" ? x : emit.ne(x, 0), [sizeOf(x.shape)]);

/** How many elements are not 0 (i32). */
export const countNonzero = (x: Node): Node => emit.sum(emit.cast(flagsOf(x), "i32"));

/** Coordinates `[size, rank]` (i32) of elements that are not 0, in row-major order; rows that stay free hold `fill`. */
export function nonzero(x: Node, size: number, fill: number): Node {
  const [flat] = whereTrue(flagsOf(x), size);
  const rank = x.shape.length;
  if (rank === 0) return emit.full("i32", [size, 0], 0);
  const strides = stridesOf(x.shape);
  const free = emit.ge(flat, sizeOf(x.shape));
  const columns = x.shape.map((length, dim) => {
    const place = emit.rem(emit.div(flat, Math.max(1, strides[dim] as number)), Math.max(1, length));
    return emit.reshape(emit.select(free, fill, place), [size, 1]);
  });
  return emit.concat(columns, 1);
}

/** Rows of the first dims of x where a mask of those dims is true; rows that stay free hold `fill`. */
export function booleanMask(x: Node, mask: Node, size: number, fill: number): Node {
  const rest = x.shape.slice(mask.shape.length);
  const count = sizeOf(mask.shape);
  const [places] = whereTrue(flagsOf(mask), size);
  if (count === 0 || size === 0) return emit.full(x.dtype, [size, ...rest], fill);
  const rows = emit.gather(emit.reshape(x, [count, ...rest]), emit.minimum(places, count - 1));
  const free = emit.broadcastInDim(emit.ge(places, count), rows.shape, [0]);
  return emit.select(free, emit.full(x.dtype, rows.shape, fill), rows);
}

/** Each element along dim 0 as often as its count (i32) says, in `size` places; places that stay free repeat the last element. */
export function repeatEach(x: Node, counts: Node, size: number): Node {
  const [length] = x.shape as [number];
  if (length === 0 || size === 0) return emit.full(x.dtype, [size, ...x.shape.slice(1)], 0);
  const ends = emit.cumsum(counts);
  const from = searchsorted(ends, emit.iota("i32", [size], 0), true);
  return emit.gather(x, emit.minimum(from, length - 1));
}

/** Bounds of `bins` bins of one width between two numbers; where these are equal, of one around them. */
export function binEdges(low: Node, high: Node, bins: number): Node {
  const same = emit.cast(emit.eq(low, high), low.dtype);
  const [from, to] = [emit.sub(low, emit.mul(same, 0.5)), emit.add(high, emit.mul(same, 0.5))];
  const steps = emit.iota(low.dtype, [bins + 1], 0);
  const edges = emit.add(emit.mul(steps, emit.div(emit.sub(to, from), bins)), from);
  return emit.select(emit.eq(steps, bins), to, edges);
}

/** How many elements lie between each two edges, or the sum of their weights; the last bin has both its bounds. */
export function countsBetween(x: Node, edges: Node, weights: Node | undefined): Node {
  const bins = (edges.shape[0] as number) - 1;
  const flat = emit.reshape(x, [sizeOf(x.shape)]);
  const last = emit.broadcastTo(emit.slice(edges, [bins], [bins + 1]), flat.shape);
  const bin = emit.sub(searchsorted(edges, flat, true), 1);
  // What is outside goes to one more bin, which is cut off.
  const own = emit.select(emit.eq(flat, last), bins - 1, emit.select(emit.lt(bin, 0), bins, bin));
  const given = weights === undefined ? emit.full("i32", flat.shape, 1) : emit.reshape(weights, flat.shape);
  return emit.slice(emit.scatterAdd(given, emit.minimum(own, bins), bins + 1), [0], [bins]);
}

/** How often each of the numbers 0, 1, … up to `size` occurs among indices (i32), or the sum of its weights. */
export function countsOf(indices: Node, size: number, weights: Node | undefined): Node {
  const flat = emit.reshape(indices, [sizeOf(indices.shape)]);
  const given = weights === undefined ? emit.full("i32", flat.shape, 1) : emit.reshape(weights, flat.shape);
  return emit.scatterAdd(given, flat, size);
}
