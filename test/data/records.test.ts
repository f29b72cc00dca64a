import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, expectTypeOf, test } from "vitest";
import {
  type BatchOf,
  balanced,
  csv,
  fromArrays,
  fromDataset,
  fromGenerator,
  fromRows,
  hostGather,
  loader,
  mix,
  onWorkers,
  type ReadRecords,
  type Records,
  split,
  stored,
  streamed,
  toDataset,
} from "../../src/data/index.ts";
import "../../src/train/index.ts";
import type { Tensor } from "../../src/functions/index.ts";

type Numbered = { readonly x: number };
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_unused, at) => from + at);
/** Numbers of a source that can pick, and of one that cannot. */
const listed = (to: number, from = 0): Records<Numbered> => fromRows(range(from, to).map((x) => ({ x })));
const streamedNumbers = (to: number, from = 0): Records<Numbered> =>
  fromGenerator(async function* () {
    for (let x = from; x < to; x++) yield { x };
  });
const read = async (records: Records<Numbered>, options: ReadRecords = {}): Promise<number[]> => {
  const found: number[] = [];
  for await (const { x } of records.read(options)) found.push(x);
  return found;
};
const sorted = (values: readonly number[]): number[] => [...values].sort((one, other) => one - other);

/** Each chain over both kinds of source, and its records in order; undefined where the order is not fixed. */
const chains: readonly [
  string,
  (records: Records<Numbered>) => Records<Numbered>,
  readonly number[],
  fixed: boolean,
][] = [
  ["source", (all) => all, range(0, 300), true],
  ["map", (all) => all.map(({ x }) => ({ x: 2 * x })), range(0, 300).map((x) => 2 * x), true],
  ["async map", (all) => all.map(async ({ x }) => ({ x: -x })), range(0, 300).map((x) => -x), true],
  ["filter", (all) => all.filter(({ x }) => x % 3 === 0), range(0, 100).map((x) => 3 * x), true],
  [
    "flatMap",
    (all) => all.take(50).flatMap(({ x }) => range(0, x % 3).map((y) => ({ x: x * 10 + y }))),
    range(0, 50).flatMap((x) => range(0, x % 3).map((y) => x * 10 + y)),
    true,
  ],
  ["take, skip", (all) => all.take(200).skip(50), range(50, 200), true],
  ["skip, take", (all) => all.skip(290).take(50), range(290, 300), true],
  ["repeat", (all) => all.take(3).repeat(2), [0, 1, 2, 0, 1, 2], true],
  ["concat", (all) => all.take(3).concat(all.skip(297)), [0, 1, 2, 297, 298, 299], true],
  [
    "zip",
    (all) =>
      all
        .take(7)
        .zip(all.map(({ x }) => ({ y: x + 1 })))
        .map(({ x, y }) => ({ x: x * y })),
    range(0, 7).map((x) => x * (x + 1)),
    true,
  ],
  ["prefetch", (all) => all.prefetch(3), range(0, 300), true],
  ["cache", (all) => all.cache(), range(0, 300), true],
  ["select", (all) => all.map(({ x }) => ({ x, y: 1 })).select("x"), range(0, 300), true],
  ["shuffle", (all) => all.shuffle({ window: 70 }), range(0, 300), false],
  [
    "shuffle, filter, repeat",
    (all) =>
      all
        .shuffle({ window: 40 })
        .filter(({ x }) => x < 60)
        .repeat(2),
    [...range(0, 60), ...range(0, 60)],
    false,
  ],
];

describe.each([
  ["a list", listed],
  ["a generator", streamedNumbers],
])("%s", (_kind, source) => {
  test.each(chains)("%s", async (_name, chain, expected, fixed) => {
    const records = chain(source(300));
    const found = await read(records);
    expect(fixed ? found : sorted(found)).toEqual(fixed ? expected : sorted(expected));
    if (records.length !== undefined) expect(records.length).toBe(expected.length);
    // The same again, and from any record on: the position is one number.
    for (const from of [1, 63, 64, 65, expected.length - 1, expected.length])
      expect(await read(records, { from })).toEqual(found.slice(from));
    expect(await read(records, { epoch: 3, seed: 5 })).toEqual(await read(records, { epoch: 3, seed: 5 }));
    if (records.canPick) {
      const rows = [expected.length - 1, 0, 1];
      const piece = await records.node.pick?.(rows, { epoch: 0, seed: 0 });
      expect(Array.from(piece?.columns["x"] ?? [])).toEqual(rows.map((row) => found[row]));
    }
  });

  test("shuffles differ by epoch and by seed, and not with reshuffle: false", async () => {
    const records = source(300).shuffle({ window: 100 });
    const orders = await Promise.all(
      [{ epoch: 0 }, { epoch: 1 }, { epoch: 0, seed: 1 }].map((options) => read(records, options)),
    );
    expect(new Set(orders.map(String)).size).toBe(3);
    const fixed = source(300).shuffle({ window: 100, reshuffle: false });
    expect(await read(fixed, { epoch: 4 })).toEqual(await read(fixed));
  });

  test("a mixture has the shares of its weights in each 1,024, and goes on from anywhere", async () => {
    const records = mix([source(5000), source(10_050, 10_000)], { weights: [3, 1], length: 4096 });
    const found = await read(records);
    for (let block = 0; block < 4; block++)
      expect(found.slice(block * 1024, block * 1024 + 1024).filter((x) => x < 10_000).length).toBe(768);
    expect(found.filter((x) => x < 10_000)).toEqual(range(0, 3072));
    expect(found.filter((x) => x >= 10_000).slice(0, 60)).toEqual([...range(10_000, 10_050), ...range(10_000, 10_010)]);
    for (const from of [1, 1000, 1024, 3000]) expect(await read(records, { from })).toEqual(found.slice(from));
  });

  test("splits: each record in one part, groups and times together, classes in the same shares", async () => {
    const all = source(1000);
    const shares = { train: 0.7, test: 0.3 };
    for (const options of [
      {},
      { group: ({ x }: Numbered) => x % 50 },
      { time: ({ x }: Numbered) => (x * 7) % 1000 },
      { stratify: ({ x }: Numbered) => Number(x < 100) },
    ]) {
      const parts = await split(all, shares, options);
      const [train, held] = [await read(parts.train), await read(parts.test)];
      expect(sorted([...train, ...held])).toEqual(range(0, 1000));
      expect(Math.abs(train.length - 700)).toBeLessThan(20);
      expect(await read((await split(all, shares, options)).train)).toEqual(train);
      if ("group" in options) expect(train.filter((x) => held.some((y) => y % 50 === x % 50))).toEqual([]);
      if ("time" in options)
        expect(Math.max(...train.map((x) => (x * 7) % 1000))).toBeLessThan(
          Math.min(...held.map((x) => (x * 7) % 1000)),
        );
      if ("stratify" in options) expect(train.filter((x) => x < 100).length).toBe(70);
      for (const from of [1, 300]) expect(await read(parts.test, { from })).toEqual(held.slice(from).slice(0));
    }
  });

  test("train takes records, kept in memory or read as they come, with the same rows", async () => {
    const records = source(100).map(({ x }) => ({ x: Float32Array.of(x, -x), y: x % 3 }));
    const [kept, passing] = [
      await toDataset(records, { dtypes: { y: "i32" } }),
      await streamed(records, { dtypes: { y: "i32" }, length: 100 }),
    ];
    for (const dataset of [kept, passing]) {
      expect([...dataset.columns.values()].map(({ name, shape, dtype }) => [name, shape, dtype])).toEqual([
        ["x", [100, 2], "f32"],
        ["y", [100], "i32"],
      ]);
      const { x, y } = { x: dataset.columns.get("x"), y: dataset.columns.get("y") };
      const rows = Int32Array.of(3, 70, 71);
      const moment = { epoch: 0, seed: 0 };
      const values = [await x?.read?.(rows, moment), await y?.read?.(rows, moment)];
      if (dataset === passing)
        expect(values).toEqual([Float32Array.of(3, -3, 70, -70, 71, -71), Int32Array.of(0, 1, 2)]);
      expect(await x?.load()).toEqual(Float32Array.from(range(0, 100).flatMap((at) => [at, -at])));
    }
  });
});

test("every record of a list comes once in a shuffled epoch, whatever the length", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 3000 }), fc.nat({ max: 9 }), async (length, epoch) => {
      expect(sorted(await read(listed(length).shuffle(), { epoch }))).toEqual(range(0, length));
    }),
    { numRuns: 15 },
  );
});

describe("bad records", () => {
  const odd = ({ x }: Numbered): Numbered => {
    if (x % 2 === 1) throw new Error(`${x} is odd`);
    return { x };
  };
  test("the first ends the reading, with its place", async () => {
    await expect(read(listed(10).map(odd))).rejects.toThrow("map: record 1: 1 is odd");
    await expect(read(streamedNumbers(10).filter((row) => odd(row).x > 0))).rejects.toThrow(
      "filter: generator, record 1: 1 is odd",
    );
  });
  test("are skipped, and told", async () => {
    const told: string[] = [];
    expect(await read(listed(6).map(odd, { onBad: (error) => told.push(error.plain) }))).toEqual([0, 2, 4]);
    expect(told).toEqual(["map: record 1: 1 is odd", "map: record 3: 3 is odd", "map: record 5: 5 is odd"]);
    expect(await read(listed(6).map(odd, { onBad: "skip" }), { from: 1 })).toEqual([2, 4]);
  });
  test.each<[string, () => Promise<unknown>, RegExp]>([
    [
      "columns that differ",
      () =>
        listed(3)
          .map(({ x }) => (x === 2 ? { y: x } : { x }))
          .toArray(),
      /map: record 2 has the columns y, the record before it x/,
    ],
    [
      "no record",
      () =>
        listed(3)
          .map(({ x }) => x as never)
          .toArray(),
      /map: record 0 is 0, not a record/,
    ],
    [
      "a generator that gives less than its length",
      () => fromGenerator(() => [{ x: 1 }], { length: 2 }).toArray(),
      /gave 1 records, its length is 2/,
    ],
    ["two columns of one name", () => listed(3).zip(listed(3)).toArray(), /two of the datasets have a column "x"/],
    ["shares that are not 1", () => split(listed(3), { a: 0.5 }), /add up to 0.5/],
    [
      "a stream that is shuffled too late",
      async () => (await streamed(streamedNumbers(9), { length: 9 })).columns.get("x")?.read?.(Int32Array.of(2, 1)),
      /read in order\n.*hint: shuffle the records/s,
    ],
    [
      "a column of texts",
      () => toDataset(fromRows([{ city: "Paris" }])),
      /"city" is not of numbers; its first value is "Paris"/,
    ],
  ])("%s", async (_what, run, message) => {
    await expect(run()).rejects.toThrow(message);
  });
});

describe("batches", () => {
  const words = fromRows([[1], [2, 3], [4, 5, 6], [7], [8, 9]].map((ids, at) => ({ ids, at, name: `w${at}` })));
  const host = async (batches: ReturnType<typeof words.batch>) => {
    const found: unknown[] = [];
    for await (const { columns } of batches.host())
      found.push(
        Object.fromEntries(
          Object.entries(columns).map(([name, values]) => [
            name,
            Array.isArray(values)
              ? values
              : [Array.from((values as { data: Float32Array }).data), (values as unknown as { shape: number[] }).shape],
          ]),
        ),
      );
    return found;
  };
  test("are typed: numbers and vectors are tensors, texts are lists", async () => {
    type Batch = BatchOf<{ ids: number[]; at: number; name: string }>;
    expectTypeOf<Batch>().toEqualTypeOf<{
      readonly ids: Tensor;
      readonly at: Tensor;
      readonly name: readonly string[];
    }>();
    // @ts-expect-error: records have no such column
    words.map(({ none }) => ({ none }));
    for await (const { at, name } of words.batch(5, { ragged: true })) {
      expect([at.shape, at.dtype, name]).toEqual([[5], "f32", ["w0", "w1", "w2", "w3", "w4"]]);
    }
  });
  test("padded to the longest of the batch", async () => {
    expect(await host(words.batch(3, { pad: -1, dtypes: { ids: "i32" } }))).toEqual([
      {
        ids: [
          [1, -1, -1, 2, 3, -1, 4, 5, 6],
          [3, 3],
        ],
        at: [[0, 1, 2], [3]],
        name: ["w0", "w1", "w2"],
      },
      {
        ids: [
          [7, -1, 8, 9],
          [2, 2],
        ],
        at: [[3, 4], [2]],
        name: ["w3", "w4"],
      },
    ]);
    expect((await host(words.batch(3, { pad: 0, dropRemainder: true }))).length).toBe(1);
  });
  test("by length: each bucket has its bound, the short ones come last", async () => {
    const buckets = { column: "ids" as const, bounds: [1, 3] };
    const batches = words.select("ids").batch(2, { buckets, lengths: "n" });
    expect(await host(batches as never)).toEqual([
      {
        ids: [
          [2, 3, 0, 4, 5, 6],
          [2, 3],
        ],
        n: [[2, 3], [2]],
      },
      {
        ids: [
          [1, 7],
          [2, 1],
        ],
        n: [[1, 1], [2]],
      },
      {
        ids: [
          [8, 9, 0],
          [1, 3],
        ],
        n: [[2], [1]],
      },
    ]);
  });
  test("go on from any batch", async () => {
    const batches = listed(100).shuffle().batch(7);
    const read = async (from: number): Promise<string[]> => {
      const found: string[] = [];
      for await (const { columns } of batches.host({ epoch: 2, seed: 1, from }))
        found.push(String((columns["x"] as { data: Float32Array }).data));
      return found;
    };
    const all = await read(0);
    expect([all.length, batches.length]).toEqual([15, 15]);
    expect(await read(4)).toEqual(all.slice(4));
  });
  test.each<[string, () => Promise<unknown>, RegExp]>([
    [
      "vectors of different lengths",
      () => host(words.batch(2)),
      /record 1: column "ids" has 2 values, the record before it 1/,
    ],
    [
      "a vector above the bounds",
      () => host(words.batch(2, { buckets: { column: "ids", bounds: [2] } })),
      /record 2: column "ids" has 3 values, the last bound is 2/,
    ],
    [
      "a number where the others are texts",
      () =>
        fromRows([{ x: 1 }, { x: "a" }])
          .batch(2)
          .epoch()
          .next(),
      /record 1: column "x" is string, where the first record has a number/,
    ],
    ["pad and ragged", async () => words.batch(2, { pad: 0, ragged: true }), /exclude each other/],
  ])("%s", async (_what, run, message) => {
    await expect(run()).rejects.toThrow(message);
  });
});

test("classes in balance: each as often, every record of the largest once", async () => {
  const rows = await balanced(listed(100), ({ x }) => (x < 10 ? "few" : "many"));
  const found = await read(rows, { epoch: 1 });
  expect([found.length, found.filter((x) => x < 10).length]).toEqual([180, 90]);
  expect(sorted(found.filter((x) => x >= 10))).toEqual(range(10, 100));
  await expect(balanced(streamedNumbers(9), () => 1)).rejects.toThrow(/cannot pick/);
});

describe("stored", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-stored-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  let reads = 0;
  const records = (count: number): Records<{ x: Float32Array; y: number }> =>
    fromGenerator(() => {
      reads++;
      return range(0, count).map((x) => ({ x: Float32Array.of(x, -x), y: x }));
    });

  test("is made once, and reads the rows of a batch", async () => {
    const made = await stored(records(500), join(folder, "made"), { dtypes: { y: "i32" } });
    const again = await stored(records(500), join(folder, "made"), { dtypes: { y: "i32" } });
    expect(reads).toBe(1);
    for (const dataset of [made, again])
      for await (const { rows, columns } of loader(dataset.shuffle().batch(100), { gather: hostGather })) {
        expect(Array.from(columns.get("y")?.data ?? [])).toEqual([...rows]);
        expect(Array.from(columns.get("x")?.data ?? [])).toEqual([...rows].flatMap((row) => [row, -row]));
      }
  });

  test("a folder with other records is refused, one that was left unfinished is written anew", async () => {
    await expect(stored(records(500), join(folder, "made"), { version: "2" })).rejects.toThrow(/holds other records/);
    const place = join(folder, "failed");
    const failing = records(100).map((row) => (row.y === 70 ? ({ ...row, x: [1] } as never) : row));
    await expect(stored(failing, place)).rejects.toThrow(/record 70\D|column "x"/);
    expect((await stored(records(10), place)).length).toBe(10);
    expect(readdirSync(place).length).toBe(3);
    writeFileSync(join(place, "records.json"), '{"heddle":"records 1","columns":[{"file":"../x"}]}');
    await expect(stored(records(10), place)).rejects.toThrow(/not a list of stored columns/);
  });

  const csvOf = (name: string, content: string): string => {
    const path = join(folder, name);
    writeFileSync(path, content);
    utimesSync(path, 5, 5);
    return path;
  };
  test.each<[string, () => object, () => object]>([
    ["other rows of the same number", () => fromRows([{ x: 1 }]), () => fromRows([{ x: 2 }])],
    ["rows of other arrays", () => fromRows([{ x: [1, 2] }]), () => fromRows([{ x: Int32Array.of(1, 2) }])],
    [
      "other types of columns",
      () => csv(csvOf("types.csv", "a,b\n1,2\n"), { columns: { a: "f32" } }),
      () => csv(join(folder, "types.csv"), { columns: { a: "f64" } }),
    ],
    [
      "another separator",
      () => csv(csvOf("separator.csv", "a;1\n"), { header: ["a", "b"], separator: ";" }).map(() => ({ x: 1 })),
      () => csv(join(folder, "separator.csv"), { header: ["a", "b"] }).map(() => ({ x: 1 })),
    ],
    [
      "a file that was written again with the same size",
      () => csv(csvOf("again.csv", "a\n1\n")),
      () => {
        utimesSync(csvOf("again.csv", "a\n2\n"), 1, 1);
        return csv(join(folder, "again.csv"));
      },
    ],
    [
      "records that leave bad ones out",
      () => fromRows([{ x: 1 }, { x: 2 }]).filter(() => true),
      () => fromRows([{ x: 1 }, { x: 2 }]).filter(() => true, { onBad: "skip" }),
    ],
    [
      "a dataset with other values",
      () => fromDataset(fromArrays({ x: { shape: [1], data: [1] } })),
      () => fromDataset(fromArrays({ x: { shape: [1], data: [2] } })),
    ],
  ])("%s are other records", async (what, one, other) => {
    const store = (records: object) => stored(records as Records<object>, join(folder, `other ${what}`));
    const first = one();
    await store(first);
    await store(first);
    await store(one());
    await expect(store(other())).rejects.toThrow(/holds other records, or their source has changed/);
  });

  test("workers agree on copies of a file, and not on other contents", async () => {
    const identity = async (content: string, time: number) => {
      utimesSync(csvOf("copy.csv", content), time, time);
      const column = (await streamed(csv(join(folder, "copy.csv")), { length: 1 })).columns.get("a");
      return column?.identity?.({ first: 0, count: 1 }, false);
    };
    expect(await identity("a\n1\n", 1)).toBe(await identity("a\n1\n", 2));
    expect(await identity("a\n1\n", 1)).not.toBe(await identity("a\n2\n", 1));
  });

  test("twice at once, the same records are written once", async () => {
    const place = join(folder, "twice");
    const [one, other] = await Promise.all([stored(records(300), place), stored(records(300), place)]);
    for (const dataset of [one, other])
      expect(Array.from((await dataset.columns.get("y")?.load()) ?? [])).toEqual(range(0, 300));
    expect(readdirSync(place).length).toBe(3);
  });

  test("a file in the place of the folder is an error in words; what killed runs left is removed", async () => {
    const path = csvOf("no-folder", "x");
    for (const place of [path, join(path, "below")])
      await expect(stored(records(2), place)).rejects.toThrow(
        /cannot use the folder .*no-folder.*it is a file, or lies/,
      );
    const place = join(folder, "killed");
    await stored(records(5), place);
    const [own = ""] = readdirSync(place).filter((name) => name.startsWith("column-0"));
    const ended = spawnSync(process.execPath, ["--eval", ""]).pid;
    const nameOf = (pid: number): string => own.replace(/[0-9a-f]{8}-\d+\.bin$/, `00000000-${pid}.bin`);
    const killed = [nameOf(ended), nameOf(ended).replace("column-0", "column-1")];
    const kept = [nameOf(process.pid), nameOf(ended).replace(/^column-0-.{8}/, "column-0-00000000")];
    for (const name of [...killed, ...kept]) writeFileSync(join(place, name), "x");
    const used = readdirSync(place).filter((name) => !killed.includes(name));
    await stored(records(5), place);
    expect(readdirSync(place)).toEqual(used);
    expect((await stored(records(5), place)).length).toBe(5);
  });
});

test("the rows of a dataset are records, in the dataset's order", async () => {
  const dataset = fromArrays({
    x: { shape: [4, 2], data: [0, 1, 2, 3, 4, 5, 6, 7] },
    y: { shape: [4], data: Int32Array.of(5, 6, 7, 8) },
  });
  const rows = await fromDataset(dataset.skip(1)).toArray();
  expect(rows.map(({ x, y }) => [Array.from(x), y])).toEqual([
    [[2, 3], 6],
    [[4, 5], 7],
    [[6, 7], 8],
  ]);
});

describe("worker threads", () => {
  const module = new URL("./workers/square.mjs", import.meta.url);
  test.each([1, 3])("%i threads give what one gives, in the same order", async (workers) => {
    const records = listed(1000).shuffle().map(onWorkers<Numbered, { x: number; y: number }>(module, { workers }));
    const found = await records.toArray();
    expect(found.map(({ x }) => x)).toEqual(await read(listed(1000).shuffle()));
    expect(found.every(({ x, y }) => y === x * x)).toBe(true);
  });
  test("a record that throws is named; a module that lacks the function is an error", async () => {
    const slow = onWorkers<Numbered, { y: number }>(module, { name: "slow", workers: 2 });
    await expect(listed(20).map(slow).toArray()).rejects.toThrow("map: record 13: thirteen");
    expect((await listed(20).map(slow, { onBad: "skip" }).toArray()).length).toBe(19);
    await expect(
      listed(2)
        .map(onWorkers<Numbered, object>(module, { name: "none" }))
        .toArray(),
    ).rejects.toThrow(/square.mjs: it has no function none/);
  });
});
