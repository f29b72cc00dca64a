/** Tables on servers: their rows, their bytes, and that servers of any number and life keep the same. */
import { optim, random } from "heddle";
import { beforeAll, describe, expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import type { Shard } from "../../src/parameter-server/shards.ts";
import { initialRows } from "../../src/parameter-server/tables/initial-rows.ts";
import { Pages } from "../../src/parameter-server/tables/pages.ts";
import { ownerOf } from "../../src/parameter-server/tables/ring.ts";
import { RowIndex } from "../../src/parameter-server/tables/row-index.ts";
import {
  coalesced,
  floats,
  listsAsBytes,
  parseLists,
  type Rows,
  split,
  summedRows,
} from "../../src/parameter-server/tables/row-lists.ts";
import { Sketch } from "../../src/parameter-server/tables/sketch.ts";
import { type TableShape, type TableSpec, tableFor } from "../../src/parameter-server/tables/table-spec.ts";
import { TableState } from "../../src/parameter-server/tables/table-state.ts";
import { open, started } from "./cluster.ts";

/** Whole numbers from 0 to 2^32 - 1, the same in each run. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  };
}

const shape: TableShape = {
  path: "0.weight",
  count: 1_000_000,
  size: 3,
  dtype: "f64",
  keys: [1, 2, 3, 4],
  std: 1,
  padding: -1,
  admit: 1,
  evict: 0,
  memory: 2 ** 20,
};
const rowsOf = (ids: readonly number[], value: number): Rows => ({
  ids: Int32Array.from(ids),
  values: new Uint8Array(new Float64Array(3 * ids.length).fill(value).buffer),
});
const lists = (ids: readonly number[]): Int32Array<ArrayBuffer> => Int32Array.from(ids);

test("an index of rows agrees with a map, over additions and removals in any order", () => {
  const index = new RowIndex();
  const known = new Map<number, number>();
  const next = numbersFrom(1);
  for (let step = 0; step < 20_000; step++) {
    const id = next() % 3000;
    if (!known.has(id)) {
      index.set(id, step);
      known.set(id, step);
    } else if (next() % 3 > 0) {
      index.delete(id);
      known.delete(id);
    }
    if (step % 500 > 0) continue;
    const all = Array.from({ length: 3000 }, (_unused, asked) => asked);
    expect(all.map((asked) => index.get(asked))).toEqual(all.map((asked) => known.get(asked) ?? -1));
    expect([...index.sorted()]).toEqual([...known.keys()].sort((a, b) => a - b));
  }
  expect(index.size).toBe(known.size);
});

test.each([0, 2 ** 17, 2 ** 30])("records are the same with %d bytes of memory", (budget) => {
  const pages = new Pages(24, budget);
  open.push(pages);
  const next = numbersFrom(2);
  const known = new Map<number, number>();
  let wrong = 0;
  for (let step = 0; step < 30_000; step++) {
    const record = next() % 20_000;
    const [view] = floats(pages.at(record, false), "f64");
    if (view !== (known.get(record) ?? 0)) wrong++;
    known.set(record, step);
    floats(pages.at(record, true), "f64")[0] = step;
  }
  expect(wrong).toBe(0);
  expect(pages.resident).toBeLessThanOrEqual(Math.max(budget, 2 ** 16));
});

test("a count-min sketch never counts too little, and seldom too much", () => {
  const sketch = new Sketch();
  const next = numbersFrom(3);
  const counts = new Map<number, number>();
  let [wrong, few] = [0, 0];
  for (let step = 0; step < 100_000; step++) {
    const id = next() % 50_000;
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    const told = sketch.add(id);
    if (told < Math.min(count, 255)) few++;
    if (told !== count) wrong++;
  }
  expect(few).toBe(0);
  expect(wrong).toBeLessThan(1000);
});

test("servers have equal parts of the rows, and one more server takes rows from each and moves no other", () => {
  const most = 100_000;
  for (const servers of [1, 2, 3, 7, 16]) {
    const [before, after] = [ownerOf(servers), ownerOf(servers + 1)];
    const counts = new Array<number>(servers).fill(0);
    let [moved, elsewhere] = [0, 0];
    for (let id = 0; id < most; id++) {
      const server = before(id);
      counts[server] = (counts[server] as number) + 1;
      if (after(id) === server) continue;
      if (after(id) !== servers) elsewhere++;
      moved++;
    }
    expect(elsewhere).toBe(0);
    expect(Math.max(...counts) / (most / servers)).toBeLessThan(1.3);
    expect(Math.min(...counts) / (most / servers)).toBeGreaterThan(0.7);
    expect(moved / (most / (servers + 1))).toBeLessThan(1.3);
  }
});

test.each(["f32", "f64"] as const)(
  "%s: initial rows are those of random.normal, whichever are asked for",
  async (dtype) => {
    const [key, count, size] = [random.key(7), 200, 5];
    const whole = await random.normal(key, [count, size], { dtype }).data();
    const keys = [...(await random.foldIn(key, 0).data()), ...(await random.foldIn(key, 1).data())].map(Number);
    const initial = initialRows({ keys, std: 1, padding: 3, dtype });
    const into = dtype === "f32" ? new Float32Array(size) : new Float64Array(size);
    for (const id of [199, 0, 3, 42, 0]) {
      initial(id, into, 0, size);
      for (const [column, value] of into.entries())
        expect(value).toBeCloseTo(id === 3 ? 0 : Number(whole[id * size + column]), dtype === "f32" ? 5 : 12);
    }
  },
);

describe("lists of rows", () => {
  test("ids are taken once, in order, with their places; parts of servers make up the list", () => {
    const next = numbersFrom(4);
    const ids = Int32Array.from({ length: 1000 }, () => next() % 300);
    const { list, places } = coalesced(ids);
    expect([...list]).toEqual([...new Set(ids)].sort((a, b) => a - b));
    expect([...places].map((place) => list[place])).toEqual([...ids]);
    const parts = split(list, ownerOf(3), 3);
    const found = parts.lists.flatMap((part, server) =>
      [...part].map((id, at) => [id, (parts.places[server] as Int32Array)[at] as number]),
    );
    for (const [id, place] of found) expect(list[place as number]).toBe(id);
    expect(found).toHaveLength(list.length);
  });

  const bytes = (...words: number[]): Uint8Array => new Uint8Array(Int32Array.from(words).buffer);
  test.each([
    ["a list that is cut", bytes(3, 1, 2), /cut short/],
    ["a negative length", bytes(-1), /cut short/],
    ["bytes that are no words", new Uint8Array(5), /of 5 bytes/],
    ["a row twice", bytes(2, 4, 4), /row 4 after row 4/],
    ["rows out of order", bytes(2, 4, 3), /row 3 after row 4/],
    ["a negative row", bytes(1, -1), /row -1/],
    ["a row beyond the table", bytes(1, 10), /row 10 .* table of 10 rows/],
    ["a list too many", bytes(0, 0), /table that is not there/],
  ])("%s is refused", (_what, given, message) => {
    expect(() => parseLists(given, [10])).toThrow(message);
  });

  test("lists are read as they were written, at any offset", () => {
    const written = listsAsBytes([lists([1, 5]), lists([]), lists([0, 9])]);
    const moved = new Uint8Array(written.length + 1);
    moved.set(written, 1);
    expect(parseLists(moved.subarray(1), [10, 10, 10]).map((list) => [...list])).toEqual([[1, 5], [], [0, 9]]);
  });

  test("rows of several parts are summed with their weights", () => {
    const sum = summedRows(
      [
        { ...rowsOf([1, 3], 2), weight: 0.5 },
        { ...rowsOf([], 0), weight: 1 },
        { ...rowsOf([0, 3], 4), weight: 0.25 },
      ],
      "f64",
    );
    expect([...sum.ids]).toEqual([0, 1, 3]);
    expect([...floats(sum.values, "f64")]).toEqual([1, 1, 1, 1, 1, 1, 2, 2, 2]);
  });
});

describe("a table", () => {
  const runtime = localRuntime({ threads: 1 });
  let sgd: TableSpec;
  beforeAll(async () => {
    sgd = await tableFor(optim.sgd({ learningRate: 1 }), { ...shape, std: 0 });
  });
  const state = (spec: TableSpec): TableState => {
    const table = new TableState(spec, runtime);
    open.push(table);
    return table;
  };
  const valueOf = (table: TableState, id: number): number => floats(table.pull(lists([id])), "f64")[0] as number;

  test("only rows that are pushed exist; others have their initial values", async () => {
    const table = state({ ...sgd, std: 1 });
    const before = [valueOf(table, 5), valueOf(table, 999_999)];
    expect(table.size).toBe(0);
    await table.step(rowsOf([5, 77], -1), { step: 0, rates: [1] });
    expect(table.size).toBe(2);
    expect(valueOf(table, 5)).toBeCloseTo((before[0] as number) + 1, 12);
    expect(valueOf(table, 999_999)).toBe(before[1]);
  });

  test("more rows than a block, and more bytes than memory, give the same as few", async () => {
    const ids = Array.from({ length: 5000 }, (_unused, row) => 7 * row);
    const table = state({ ...sgd, memory: 0 });
    for (let step = 0; step < 3; step++) await table.step(rowsOf(ids, -1), { step, rates: [1] });
    expect([...floats(table.pull(lists(ids)), "f64")]).toEqual(new Array(15_000).fill(3));
  });

  test("a row is created by the push that its admission asks for", async () => {
    const table = state({ ...sgd, admit: 3 });
    for (const [step, expected] of [0, 0, 1, 2].entries()) {
      await table.step(rowsOf([9], -1), { step, rates: [1] });
      expect(valueOf(table, 9)).toBe(expected);
    }
  });

  test("a row that no step touches is removed, and begins anew", async () => {
    const table = state({ ...sgd, evict: 4 });
    await table.step(rowsOf([1, 2], -1), { step: 0, rates: [1] });
    for (let step = 1; step < 8; step++) await table.step(rowsOf([2], -1), { step, rates: [1] });
    expect([valueOf(table, 1), valueOf(table, 2), table.size]).toEqual([0, 8, 1]);
    await table.step(rowsOf([1], -1), { step: 8, rates: [1] });
    expect(valueOf(table, 1)).toBe(1);
  });

  test("a snapshot makes the same table elsewhere, on any number of servers", async () => {
    const adam = await tableFor(optim.adam({ learningRate: 0.1 }), { ...shape, admit: 2 });
    const table = state(adam);
    const next = numbersFrom(5);
    const gradient = (): Rows => {
      const ids = [...new Set(Array.from({ length: 40 }, () => next() % 100))].sort((a, b) => a - b);
      return rowsOf(ids, (next() % 1000) / 1000 - 0.5);
    };
    for (let step = 0; step < 10; step++) await table.step(gradient(), { step, rates: [0.1] });
    const { head, bytes } = table.snapshot();
    const copies = [0, 1, 2].map((server) => {
      const copy = state(adam);
      copy.restore(head, Buffer.concat(bytes), (id) => ownerOf(3)(id) === server);
      return copy;
    });
    expect(copies.reduce((sum, { size }) => sum + size, 0)).toBe(table.size);
    for (let step = 10; step < 15; step++) {
      const { ids, values } = gradient();
      const parts = split(ids, ownerOf(3), 3);
      await table.step({ ids, values }, { step, rates: [0.1] });
      for (const [server, copy] of copies.entries()) {
        const own = parts.lists[server] as Int32Array<ArrayBuffer>;
        await copy.step({ ids: own, values: values.subarray(0, 24 * own.length) }, { step, rates: [0.1] });
      }
    }
    for (let id = 0; id < 100; id++) expect(valueOf(copies[ownerOf(3)(id)] as TableState, id)).toBe(valueOf(table, id));
  });

  test.each([
    ["groups", optim.groups({ "**": optim.sgd({ learningRate: 1 }) }), /groups are chosen among all parameters/],
    ["adafactor", optim.adafactor({ learningRate: 1 }), /a state that is not of rows|needs others/],
  ])("%s is refused", async (_what, optimizer, message) => {
    await expect(tableFor(optimizer, shape)).rejects.toThrow(message);
  });
});

describe.each([1, 3])("%d servers", (count) => {
  const empty = { params: [], slots: [], program: "", rates: 1 };
  const shardsWith = (table: TableSpec): Shard[] =>
    Array.from({ length: count }, (_unused, index) => ({ ...empty, tables: [table], index, count }));

  test.each(["bsp", "async", "dynsgd"])("%s: rows of two workers are summed once, also over lives", async (policy) => {
    const spec = await tableFor(optim.sgd({ learningRate: 1 }), { ...shape, std: 0 });
    const { client, servers, start } = await started(count, { workers: 2 });
    const work = async (worker: number): Promise<number[]> => {
      const own = client(worker);
      await own.open(shardsWith(spec), { policy });
      if (worker === 0) await own.load(new Map(), new Map(), 0, "begun");
      await own.start();
      let begun = await own.clock(0, 0);
      const ids = Array.from({ length: 100 }, (_unused, row) => 3 * row + worker);
      for (let clock = 0; clock < 6; clock++) {
        await own.pullRows(begun.version, [lists(ids)]);
        await own.push(clock, new Map(), [1], [rowsOf(ids, -1)]);
        if (clock === 3 && worker === 0 && count > 1) {
          await servers[1]?.close();
          await start(1, 1);
        }
        begun = await own.clock(clock + 1, 1);
      }
      await own.leave();
      const version = await own.finish();
      const { rows } = await own.pullRows(version, [lists([0, 1, 2, 3, 4, 297, 298])]);
      return [...floats(rows[0] as Uint8Array, "f64")].filter((_value, index) => index % 3 === 0);
    };
    const results = await Promise.all([work(0), work(1)]);
    const each = policy === "async" ? 6 : 3;
    for (const result of results) expect(result).toEqual([each, each, 0, each, each, each, each]);
  });
});
