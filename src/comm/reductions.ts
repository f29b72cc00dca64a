/** @module Collectives that combine values. */
import { and, concat, customGradient, maximum, minimum, or } from "../functions/index.ts";
import { dtypes, isFloat, isInteger } from "../ir/dtype.ts";
import { formatType, range } from "../ir/shape.ts";
import { grad } from "../tensor/derivatives.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type CommOptions, collective, deviceOf, dimOf, emit, evenSizes, type Place, part, startsOf } from "./call.ts";
import { cutSizes, directBytes, gatherTo, isDirect, type PartsOptions, type RootOptions, shares } from "./moves.ts";
import { bySchedule, dimBack, exchange, flatOf, type ScheduleOptions, scheduledSizes } from "./scheduled.ts";

/** The reductions, by name. */
export const reductions = ["sum", "mean", "product", "min", "max", "and", "or"] as const;

/**
 * How values are combined. `mean` takes floats; `and` and `or` take bool, and integers bit by bit; `sum`, `mean` and `product` do not take
 * bool. Sums and products of integers wrap; NaN propagates.
 */
export type Reduction = (typeof reductions)[number];

/** Options of collectives that combine. */
export interface ReduceOptions extends CommOptions, ScheduleOptions {
  /** Default `"sum"`. */
  readonly reduction?: Reduction;
}

/** A reduction that collectives carry out, or a function of two tensors that devices apply to gathered values. */
type Way = { readonly op: "sum" | "min" | "max" } | { readonly fold: Fold };
type Fold = (left: Tensor, right: Tensor) => Tensor;
type Call = (x: Tensor) => Tensor;

/** Whether a reduction is defined for a dtype: the table of docs and doctor asks the same. */
export function takes(reduction: Reduction, dtype: Tensor["dtype"]): boolean {
  if (reduction === "mean") return isFloat(dtype);
  if (reduction === "and" || reduction === "or") return !isFloat(dtype);
  return dtype !== "bool" || reduction === "min" || reduction === "max";
}

/** Links carry bool as bytes of 0 and 1. */
const onWire = (x: Tensor): Tensor => (x.dtype === "bool" ? x.cast("u8") : x);

function wayOf(what: string, reduction: Reduction, x: Tensor): Way {
  if (!reductions.includes(reduction)) {
    const suggestion = typeof reduction === "string" ? nearest(reduction, reductions) : undefined;
    throw new HeddleError("option", `${what}: there is no reduction ${shown(reduction)}`, {
      hint: suggestion === undefined ? `reductions are ${reductions.join(", ")}` : `did you mean '${suggestion}'?`,
    });
  }
  if (!takes(reduction, x.dtype))
    throw new HeddleError("dtype", `${what}: there is no ${reduction} of ${formatType(x)}`, {
      hint: x.dtype === "bool" ? "use and or or, or cast to numbers" : "cast first, such as x.cast('f32') or x.ne(0)",
    });
  switch (reduction) {
    case "product":
      return { fold: (left, right) => left.mul(right) };
    case "and":
      return isInteger(x.dtype) ? { fold: and } : { op: "min" };
    case "or":
      return isInteger(x.dtype) ? { fold: or } : { op: "max" };
    case "mean":
      return { op: "sum" };
    default:
      return { op: reduction };
  }
}

/** The mean, where a sum stands for it; bool again, where bytes do. */
const finished = (y: Tensor, { dtype }: Tensor, reduction: Reduction, { parts }: Place): Tensor =>
  reduction === "mean" ? y.div(parts) : y.dtype === dtype ? y : y.cast(dtype);

/** Combines along dim 0, which goes away: halves with halves, so that the order is that of the size alone. */
function folded(x: Tensor, fold: Fold): Tensor {
  let rows = x;
  while ((rows.shape[0] as number) > 1) {
    const count = rows.shape[0] as number;
    const half = Math.floor(count / 2);
    const pairs = fold(part(rows, 0, 0, half), part(rows, 0, half, half));
    rows = count % 2 === 0 ? pairs : concat([pairs, part(rows, 0, count - 1, 1)]);
  }
  return rows.reshape(rows.shape.slice(1));
}

/** An all-reduce by gathering: small values whole, large ones in chunks, of which each device combines one. */
function allReduceFolded(x: Tensor, place: Place, fold: Fold): Tensor {
  const { parts } = place;
  const flat = x.reshape([x.size]);
  if (x.size * dtypes[x.dtype].bytes * parts <= directBytes)
    return folded(emit("allGather", flat.reshape([1, x.size]), place, { dim: 0 }), fold).reshape(x.shape);
  const size = Math.ceil(x.size / parts);
  const chunks = flat.pad([[0, size * parts - x.size]]).reshape([parts, size]);
  const own = folded(emit("allToAll", chunks, place, { from: 0, to: 0 }), fold);
  return part(emit("allGather", own, place, { dim: 0 }), 0, 0, x.size).reshape(x.shape);
}

/** The largest or smallest; its gradient goes to the devices that have it, in equal shares. */
function extreme(x: Tensor, place: Place, reduction: "min" | "max"): Tensor {
  const reduce = (value: Tensor, by: string): Tensor => emit("allReduce", value, place, { reduction: by });
  if (!isFloat(x.dtype)) return reduce(x, reduction);
  return customGradient(
    (value: Tensor) => reduce(value, reduction),
    ({ inputs: [value], value: result, cotangent }) => {
      const hits = value.eq(result).cast(value.dtype);
      return [hits.mul(reduce(cotangent, "sum")).div(reduce(hits, "sum"))];
    },
  )(x);
}

/** What devices apply to chunks of a schedule. */
const foldOf = (way: Way): Fold =>
  "fold" in way
    ? way.fold
    : { sum: (left: Tensor, right: Tensor) => left.add(right), min: minimum, max: maximum }[way.op];

/**
 * By a schedule, with the gradient of the same collective without one. Only sums and moves have a gradient that is the same messages
 * backwards; others depend on the values that each device combined, and devices would then exchange different things.
 */
function withPlainGradient(x: Tensor, reduction: Reduction, run: Call, plain: Call): Tensor {
  if (!isFloat(x.dtype) || reduction === "sum" || reduction === "mean") return run(x);
  return customGradient(run, ({ inputs: [value], cotangent }) => [
    grad((y: Tensor) => plain(y).mul(cotangent).sum())(value),
  ])(x);
}

/**
 * Combines the tensors of all devices of an axis; every device gets the result.
 *
 * @example const gradient = comm.allReduce(own, { axis: "data", reduction: "mean" });
 * @throws HeddleError `dtype` for a reduction that the dtype does not have
 */
export const allReduce = collective<ReduceOptions>("allReduce", ["reduction", "schedule"], (x, place, options) => {
  const { reduction = "sum", schedule } = options;
  const way = wayOf(place.what, reduction, x);
  const plain = (value: Tensor): Tensor => {
    if ("fold" in way) return allReduceFolded(value, place, way.fold);
    if (way.op === "sum") return emit("allReduce", value, place, { reduction: "sum" });
    return extreme(onWire(value), place, way.op);
  };
  if (schedule === undefined) return finished(plain(x), x, reduction, place);
  const work = { collective: "allReduce", fold: foldOf(way) } as const;
  const run = (value: Tensor): Tensor =>
    bySchedule(onWire(value).reshape([x.size]), place, schedule, work).reshape(x.shape);
  return finished(withPlainGradient(x, reduction, run, plain), x, reduction, place);
});

/**
 * Combines the tensors of all devices of an axis; each device gets its part of the result along a dim, equal parts or of `sizes`.
 *
 * @throws HeddleError `shape` for a dim that does not split equally; `dtype` for a reduction that the dtype does not have
 */
export const reduceScatter = collective<ReduceOptions & PartsOptions>(
  "reduceScatter",
  ["reduction", "dim", "sizes", "schedule"],
  (x, place, { reduction = "sum", dim = 0, sizes, schedule }) => {
    const at = dimOf(place.what, x, dim);
    const way = wayOf(place.what, reduction, x);
    if (schedule !== undefined) {
      const [size] = scheduledSizes(place, x, at, sizes) as [number];
      const work = { collective: "reduceScatter", fold: foldOf(way) } as const;
      const run = (value: Tensor): Tensor =>
        dimBack(bySchedule(flatOf(onWire(value), at), place, schedule, work), x, at, size);
      const plain = (value: Tensor): Tensor => scatterEven(value, place, at, way);
      return finished(withPlainGradient(x, reduction, run, plain), x, reduction, place);
    }
    const y =
      sizes === undefined
        ? scatterEven(x, place, at, way)
        : scatterUneven(x, place, at, cutSizes(x, place, at, sizes), way);
    return finished(y, x, reduction, place);
  },
);

/** Equal parts: links combine sums and extremes; of other reductions each device combines what it gets. */
function scatterEven(x: Tensor, place: Place, dim: number, way: Way): Tensor {
  evenSizes(place, x, dim);
  if ("op" in way) return emit("reduceScatter", onWire(x), place, { dim, reduction: way.op });
  return folded(emit("allToAll", partsFirst(x, dim, place.parts), place, { from: 0, to: 0 }), way.fold);
}

/** The equal parts of a dim, along a new first dim. */
function partsFirst(x: Tensor, dim: number, parts: number): Tensor {
  const [before, after] = [x.shape.slice(0, dim), x.shape.slice(dim + 1)];
  const order = [dim, ...range(x.shape.length + 1).filter((index) => index !== dim)];
  return x.reshape([...before, parts, (x.shape[dim] as number) / parts, ...after]).transpose(order);
}

/** Unequal parts: every device sends each other device that one's part. */
function scatterUneven(x: Tensor, place: Place, dim: number, sizes: readonly number[], way: Way): Tensor {
  const own = place.scope.coordinate(place.axis);
  const [starts, size] = [startsOf(sizes), sizes[own] as number];
  const sends = sizes.map((count, peer) => [peer, starts[peer] as number, count] as const);
  if ("op" in way) {
    const receives = sizes.map((_count, peer) => [peer, 0, size] as const);
    return exchange(onWire(x), place, { dim, size, sends, receives, reduction: way.op });
  }
  const receives = sizes.map((_count, peer) => [peer, peer * size, size] as const);
  const all = exchange(x, place, { dim, size: size * place.parts, sends, receives });
  return folded(partsFirst(all, dim, place.parts), way.fold);
}

/**
 * Combines the tensors of all devices of an axis on the device `root`; the others get zeros.
 *
 * @throws HeddleError `dtype` for a reduction that the dtype does not have
 */
export const reduce = collective<ReduceOptions & RootOptions>(
  "reduce",
  ["reduction", "root", "schedule"],
  (x, place, { reduction = "sum", root = 0, schedule }) => {
    const to = deviceOf(place, "root", root);
    const way = wayOf(place.what, reduction, x);
    const flat = x.reshape([x.size]);
    const plain = (value: Tensor): Tensor => reduceTo(value, place, to, way);
    const work = { collective: "reduce", root: to, fold: foldOf(way) } as const;
    const run = (value: Tensor): Tensor => bySchedule(onWire(value), place, schedule, work);
    const y = schedule === undefined ? plain(flat) : withPlainGradient(flat, reduction, run, plain);
    return finished(y, x, reduction, place).reshape(x.shape);
  },
);

/** The combination of vectors on `to`, zeros elsewhere. */
function reduceTo(x: Tensor, place: Place, to: number, way: Way): Tensor {
  const [{ size }, { parts }] = [x, place];
  if ("fold" in way)
    return folded(gatherTo(x.reshape([1, size]), place, to, 0, new Array<number>(parts).fill(1)), way.fold);
  if (!isDirect(x, place)) {
    // Large values: each device combines a part, and sends it to the root.
    const sizes = shares(size, parts);
    return gatherTo(scatterUneven(x, place, 0, sizes, way), place, to, 0, sizes);
  }
  const isRoot = place.scope.coordinate(place.axis) === to;
  const receives = isRoot ? range(parts).map((peer) => [peer, 0, size] as const) : [];
  return exchange(onWire(x), place, { size, sends: [[to, 0, size]], receives, reduction: way.op });
}
