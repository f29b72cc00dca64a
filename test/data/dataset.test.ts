import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ArrayColumn,
  type Column,
  columnDType,
  type Dataset,
  fromArrays,
  fromColumns,
  hostGather,
} from "../../src/data/index.ts";
import { datasetLines } from "../../src/train/agree.ts";
import "../../src/train/index.ts";
import { HeddleError } from "../../src/util/errors.ts";

const numbered = (length: number): Dataset =>
  fromArrays({
    x: { shape: [length, 2], data: new Float32Array(length * 2) },
    y: { shape: [length], data: new Int32Array(length) },
  });

const epochRows = (dataset: Dataset, epoch: number, ranks: number): number[] =>
  Array.from({ length: dataset.batchesPerEpoch }, (_unused, step) =>
    Array.from({ length: ranks }, (_rank, rank) => [...dataset.batchRows(epoch, step, { rank, ranks }).local]).flat(),
  ).flat();

describe("chain", () => {
  test("60,000 rows are 468 batches of 128 and one of 96", () => {
    const batched = numbered(60_000).batch(128);
    expect(batched.batchesPerEpoch).toBe(469);
    expect(batched.batchSizes).toEqual([128, 96]);
    expect(batched.batchRows(0, 468).rows.length).toBe(96);
    const dropped = numbered(60_000).batch(128, { dropRemainder: true });
    expect(dropped.batchesPerEpoch).toBe(468);
    expect(dropped.batchSizes).toEqual([128]);
  });

  test("a method returns a new dataset", () => {
    const all = numbered(10);
    const few = all.take(3);
    expect([all.length, few.length, all.skip(4).length]).toEqual([10, 3, 6]);
    expect(few.columns).toBe(all.columns);
  });

  test.each<[string, (dataset: Dataset) => Dataset, number[]]>([
    ["take", (all) => all.take(3), [0, 1, 2]],
    ["take too many", (all) => all.take(99), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
    ["skip", (all) => all.skip(7), [7, 8, 9]],
    ["skip too many, then nothing", (all) => all.skip(99), []],
    ["skip then take", (all) => all.skip(2).take(3), [2, 3, 4]],
    ["take then skip", (all) => all.take(5).skip(2), [2, 3, 4]],
  ])("%s", (_name, change, rows) => {
    const changed = change(numbered(10));
    expect(Array.from({ length: changed.length }, (_unused, index) => changed.rowAt(0, index))).toEqual(rows);
  });

  test("take before shuffle chooses rows, take after a fixed shuffle samples them", () => {
    const before = epochRows(numbered(100).take(10).shuffle({ seed: 1 }).batch(10), 0, 1);
    expect([...before].sort((left, right) => left - right)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const after = epochRows(numbered(100).shuffle({ seed: 1, reshuffle: false }).take(10).batch(10), 0, 1);
    expect(Math.max(...after)).toBeGreaterThan(9);
  });

  test("a shuffle without reshuffle splits: the parts do not meet, in any epoch", () => {
    const mixed = numbered(50).shuffle({ seed: 3, reshuffle: false });
    const parts = [mixed.take(40).shuffle().batch(8), mixed.skip(40).batch(10)] as const;
    for (const epoch of [0, 1, 7]) {
      const rows = [...epochRows(parts[0], epoch, 1), ...epochRows(parts[1], epoch, 1)];
      expect(new Set(rows).size).toBe(50);
    }
    expect(epochRows(parts[1], 0, 1)).toEqual(epochRows(parts[1], 5, 1));
    expect(epochRows(parts[0], 0, 1)).not.toEqual(epochRows(parts[0], 5, 1));
  });

  test("a shuffle without a seed takes the run's, one with a seed does not", () => {
    const free = numbered(100).shuffle().batch(100);
    const own = numbered(100).shuffle({ seed: 0 }).batch(100);
    expect(free.batchRows(0, 0, { seed: 9 }).rows).not.toEqual(free.batchRows(0, 0).rows);
    expect(own.batchRows(0, 0, { seed: 9 }).rows).toEqual(own.batchRows(0, 0).rows);
    expect(own.batchRows(0, 0).rows).toEqual(free.batchRows(0, 0).rows);
  });

  test("describes itself for a checkpoint", () => {
    expect(numbered(10).shuffle({ reshuffle: false }).skip(1).batch(4).describe(7)).toEqual({
      name: "arrays",
      columns: ["x f32[10,2]", "y i32[10]"],
      chain: ["shuffle 10 seed 7 once", "skip 1"],
      length: 9,
      batchSize: 4,
      dropRemainder: false,
    });
  });
});

describe("batchRows", () => {
  test("every row comes exactly once, in the same order for every number of ranks", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 64 }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat({ max: 100 }),
        (length, size, ranks, epoch) => {
          const dataset = numbered(length).shuffle({ seed: 5 }).batch(size);
          const rows = epochRows(dataset, epoch, ranks);
          expect(new Set(rows).size).toBe(length);
          expect(rows).toEqual(epochRows(dataset, epoch, 1));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("a batch found by its step alone is the batch that reading from the start comes to", () => {
    const dataset = numbered(1000).shuffle({ seed: 2 }).batch(64);
    const whole = epochRows(dataset, 4, 1);
    fc.assert(
      fc.property(fc.nat({ max: dataset.batchesPerEpoch - 1 }), (step) => {
        expect([...dataset.batchRows(4, step).rows]).toEqual(whole.slice(step * 64, step * 64 + 64));
      }),
    );
  });

  test("says who has which rows of an uneven batch", () => {
    const { rows, local, sizes, start } = numbered(10).batch(10).batchRows(0, 0, { rank: 2, ranks: 4 });
    expect([sizes, start, [...local]]).toEqual([[3, 3, 2, 2], 6, [6, 7]]);
    expect(local.buffer).toBe(rows.buffer);
    expect(numbered(2).batch(2).batchRows(0, 0, { rank: 3, ranks: 4 }).local.length).toBe(0);
  });
});

describe("columns", () => {
  test("keep their dtype, and say what the model sees", () => {
    const { columns } = fromArrays({
      image: { shape: [2, 1], dtype: "u8", data: new Uint8Array(2), transform: { dtype: "f32", scale: 1 / 255 } },
      mask: { shape: [2], dtype: "bool", data: Buffer.from([0, 1]) },
      plain: { shape: [2], data: [1.5, 2] },
      labels: { shape: [2], dtype: "i32", data: [1, 2] },
    });
    expect([...columns.values()].map((column) => [column.dtype, columnDType(column)])).toEqual([
      ["u8", "f32"],
      ["bool", "bool"],
      ["f32", "f32"],
      ["i32", "i32"],
    ]);
  });

  test("arrays are kept, not copied", async () => {
    const data = new Float32Array([1, 2]);
    expect(
      await fromArrays({ x: { shape: [2], data } })
        .columns.get("x")
        ?.load(),
    ).toBe(data);
  });

  test("host gather copies rows", async () => {
    const data = Float32Array.from({ length: 12 }, (_unused, index) => index);
    const column = fromArrays({ x: { shape: [4, 3], data } }).columns.get("x");
    if (column === undefined) throw new Error("no column");
    const gathered = await hostGather(column, Int32Array.of(3, 0, 3));
    expect(gathered).toEqual({ shape: [3, 3], dtype: "f32", data: Float32Array.of(9, 10, 11, 0, 1, 2, 9, 10, 11) });
    expect((await hostGather(column, new Int32Array(0))).shape).toEqual([0, 3]);
    await expect(hostGather(column, Int32Array.of(4))).rejects.toThrow('row 4 of column "x" is not in [0, 4)');
    await expect(hostGather(column, Int32Array.of(-1))).rejects.toThrow("row -1");
  });
});

describe("arrays in which no dtype is stored", () => {
  const columns: readonly (readonly [string, ArrayColumn, string, readonly number[]])[] = [
    ["unsigned 16 bits", { shape: [2], data: Uint16Array.of(1, 50256) }, "i32", [1, 50256]],
    ["signed 16 bits", { shape: [2], data: Int16Array.of(-1, 2) }, "i32", [-1, 2]],
    ["16 bits as another dtype", { shape: [2], dtype: "f32", data: Uint16Array.of(1, 50256) }, "f32", [1, 50256]],
    ["clamped bytes", { shape: [2], data: Uint8ClampedArray.of(0, 255) }, "u8", [0, 255]],
    ["rows", { shape: [2, 2], data: [Float64Array.of(1, 2), Float64Array.of(3, 4)] }, "f64", [1, 2, 3, 4]],
    ["rows as another dtype", { shape: [2, 1], dtype: "u8", data: [Int16Array.of(1), [2] as never] }, "u8", [1, 2]],
  ];
  test.each(columns)("%s", async (_what, source, dtype, values) => {
    const column = fromArrays({ x: source }).columns.get("x") as Column;
    expect([column.dtype, Array.from(await column.load())]).toEqual([dtype, values]);
  });

  test("a value that the dtype has not", () => {
    expect(() => fromArrays({ x: { shape: [2], dtype: "u8", data: Int16Array.of(1, -1) } })).toThrow(
      /^column "x": element 1: -1 is not a value of u8/,
    );
  });
});

describe("errors", () => {
  const f32 = (length: number): Float32Array => new Float32Array(length);
  test.each<[string, () => unknown, RegExp]>([
    ["no columns", () => fromArrays({}), /has no columns/],
    ["scalar column", () => fromArrays({ x: { shape: [], data: f32(1) } }), /"x" is a scalar/],
    [
      "wrong number of values",
      () => fromArrays({ x: { shape: [2, 3], data: f32(5) } }),
      /5 values, but its shape \[2,3\] holds 6/,
    ],
    [
      "other dtype",
      () => fromArrays({ x: { shape: [1], dtype: "f64", data: f32(1) } }),
      /is f64, but its values are given as Float32Array/,
    ],
    [
      "unknown dtype",
      () => fromArrays({ x: { shape: [1], dtype: "f8" as "f32", data: [1] } }),
      /dtype "f8" is unknown/,
    ],
    [
      "array of another kind",
      () => fromArrays({ x: { shape: [1], data: new DataView(new ArrayBuffer(1)) as never } }),
      /given as DataView/,
    ],
    [
      "transform of unknown dtype",
      () => fromArrays({ x: { shape: [1], data: f32(1), transform: { dtype: "f8" as "f32" } } }),
      /transform's dtype "f8"/,
    ],
    [
      "infinite scale",
      () => fromArrays({ x: { shape: [1], data: f32(1), transform: { dtype: "f32", scale: Infinity } } }),
      /scale is Infinity/,
    ],
    [
      "columns of other lengths",
      () => fromArrays({ x: { shape: [2], data: f32(2) }, y: { shape: [3], data: f32(3) } }),
      /"x" has 2, "y" has 3/,
    ],
    [
      "one name twice",
      () => fromColumns("d", [...numbered(1).columns.values(), ...numbered(1).columns.values()]),
      /the same name/,
    ],
    ["negative size", () => fromArrays({ x: { shape: [-1], data: f32(0) } }), /invalid size -1/],
    ["not batched", () => numbered(3).batchesPerEpoch, /not batched\n(?: {2}at .*\n)? {2}hint: add \.batch/],
    ["shuffle after batch", () => numbered(3).batch(1).shuffle(), /shuffle\(\) before batch/],
    ["batch twice", () => numbered(3).batch(1).batch(1), /batch\(\) once/],
    ["batch of nothing", () => numbered(3).batch(0), /size must be an integer in \[1/],
    ["batch of halves", () => numbered(3).batch(1.5), /got 1\.5/],
    ["no rows", () => numbered(0).batch(1), /has 0 rows: no batch/],
    ["no whole batch", () => numbered(3).batch(4, { dropRemainder: true }), /3 rows: no whole batch of 4/],
    ["step too far", () => numbered(3).batch(2).batchRows(0, 2), /step must be an integer in \[0, 1\], got 2/],
    ["rank too high", () => numbered(3).batch(2).batchRows(0, 0, { rank: 2, ranks: 2 }), /rank must be/],
    ["no ranks", () => numbered(3).batch(2).batchRows(0, 0, { ranks: 0 }), /ranks must be/],
    ["negative epoch", () => numbered(3).batch(2).batchRows(-1, 0), /epoch must be/],
    ["row outside", () => numbered(3).rowAt(0, 3), /row 3 of arrays is not in \[0, 3\)/],
    ["bad seed", () => numbered(3).shuffle({ seed: -1 }), /seed must be/],
    ["take of a new order", () => numbered(3).shuffle().take(1), /take\(\) after shuffle\(\): .* in each epoch/],
    ["skip of a new order", () => numbered(3).shuffle({ seed: 1 }).skip(1), /skip\(\) after shuffle\(\)/],
    ["bad take", () => numbered(3).take(-1), /take: count must be/],
  ])("%s", (_name, build, message) => {
    expect(build).toThrow(HeddleError);
    expect(build).toThrow(message);
  });
});

describe("the rows that a dataset can come to", () => {
  const values = Float32Array.from({ length: 20 }, (_unused, row) => row);
  test.each<readonly [string, (all: Dataset) => Dataset, first: number, count: number]>([
    ["all", (all) => all, 0, 20],
    ["taken", (all) => all.take(5), 0, 5],
    ["skipped, then taken", (all) => all.skip(3).take(5), 3, 5],
    ["twice", (all) => all.skip(3).take(9).skip(2), 5, 7],
    ["taken, then shuffled", (all) => all.skip(3).take(5).shuffle(), 3, 5],
    ["shuffled once, then taken: any of them", (all) => all.skip(4).shuffle({ reshuffle: false }).take(2), 4, 16],
  ])("%s", async (_name, chain, first, count) => {
    const made = (data: Float32Array): Dataset => chain(fromArrays({ x: { shape: [20], data } }));
    const dataset = made(values);
    const isIn = (row: number): boolean => row >= first && row < first + count;
    expect(dataset.sourceRows).toEqual({ first, count });
    for (const epoch of [0, 1])
      for (let index = 0; index < dataset.length; index++) expect(isIn(dataset.rowAt(epoch, index))).toBe(true);
    // Ranks compare these rows: others may differ.
    const lines = (data: Float32Array): Promise<string[]> => datasetLines("data", made(data), ["x"], 0);
    expect(await lines(values.map((value, row) => (isIn(row) ? value : -1)))).toEqual(await lines(values));
    const changed = values.map((value, row) => (row === first ? -1 : value));
    expect(await lines(changed)).not.toEqual(await lines(values));
  });
});
