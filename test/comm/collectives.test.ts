/**
 * The collectives that users call, on every executor: against their meaning in plain TypeScript. `npm run test:processes` runs a part of
 * the calls, `npm run test:grids` all.
 */
import { comm, distribute, grad, HeddleError, jit, type Tensor, tensor, valueAndGrad } from "heddle";
import { parseLayout } from "heddle/plan";
import { executorNames, localRuntime, type Runtime } from "heddle/runtime";
import { afterAll, describe, expect, test } from "vitest";
import { partOf } from "../support/sample.ts";
import {
  cases,
  difference,
  dtypes,
  type Held,
  heldBy,
  isTried,
  scheduledCases,
  type Type,
  tensorOf,
} from "./scripts/cases.ts";

const runtimes = new Map<string, Runtime>();
afterAll(() => {
  for (const runtime of runtimes.values()) runtime.close();
});

function runtimeOf(executor: string, size: number): Runtime {
  const key = `${executor} ${size}`;
  const known = runtimes.get(key) ?? localRuntime({ axes: [{ name: "data", size }], executor });
  runtimes.set(key, known);
  return known;
}

/** What each device has, as one tensor with a first dim of devices. */
function joined(runtime: Runtime, all: readonly Held[], dtype: Type): Tensor {
  const shape = [all.length, ...(all[0] as Held).shape];
  const whole = tensor(
    all.flatMap(({ data }) => [...data]),
    { dtype, shape },
  );
  return distribute(runtime, whole.dataSync(), { dtype, shape }, parseLayout("S(0)"));
}

/** Results that differ in their shapes are no tensor of one process with several devices. */
const alike = cases.filter(({ name }) => !name.endsWith("uneven"));

describe.each(executorNames().flatMap((executor) => [1, 2, 4].map((size) => ({ executor, size }))))(
  "$executor, $size devices",
  ({ executor, size }) => {
    test.each(dtypes)("every collective of %s", (dtype) => {
      const runtime = runtimeOf(executor, size);
      // Another part for each dtype and size.
      const tried = alike.filter((candidate) => isTried(candidate, dtype));
      for (const one of partOf(tried, 8, dtypes.indexOf(dtype) + size)) {
        const all = Array.from({ length: size }, (_unused, rank) => heldBy(rank, one.shape(size, rank), dtype));
        const due = all.map((_held, rank) => one.expect(all, rank));
        const run = comm.perDevice((x: Tensor) => one.call(x.reshape(x.shape.slice(size > 1 ? 1 : 0)), size, 0), {
          runtime,
        });
        const given =
          size > 1
            ? joined(runtime, all, dtype)
            : tensor((all[0] as Held).data, { dtype, shape: (all[0] as Held).shape });
        const result = run(given);
        const shape = [...(size > 1 ? [size] : []), ...(due[0] as Held).shape];
        const whole = { shape, data: due.flatMap(({ data }) => data) };
        expect(difference(result, result.dataSync() as ArrayLike<number>, whole), `${one.name}`).toBeUndefined();
      }
    });
  },
);

/** What each of two devices gets from a function of its own numbers, on the reference executor. */
const onTwo = (fn: (x: Tensor) => unknown, rows: readonly (readonly number[])[]): Tensor => {
  const runtime = runtimeOf("reference", rows.length);
  const shape = [rows.length, (rows[0] as readonly number[]).length];
  const x = distribute(runtime, Float64Array.from(rows.flat()), { dtype: "f64", shape }, parseLayout("S(0)"));
  return comm.perDevice((own: Tensor) => fn(own.reshape(own.shape.slice(1))))(x) as Tensor;
};

/** Names of the schedules that there are for a task. */
const namesFor = (task: comm.schedules.Task): string[] => {
  const topology = comm.schedules.uniform(task.ranks, { latency: 1e-6, bandwidth: 1e9 });
  return comm.schedules.rankedSchedules(task, 1e3, topology).map(({ schedule }) => schedule.name);
};

describe.each(executorNames())("schedules on the %s executor", (executor) => {
  test.each([1, 2, 3, 4, 6])("every collective by every schedule, %i devices", (size) => {
    const runtime = runtimeOf(executor, size);
    for (const dtype of size === 4 ? (["f32", "i32", "bool"] as const) : (["f32"] as const)) {
      const tried = scheduledCases(size).filter(({ takes }) => takes(dtype));
      for (const one of partOf(tried, 5, size)) {
        const all = Array.from({ length: size }, (_unused, rank) => heldBy(rank, one.shape(size, rank), dtype));
        const due = all.map((_held, rank) => one.expect(all, rank));
        const run = comm.perDevice((x: Tensor) => one.call(x.reshape(one.shape(size, 0)), size, 0), { runtime });
        const result = run(size > 1 ? joined(runtime, all, dtype) : tensorOf(all[0] as Held, dtype));
        const shape = [...(size > 1 ? [size] : []), ...(due[0] as Held).shape];
        const whole = { shape, data: due.flatMap(({ data }) => data) };
        expect(
          difference(result, result.dataSync() as ArrayLike<number>, whole),
          `${one.name} ${dtype}`,
        ).toBeUndefined();
      }
    }
  });
});

describe("gradients: of the sum of what all devices return, by what each device has", () => {
  const rows = [
    [1, 5, 2, 7],
    [3, 5, 4, 6],
  ];
  // The loss of device r weighs element i of its result by (r + 1) * (i + 1).
  const gradientOf = (call: (x: Tensor) => Tensor): unknown =>
    onTwo((x) => {
      const loss = (value: Tensor): Tensor => {
        const result = call(value);
        const weights = tensor(
          Array.from({ length: result.size }, (_unused, index) => index + 1),
          { dtype: "f64", shape: result.shape },
        );
        return result
          .mul(weights)
          .sum()
          .mul(comm.rank() + 1);
      };
      return grad(loss)(x);
    }, rows).arraySync();

  test.each<[string, (x: Tensor) => Tensor, number[][]]>([
    ["sum", (x) => comm.allReduce(x), [3, 3].map(() => [3, 6, 9, 12])],
    ["mean", (x) => comm.allReduce(x, { reduction: "mean" }), [0, 1].map(() => [1.5, 3, 4.5, 6])],
    [
      "max: ties share",
      (x) => comm.allReduce(x, { reduction: "max" }),
      [
        [0, 3, 0, 12],
        [3, 3, 9, 0],
      ],
    ],
    [
      "product",
      (x) => comm.allReduce(x, { reduction: "product" }),
      [
        [9, 30, 36, 72],
        [3, 30, 18, 84],
      ],
    ],
    ["reduceScatter", (x) => comm.reduceScatter(x), [0, 1].map(() => [1, 2, 2, 4])],
    [
      "allGather",
      (x) => comm.allGather(x),
      [
        [3, 6, 9, 12],
        [15, 18, 21, 24],
      ],
    ],
    ["reduce to the last", (x) => comm.reduce(x, { root: 1 }), [0, 1].map(() => [2, 4, 6, 8])],
    [
      "gather on the first",
      (x) => comm.gather(x),
      [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
      ],
    ],
    [
      "broadcast of the last",
      (x) => comm.broadcast(x, { root: 1 }),
      [
        [0, 0, 0, 0],
        [3, 6, 9, 12],
      ],
    ],
    [
      "scatter of the first",
      (x) => comm.scatter(x),
      [
        [1, 2, 2, 4],
        [0, 0, 0, 0],
      ],
    ],
    [
      "allToAll",
      (x) => comm.allToAll(x),
      [
        [1, 2, 2, 4],
        [3, 4, 6, 8],
      ],
    ],
    [
      "permute",
      (x) => comm.permute(x, { pairs: [[0, 1]] }),
      [
        [2, 4, 6, 8],
        [0, 0, 0, 0],
      ],
    ],
  ])("%s", (_name, call, expected) => {
    expect(gradientOf(call)).toEqual(expected);
  });

  test("a step of data parallel training by hand equals that of one device", async () => {
    const loss = (w: Tensor, x: Tensor): Tensor => x.matmul(w).square().mean();
    const w = tensor([[0.5], [-1]], { dtype: "f64" });
    const x = tensor(
      [
        [1, 2],
        [3, 4],
        [5, 6],
        [7, 9],
      ],
      { dtype: "f64" },
    );
    const runtime = runtimeOf("reference", 2);
    const step = comm.perDevice((weights: Tensor, own: Tensor) => {
      const { value, grad: gradient } = valueAndGrad(loss)(weights, own);
      return {
        value: comm.allReduce(value, { reduction: "mean" }),
        gradient: comm.allReduce(gradient, { reduction: "mean" }),
      };
    });
    const split = distribute(runtime, x.dataSync(), { dtype: "f64", shape: [4, 2] }, parseLayout("S(0)"));
    const { value, gradient } = step(w, split);
    const { value: wholeValue, grad: wholeGradient } = valueAndGrad(loss)(w, x);
    for (const row of value.arraySync() as number[]) expect(row).toBeCloseTo(await wholeValue.item(), 12);
    for (const one of gradient.arraySync() as number[][][])
      expect(
        one.flat().every((got, index) => Math.abs(got - (wholeGradient.dataSync()[index] as number)) < 1e-12),
      ).toBe(true);
  });
});

describe("gradients by every schedule are those without one", () => {
  const at = (value: Tensor): Tensor => {
    // Means of up to four devices are whole numbers.
    const ramp = Array.from({ length: value.size }, (_unused, index) => 12 * (index + 1));
    return value.mul(tensor(ramp, { dtype: "f64", shape: value.shape }));
  };
  type Options = { readonly schedule?: string; readonly reduction?: comm.Reduction };
  const calls: { readonly [name in comm.schedules.Scheduled]: (x: Tensor, options: Options) => Tensor } = {
    allReduce: comm.allReduce,
    reduceScatter: comm.reduceScatter,
    reduce: (x, options) => comm.reduce(x, { ...options, root: 1 }),
    allGather: comm.allGather,
    gather: (x, options) => comm.gather(x, { ...options, root: 1 }),
    scatter: (x, options) => comm.scatter(x, { ...options, root: 1 }),
    broadcast: (x, options) => comm.broadcast(x, { ...options, root: 1 }),
    allToAll: comm.allToAll,
  };
  const combining = ["allReduce", "reduceScatter", "reduce"];
  const rows = Object.keys(calls).flatMap((name) =>
    (combining.includes(name) ? (["sum", "mean", "product", "min", "max"] as const) : [undefined]).map(
      (reduction) => [name as comm.schedules.Scheduled, reduction] as const,
    ),
  );

  test.each(partOf(rows, 2))("%s %s, 2, 3 and 4 devices", (name, reduction) => {
    for (const size of [2, 3, 4]) {
      // Each device has ties with another one.
      const own = Array.from({ length: size }, (_unused, rank) =>
        Array.from({ length: 2 * size }, (_element, index) => 1 + ((index + (rank >> 1)) % 3)),
      );
      const gradient = (schedule?: string): unknown => {
        const options = { ...(schedule && { schedule }), ...(reduction && { reduction }) };
        const loss = (x: Tensor): Tensor =>
          at(calls[name](x, options))
            .sum()
            .mul(comm.rank() + 1);
        try {
          return onTwo((x) => grad(loss)(x), own).arraySync();
        } catch (error) {
          return (error as HeddleError).code;
        }
      };
      const due = gradient();
      const isDefined = name === "allReduce" || (reduction !== "min" && reduction !== "max");
      expect(due).toEqual(isDefined ? expect.any(Array) : "gradient");
      const root = ["reduce", "gather", "scatter", "broadcast"].includes(name) ? 1 : 0;
      const task = { collective: name, ranks: size, root };
      for (const schedule of ["auto", ...namesFor(task)]) {
        expect(gradient(schedule), `${schedule}, ${size} devices`).toEqual(due);
      }
    }
  });
});

describe("what is refused, and how it is said", () => {
  const runtime = (): Runtime => runtimeOf("reference", 2);
  const one = tensor([1, 2, 3]);
  const said = (run: () => unknown): string => {
    try {
      run();
    } catch (error) {
      if (error instanceof HeddleError) return error.message;
      throw error;
    }
    return "nothing";
  };
  test.each<[string, () => unknown, RegExp]>([
    ["no runtime", () => comm.allReduce(one), /has not joined them/],
    ["an axis that is not there", () => comm.allReduce(one, { runtime: runtime(), axis: "model" }), /has no axis/],
    ["a sum of bool", () => comm.allReduce(one.gt(1), { runtime: runtime() }), /there is no sum of bool\[3\]/],
    [
      "a mean of integers",
      () => comm.reduce(one.cast("i32"), { runtime: runtime(), reduction: "mean" }),
      /no mean of i32/,
    ],
    [
      "a misspelt reduction",
      () => comm.allReduce(one, { runtime: runtime(), reduction: "maxx" as "max" }),
      /there is no reduction 'maxx'|did you mean 'max'/,
    ],
    ["a misspelt option", () => comm.allReduce(one, { rutime: runtime() } as object), /unknown option 'rutime'/],
    [
      "parts that are not equal",
      () => comm.reduceScatter(one, { runtime: runtime() }),
      /does not split into 2 equal parts/,
    ],
    [
      "a root outside",
      () => comm.broadcast(one, { runtime: runtime(), root: 2 }),
      /root must be at least 0 and at most 1/,
    ],
    [
      "two senders to one",
      () =>
        comm.permute(one, {
          runtime: runtime(),
          pairs: [
            [0, 1],
            [1, 1],
          ],
        }),
      /device 1 receives twice/,
    ],
    [
      "a collective in jit",
      () => jit((x: Tensor) => comm.allReduce(x, { runtime: runtime() }))(one),
      /comm\.perDevice instead of jit/,
    ],
    [
      "devices that return different things",
      () => comm.perDevice((x: Tensor) => (comm.rank() === 0 ? x : x.sum()), { runtime: runtime() })(one),
      /device 0 returns {2}f32\[3\], device 1 returns {2}f32/,
    ],
    [
      "devices that run different collectives",
      () => comm.perDevice((x: Tensor) => (comm.rank() === 0 ? comm.allReduce(x) : x), { runtime: runtime() })(one),
      /do not run the same collectives/,
    ],
  ])("%s", (_name, run, message) => {
    expect(said(run)).toMatch(message);
  });
});

describe.each(executorNames())("devices of one process that call differently, on the %s executor", (executor) => {
  test.each<[string, (x: Tensor, rank: number) => Tensor, RegExp]>([
    [
      "other roots",
      (x, rank) => comm.broadcast(x, { root: rank }),
      /comm\.broadcast 1 f32\[1,2\], and .*comm\.broadcast 1 root 1 f32\[1,2\]/,
    ],
    [
      "other pairs",
      (x, rank) => comm.permute(x, { pairs: rank === 0 ? [[0, 1]] : [] }),
      /pairs \[\[0,1\]\].*pairs \[\]/,
    ],
    ["other sizes", (x, rank) => comm.scatter(x, { dim: 1, sizes: [rank, 2 - rank] }), /device . returns|sizes/],
    [
      "parts that do not fit",
      (x) => comm.allToAll(x, { split: 1, sends: [0, 2], receives: [1, 1] }),
      /comm\.allToAll 1 split 1 f32: device 0 sends device 0 0 elements, which expects 1/,
    ],
  ])("%s are refused, and what follows works", (_name, call, message) => {
    const runtime = runtimeOf(executor, 2);
    const x = joined(
      runtime,
      [0, 1].map((rank) => heldBy(rank, [2], "f32")),
      "f32",
    );
    expect(() =>
      comm
        .perDevice((own: Tensor) => call(own, comm.rank()))(x)
        .dataSync(),
    ).toThrow(message);
    expect(comm.allReduce(x).arraySync()).toEqual([0, 1].map(() => [4, 4]));
  });
});

test("a synthesized schedule runs", () => {
  const runtime = runtimeOf("native", 4);
  const link = { latency: 1e-6, bandwidth: 1e9 };
  const topology = comm.schedules.hostsOf({ ranks: [2, 2], within: link, between: { ...link, bandwidth: 1e7 } });
  const schedule = comm.schedules.synthesize({ collective: "allReduce", ranks: 4, root: 0 }, 4e4, topology);
  const ones = comm.allReduce(tensor(new Float32Array(1003).fill(1)), { runtime, schedule });
  expect(new Set(ones.dataSync())).toEqual(new Set([4]));
  const other = { ...schedule, collective: "reduce" } as const;
  expect(() => comm.allReduce(tensor([1]), { runtime, schedule: other })).toThrow(/the schedule is for reduce of 4/);
  expect(() => comm.allReduce(tensor([1]), { runtime, schedule: "rign" })).toThrow(/did you mean 'ring'/);
});

test("a handle tells when a collective is done, and gives its result", async () => {
  const runtime = runtimeOf("native", 2);
  const work = comm.work(comm.allReduce(tensor([1, 2]), { runtime }));
  const result = await work.wait();
  expect(work.done).toBe(true);
  expect(result.arraySync()).toEqual([
    [2, 4],
    [2, 4],
  ]);
});

test("collectives go along one axis of a mesh of two", () => {
  const runtime = localRuntime({
    axes: [
      { name: "data", size: 2 },
      { name: "model", size: 2 },
    ],
    executor: "reference",
  });
  const x = distribute(runtime, Float32Array.of(1, 2, 3, 4), { dtype: "f32", shape: [4, 1] }, parseLayout("S(0) S(0)"));
  expect(comm.allReduce(x, { axis: "data" }).arraySync()).toEqual([[4], [6], [4], [6]]);
  expect(comm.allReduce(x, { axis: "model" }).arraySync()).toEqual([[3], [3], [7], [7]]);
  expect(comm.broadcast(x, { axis: "model", root: 1 }).arraySync()).toEqual([[2], [2], [4], [4]]);
  runtime.close();
});
