/** Every collective on small numbers, with its meaning in plain TypeScript: what each device puts in, and what each gets. */
import { comm, type Tensor, tensor } from "heddle";

export const dtypes = ["f32", "f64", "f16", "bf16", "i8", "u8", "i32", "u32", "i64", "u64", "bool"] as const;
export type Type = (typeof dtypes)[number];

/** One device's tensor, its elements as plain numbers. */
export interface Held {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

export interface Case {
  readonly name: string;
  /** What the device at `rank` of `size` puts in. */
  readonly shape: (size: number, rank: number) => readonly number[];
  readonly call: (x: Tensor, size: number, rank: number) => Tensor;
  /** What it gets, from what all put in. */
  readonly expect: (all: readonly Held[], rank: number) => Held;
  readonly takes: (dtype: Type) => boolean;
}

const isFloat = (dtype: Type): boolean => /^b?f/.test(dtype);
const always = (): boolean => true;
const sum = (list: readonly number[]): number => list.reduce((total, value) => total + value, 0);
const each = (size: number): number[] => Array.from({ length: size }, (_unused, index) => index);

/** Small numbers, so that every result has its exact value in every dtype. */
export function heldBy(rank: number, shape: readonly number[], dtype: Type): Held {
  const count = shape.reduce((product, length) => product * length, 1);
  const value = (index: number): number => {
    const mixed = (index * 7 + rank * 5 + (index >> 3)) % 11;
    return dtype === "bool" ? mixed % 2 : 1 + (mixed % 3);
  };
  return { shape, data: each(count).map(value) };
}

export function tensorOf({ shape, data }: Held, dtype: Type): Tensor {
  return tensor(data, { dtype, shape });
}

/** Reductions by their meaning for one element of all devices. */
const reductions: {
  readonly [name: string]: readonly [(values: readonly number[]) => number, (dtype: Type) => boolean];
} = {
  sum: [sum, (dtype) => dtype !== "bool"],
  mean: [(values) => sum(values) / values.length, isFloat],
  product: [(values) => values.reduce((product, value) => product * value, 1), (dtype) => dtype !== "bool"],
  min: [(values) => Math.min(...values), always],
  max: [(values) => Math.max(...values), always],
  and: [(values) => values.reduce((left, right) => left & right), (dtype) => !isFloat(dtype)],
  or: [(values) => values.reduce((left, right) => left | right), (dtype) => !isFloat(dtype)],
};

const combined = (all: readonly Held[], by: (values: readonly number[]) => number): Held => {
  const [{ shape, data }] = all as readonly [Held];
  return { shape, data: data.map((_value, index) => by(all.map((held) => held.data[index] as number))) };
};

const lengthOf = ({ shape }: Held, dim: number): number => shape[dim] as number;

/** Rows `[from, from + count)` of a dim. */
function cut(held: Held, dim: number, from: number, count: number): Held {
  const inner = held.shape.slice(dim + 1).reduce((product, length) => product * length, 1);
  const data = held.data.filter((_value, index) => {
    const at = Math.floor(index / inner) % lengthOf(held, dim);
    return at >= from && at < from + count;
  });
  return { shape: held.shape.map((length, at) => (at === dim ? count : length)), data };
}

function join(parts: readonly Held[], dim: number): Held {
  const [first] = parts as readonly [Held];
  const outer = first.shape.slice(0, dim).reduce((product, length) => product * length, 1);
  const data = each(outer).flatMap((row) =>
    parts.flatMap((part) => {
      const run = part.data.length / outer;
      return part.data.slice(row * run, (row + 1) * run);
    }),
  );
  const total = sum(parts.map((part) => lengthOf(part, dim)));
  return { shape: first.shape.map((length, at) => (at === dim ? total : length)), data };
}

const cutEven = (held: Held, dim: number, size: number, rank: number): Held => {
  const count = lengthOf(held, dim) / size;
  return cut(held, dim, rank * count, count);
};
const zeros = (shape: readonly number[]): Held => ({
  shape,
  data: new Array<number>(shape.reduce((product, length) => product * length, 1)).fill(0),
});
const orZeros = (held: Held, isHere: boolean): Held => (isHere ? held : zeros(held.shape));
/** Uneven sizes; the first is 0. */
const uneven = (size: number): number[] => each(size).map((rank) => (size === 1 ? 3 : rank));
const startOf = (sizes: readonly number[], rank: number): number => sum(sizes.slice(0, rank));
/** What one device sends another, differently for each pair. */
const between = (from: number, to: number): number => ((from + 2 * to) % 3) + (from === to ? 1 : 0);
const shift = (size: number): [number, number][] => each(size - 1).map((rank) => [rank, rank + 1]);

type Shape = Case["shape"];
const shapes: readonly (readonly [string, Shape])[] = [
  ["", (size) => [2 * size, 3]],
  [" of nothing", () => [0, 3]],
  [" of many", (size) => [size * 5_003]],
];

const reducing: readonly Case[] = Object.entries(reductions).flatMap(([reduction, [by, takes]]) => {
  const options = { reduction: reduction as comm.Reduction };
  return [
    ...shapes.flatMap(([size, shape]): Case[] => [
      {
        name: `allReduce ${reduction}${size}`,
        shape,
        call: (x) => comm.allReduce(x, options),
        expect: (all) => combined(all, by),
        takes,
      },
      {
        name: `reduceScatter ${reduction}${size}`,
        shape,
        call: (x) => comm.reduceScatter(x, options),
        expect: (all, rank) => cutEven(combined(all, by), 0, all.length, rank),
        takes,
      },
      {
        name: `reduce ${reduction}${size}`,
        shape,
        call: (x, devices) => comm.reduce(x, { ...options, root: devices - 1 }),
        expect: (all, rank) => orZeros(combined(all, by), rank === all.length - 1),
        takes,
      },
    ]),
    {
      name: `allReduce ${reduction} of one number`,
      shape: () => [],
      call: (x) => comm.allReduce(x, options),
      expect: (all) => combined(all, by),
      takes,
    },
    {
      name: `reduceScatter ${reduction}, dim 1`,
      shape: (size) => [3, 2 * size],
      call: (x) => comm.reduceScatter(x, { ...options, dim: -1 }),
      expect: (all, rank) => cutEven(combined(all, by), 1, all.length, rank),
      takes,
    },
    {
      name: `reduceScatter ${reduction}, uneven`,
      shape: (size) => [2, sum(uneven(size))],
      call: (x, size) => comm.reduceScatter(x, { ...options, dim: 1, sizes: uneven(size) }),
      expect: (all, rank) => {
        const sizes = uneven(all.length);
        return cut(combined(all, by), 1, startOf(sizes, rank), sizes[rank] as number);
      },
      takes,
    },
  ];
});

const moves: readonly Omit<Case, "takes">[] = [
  ...shapes.flatMap(([size, shape]): Omit<Case, "takes">[] => [
    {
      name: `allGather${size}`,
      shape,
      call: (x) => comm.allGather(x),
      expect: (all) => join(all, 0),
    },
    {
      name: `gather${size}`,
      shape,
      call: (x) => comm.gather(x),
      expect: (all, rank) => orZeros(join(all, 0), rank === 0),
    },
    {
      name: `broadcast${size}`,
      shape,
      call: (x, devices) => comm.broadcast(x, { root: devices - 1 }),
      expect: (all) => all.at(-1) as Held,
    },
    {
      name: `scatter${size}`,
      shape,
      call: (x, devices) => comm.scatter(x, { root: devices - 1 }),
      expect: (all, rank) => cutEven(all.at(-1) as Held, 0, all.length, rank),
    },
    {
      name: `allToAll${size}`,
      shape,
      call: (x) => comm.allToAll(x),
      expect: (all, rank) =>
        join(
          all.map((held) => cutEven(held, 0, all.length, rank)),
          0,
        ),
    },
    {
      name: `permute${size}`,
      shape,
      call: (x, devices) => comm.permute(x, { pairs: shift(devices) }),
      expect: (all, rank) => (rank === 0 ? zeros(all[0]?.shape as number[]) : (all[rank - 1] as Held)),
    },
  ]),
  {
    name: "allGather, dim 1",
    shape: () => [3, 2],
    call: (x) => comm.allGather(x, { dim: 1 }),
    expect: (all) => join(all, 1),
  },
  {
    name: "allToAll, dims 1 and 0",
    shape: (size) => [3, 2 * size],
    call: (x) => comm.allToAll(x, { split: 1, concat: 0 }),
    expect: (all, rank) =>
      join(
        all.map((held) => cutEven(held, 1, all.length, rank)),
        0,
      ),
  },
  {
    name: "allGather, uneven",
    shape: (size, rank) => [2, uneven(size)[rank] as number],
    call: (x, size) => comm.allGather(x, { dim: 1, sizes: uneven(size) }),
    expect: (all) => join(all, 1),
  },
  {
    name: "gather, uneven",
    shape: (size, rank) => [uneven(size)[rank] as number, 2],
    call: (x, size) => comm.gather(x, { sizes: uneven(size) }),
    expect: (all, rank) => orZeros(join(all, 0), rank === 0),
  },
  {
    name: "scatter, uneven",
    shape: (size) => [sum(uneven(size)), 2],
    call: (x, size) => comm.scatter(x, { sizes: uneven(size) }),
    expect: (all, rank) => {
      const sizes = uneven(all.length);
      return cut(all[0] as Held, 0, startOf(sizes, rank), sizes[rank] as number);
    },
  },
  {
    name: "allToAll, uneven",
    shape: (size, rank) => [sum(each(size).map((to) => between(rank, to))), 2],
    call: (x, size, rank) =>
      comm.allToAll(x, {
        sends: each(size).map((to) => between(rank, to)),
        receives: each(size).map((from) => between(from, rank)),
      }),
    expect: (all, rank) =>
      join(
        all.map((held, from) => {
          const sends = all.map((_held, to) => between(from, to));
          return cut(held, 0, startOf(sends, rank), between(from, rank));
        }),
        0,
      ),
  },
];

export const cases: readonly Case[] = [...reducing, ...moves.map((one): Case => ({ ...one, takes: always }))];

/** Large values are moved and combined in two dtypes alone: what differs between dtypes is in the small ones. */
export const isTried = ({ name, takes }: Case, dtype: Type): boolean =>
  takes(dtype) && (!name.endsWith("of many") || ["f32", "i32"].includes(dtype));

/** The difference of a result from what is due, as text; undefined if there is none. */
export function difference(result: Tensor, data: ArrayLike<number | bigint>, due: Held): string | undefined {
  if (result.shape.join() !== due.shape.join()) return `shape ${result.shape.join()}, not ${due.shape.join()}`;
  const at = due.data.findIndex((value, index) => Number(data[index]) !== value);
  return at < 0 ? undefined : `element ${at} is ${data[at]}, not ${due.data[at]}`;
}

/** Every collective by every schedule that fits so many devices, on tensors of three dims. */
export function scheduledCases(size: number): Case[] {
  const root = size - 1;
  const dim = 1;
  const takes = (dtype: Type): boolean => dtype === "f32" || dtype === "i32" || dtype === "bool";
  const shape = (): number[] => [2, 3 * size, 2];
  type One = readonly [
    comm.schedules.Scheduled,
    (x: Tensor, schedule: string) => Tensor,
    Case["expect"],
    takes?: (dtype: Type) => boolean,
  ];
  const numbers = (dtype: Type): boolean => takes(dtype) && dtype !== "bool";
  const all: readonly One[] = [
    ["allReduce", (x, schedule) => comm.allReduce(x, { schedule }), (held) => combined(held, sum), numbers],
    [
      "allReduce",
      (x, schedule) => comm.allReduce(x, { schedule, reduction: "max" }),
      (held) => combined(held, (values) => Math.max(...values)),
    ],
    [
      "reduceScatter",
      (x, schedule) => comm.reduceScatter(x, { schedule, dim, reduction: "product" }),
      (held, rank) =>
        cutEven(
          combined(held, (values) => values.reduce((left, right) => left * right)),
          dim,
          size,
          rank,
        ),
      numbers,
    ],
    [
      "reduce",
      (x, schedule) => comm.reduce(x, { schedule, root }),
      (held, rank) => orZeros(combined(held, sum), rank === root),
      numbers,
    ],
    ["allGather", (x, schedule) => comm.allGather(x, { schedule, dim }), (held) => join(held, dim)],
    [
      "gather",
      (x, schedule) => comm.gather(x, { schedule, dim, root }),
      (held, rank) => orZeros(join(held, dim), rank === root),
    ],
    [
      "scatter",
      (x, schedule) => comm.scatter(x, { schedule, dim, root }),
      (held, rank) => cutEven(held[root] as Held, dim, size, rank),
    ],
    ["broadcast", (x, schedule) => comm.broadcast(x, { schedule, root }), (held) => held[root] as Held],
    [
      "allToAll",
      (x, schedule) => comm.allToAll(x, { schedule, split: dim }),
      (held, rank) =>
        join(
          held.map((one) => cutEven(one, dim, size, rank)),
          dim,
        ),
    ],
  ];
  return all.flatMap(([collective, call, expect, own = takes]) => {
    const rooted = ["reduce", "gather", "scatter", "broadcast"].includes(collective);
    const fits = (name: string): boolean => {
      try {
        comm.schedules.scheduleNamed(name, { collective, ranks: size, root: rooted ? root : 0 });
        return true;
      } catch {
        return false;
      }
    };
    return ["auto", ...comm.schedules.scheduleNames().filter(fits)].map(
      (name): Case => ({ name: `${collective} by ${name}`, shape, call: (x) => call(x, name), expect, takes: own }),
    );
  });
}

/** The calls between so many processes: every collective in every dtype that it takes, or each `every`-th of them. */
export const triedCases = (size: number, every = 1): (readonly [Case, Type])[] => {
  const all = [...cases, ...scheduledCases(size)];
  return dtypes
    .flatMap((dtype) => all.filter((one) => isTried(one, dtype)).map((one) => [one, dtype] as const))
    .filter((_call, place) => place % every === 0);
};
