/** @module Collectives that move values unchanged. */
import { dtypes } from "../ir/dtype.ts";
import { range } from "../ir/shape.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import {
  type CommOptions,
  collective,
  deviceOf,
  dimOf,
  emit,
  evenSizes,
  type Place,
  pairsOf,
  sizesOf,
  startsOf,
} from "./call.ts";
import {
  bySchedule,
  dimBack,
  exchange,
  flatOf,
  type Piece,
  type ScheduleOptions,
  scheduledSizes,
} from "./scheduled.ts";

/** A copy of a piece for each device, or from each. */
const forAll = (parts: number, start: number, count: number): Piece[] =>
  range(parts).map((peer) => [peer, start, count]);

/** One piece for each device, or from each, one after the other. */
const inTurn = (sizes: readonly number[]): Piece[] => {
  const starts = startsOf(sizes);
  return sizes.map((size, peer) => [peer, starts[peer] as number, size]);
};

/** Options of collectives of parts along a dim. */
export interface PartsOptions extends CommOptions, ScheduleOptions {
  /** The dim of the parts. Default 0. */
  readonly dim?: number;
  /** The size of each device's part, where the parts are not equal. */
  readonly sizes?: readonly number[];
}

/** Options of collectives from or to one device. */
export interface RootOptions extends CommOptions, ScheduleOptions {
  /** The coordinate of the device on the axis. Default 0. */
  readonly root?: number;
}

/** The sizes of the parts that devices hold, checked against this device's. */
function heldSizes(x: Tensor, place: Place, dim: number, sizes: unknown): readonly number[] | undefined {
  if (sizes === undefined) return undefined;
  const checked = sizesOf(place, "sizes", sizes);
  const own = checked[place.scope.coordinate(place.axis)];
  if (x.shape[dim] === own) return checked;
  throw new HeddleError("shape", `${place.what}: this device's part has ${x.shape[dim]} elements, sizes say ${own}`);
}

/** The sizes of the parts that a whole is cut into. */
export function cutSizes(x: Tensor, place: Place, dim: number, sizes: unknown): readonly number[] {
  if (sizes === undefined) return evenSizes(place, x, dim);
  const checked = sizesOf(place, "sizes", sizes);
  const total = checked.reduce((sum, size) => sum + size, 0);
  if (total === x.shape[dim]) return checked;
  throw new HeddleError("shape", `${place.what}: dim ${dim} has ${x.shape[dim]} elements, sizes add up to ${total}`);
}

/**
 * Joins the tensors of all devices along a dim, in order of their coordinates; every device gets the result. With `sizes` the
 * parts may differ.
 *
 * @example const rows = comm.allGather(x); // x: [2, 3] on each of 4 devices; rows: [8, 3]
 * @throws HeddleError `shape` for a part of another size than `sizes` says
 */
export const allGather = collective<PartsOptions>("allGather", ["dim", "sizes", "schedule"], (x, place, options) => {
  const { dim = 0, sizes, schedule } = options;
  const at = dimOf(place.what, x, dim);
  if (schedule !== undefined) {
    scheduledSizes(place, undefined, at, sizes);
    const whole = bySchedule(flatOf(x, at), place, schedule, { collective: "allGather" });
    return dimBack(whole, x, at, place.parts * (x.shape[at] as number));
  }
  const held = heldSizes(x, place, at, sizes);
  return held === undefined ? emit("allGather", x, place, { dim: at }) : gatherUneven(x, place, at, held);
});

function gatherUneven(x: Tensor, place: Place, dim: number, sizes: readonly number[]): Tensor {
  const own = sizes[place.scope.coordinate(place.axis)] as number;
  const size = sizes.reduce((sum, part) => sum + part, 0);
  return exchange(x, place, { dim, size, sends: forAll(place.parts, 0, own), receives: inTurn(sizes) });
}

/**
 * Joins the tensors of all devices along a dim on the device `root`; the others get zeros of that shape. With `sizes` the parts
 * may differ.
 */
export const gather = collective<PartsOptions & RootOptions>(
  "gather",
  ["root", "dim", "sizes", "schedule"],
  (x, place, { root = 0, dim = 0, sizes, schedule }) => {
    const at = dimOf(place.what, x, dim);
    if (schedule !== undefined) {
      scheduledSizes(place, undefined, at, sizes);
      const work = { collective: "gather", root: deviceOf(place, "root", root) } as const;
      return dimBack(bySchedule(flatOf(x, at), place, schedule, work), x, at, place.parts * (x.shape[at] as number));
    }
    const held = heldSizes(x, place, at, sizes) ?? new Array<number>(place.parts).fill(x.shape[at] as number);
    return gatherTo(x, place, deviceOf(place, "root", root), at, held);
  },
);

/** The parts of all devices on `root`, zeros elsewhere. */
export function gatherTo(x: Tensor, place: Place, root: number, dim: number, sizes: readonly number[]): Tensor {
  const me = place.scope.coordinate(place.axis);
  return exchange(x, place, {
    dim,
    size: sizes.reduce((sum, size) => sum + size, 0),
    sends: [[root, 0, sizes[me] as number]],
    receives: me === root ? inTurn(sizes) : [],
  });
}

/**
 * Cuts the tensor of the device `root` along a dim, equally or by `sizes`, and gives each device its part. The other devices pass a
 * tensor of the same type, whose values are not used.
 */
export const scatter = collective<PartsOptions & RootOptions>(
  "scatter",
  ["root", "dim", "sizes", "schedule"],
  (x, place, { root = 0, dim = 0, sizes, schedule }) => {
    const at = dimOf(place.what, x, dim);
    if (schedule !== undefined) {
      const [size] = scheduledSizes(place, x, at, sizes) as [number];
      const work = { collective: "scatter", root: deviceOf(place, "root", root) } as const;
      return dimBack(bySchedule(flatOf(x, at), place, schedule, work), x, at, size);
    }
    return scatterFrom(x, place, deviceOf(place, "root", root), at, cutSizes(x, place, at, sizes));
  },
);

function scatterFrom(x: Tensor, place: Place, root: number, dim: number, sizes: readonly number[]): Tensor {
  const me = place.scope.coordinate(place.axis);
  const size = sizes[me] as number;
  return exchange(x, place, {
    dim,
    size,
    sends: me === root ? inTurn(sizes) : [],
    receives: [[root, 0, size]],
  });
}

/** Bytes up to which a root exchanges with every device directly: then messages cost more than bytes. */
export const directBytes = 64 * 1024;

/** Whether a root exchanges whole tensors with all others; else parts travel, and each device carries a share. */
export const isDirect = (x: Tensor, { parts }: Place): boolean =>
  parts <= 2 || x.size * dtypes[x.dtype].bytes <= directBytes;

/** Nearly equal sizes of `parts` parts. */
export const shares = (total: number, parts: number): number[] =>
  range(parts).map((part) => Math.floor((total * (part + 1)) / parts) - Math.floor((total * part) / parts));

/**
 * Gives every device the tensor of the device `root`. The other devices pass a tensor of the same type, whose values are not used.
 */
export const broadcast = collective<RootOptions>(
  "broadcast",
  ["root", "schedule"],
  (x, place, { root = 0, schedule }) => {
    const from = deviceOf(place, "root", root);
    const flat = x.reshape([x.size]);
    if (schedule !== undefined)
      return bySchedule(flat, place, schedule, { collective: "broadcast", root: from }).reshape(x.shape);
    if (!isDirect(x, place)) {
      // Large values: each device gets a part from the root and the others from each other.
      const sizes = shares(x.size, place.parts);
      return gatherUneven(scatterFrom(flat, place, from, 0, sizes), place, 0, sizes).reshape(x.shape);
    }
    const sends = place.scope.coordinate(place.axis) === from ? forAll(place.parts, 0, x.size) : [];
    return exchange(flat, place, { size: x.size, sends, receives: [[from, 0, x.size]] }).reshape(x.shape);
  },
);

/** Options of {@link allToAll}. */
export interface AllToAllOptions extends CommOptions, ScheduleOptions {
  /** The dim that is cut into a part for each device. Default 0. */
  readonly split?: number;
  /** The dim along which the parts from all devices are joined. Default: `split`. */
  readonly concat?: number;
  /** The size of the part for each device, where parts are not equal; `split` and `concat` are then one dim. */
  readonly sends?: readonly number[];
  /** The size of the part from each device; with `sends`. */
  readonly receives?: readonly number[];
}

/**
 * Cuts the tensor of each device into a part for every device, and joins what each device receives, in order of the coordinates of the
 * senders. With `sends` and `receives`, the sizes of parts may differ for each pair of devices.
 */
export const allToAll = collective<AllToAllOptions>(
  "allToAll",
  ["split", "concat", "sends", "receives", "schedule"],
  (x, place, { split = 0, concat = split, sends, receives, schedule }) => {
    const to = dimOf(place.what, x, split, "split");
    const from = dimOf(place.what, x, concat, "concat");
    if (schedule !== undefined) {
      scheduledSizes(place, x, to, sends ?? receives);
      if (from !== to) throw new HeddleError("option", `${place.what}: a schedule cuts and joins along one dim`);
      const y = bySchedule(flatOf(x, to), place, schedule, { collective: "allToAll" });
      return dimBack(y, x, to, x.shape[to] as number);
    }
    if (sends === undefined && receives === undefined) {
      evenSizes(place, x, to);
      return emit("allToAll", x, place, { from, to });
    }
    if (from !== to) throw new HeddleError("option", `${place.what}: uneven parts are cut and joined along one dim`);
    place.scope.coordinate(place.axis);
    const going = sizesOf(place, "sends", sends);
    const coming = sizesOf(place, "receives", receives);
    cutSizes(x, place, to, going);
    const size = coming.reduce((sum, part) => sum + part, 0);
    return exchange(x, place, { dim: to, size, sends: inTurn(going), receives: inTurn(coming) });
  },
);

/** Pairs of devices, by their coordinates on the axis: the first sends to the second. */
export type Pairs = readonly (readonly [from: number, to: number])[];

/** Options of {@link permute}. */
export interface PermuteOptions extends CommOptions {
  /** `[[0, 1], [1, 2]]`: 0 sends to 1, and 1 to 2. A device sends at most once and receives at most once. */
  readonly pairs: Pairs;
}

/**
 * Sends tensors between pairs of devices, all at once. A device that receives nothing gets zeros. One pair is a message from one device to
 * another.
 *
 * @throws HeddleError `argument` for a device that sends or receives twice
 */
export const permute: (x: Tensor, options: PermuteOptions) => Tensor = collective<PermuteOptions>(
  "permute",
  ["pairs"],
  (x, place, { pairs }) => {
    const checked = pairsOf(place, pairs);
    const me = place.scope.coordinate(place.axis);
    const sends = checked.flatMap(([from, to]): Piece[] => (from === me ? [[to, 0, x.size]] : []));
    const receives = checked.flatMap(([from, to]): Piece[] => (to === me ? [[from, 0, x.size]] : []));
    return exchange(x.reshape([x.size]), place, { size: x.size, sends, receives }).reshape(x.shape);
  },
);
