import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { blocks } from "../../src/data/file-ranges.ts";
import {
  type Column,
  columnFromRanges,
  fileRanges,
  fromColumns,
  gatherRows,
  hostGather,
  loader,
  order,
  type RangeSource,
} from "../../src/data/index.ts";
import { type DType, dtypes, type TypedArray } from "../../src/ir/dtype.ts";
import { datasetLines } from "../../src/train/agree.ts";
import "../../src/train/index.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-ranges-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A column of 32-bit row numbers, and how it was read. */
function counted(rows: number, width: number): { column: Column; reads: [number, number][] } {
  const reads: [number, number][] = [];
  const source: RangeSource = {
    range: async (first, count) => {
      reads.push([first, count]);
      return Float64Array.from({ length: count * width }, (_unused, at) => first * width + at);
    },
    identity: async ({ first, count }, whole) => `${first} ${count} ${whole}`,
  };
  return {
    column: columnFromRanges({ name: "x", shape: [rows, width], dtype: "f64", transform: undefined }, source),
    reads,
  };
}

describe("columnFromRanges", () => {
  test("gives the rows that gathering from memory gives, for any choice of rows", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.nat({ max: 99_999 }), { maxLength: 40 }),
        fc.boolean(),
        async (width, chosen, doubles) => {
          const { column } = counted(100_000, width);
          const rows = doubles ? Float64Array.from(chosen) : Int32Array.from(chosen);
          const expected = gatherRows(column, await column.load(), rows);
          expect((await hostGather(column, rows)).data).toEqual(expected);
        },
      ),
      { numRuns: 40 },
    );
  });

  test.each<[string, number[], [number, number][]]>([
    ["near rows are one read", [7, 5, 9], [[5, 5]]],
    ["rows in order are one read, used as it is", [3, 4, 5], [[3, 3]]],
    ["a row twice is read once", [8, 8, 10], [[8, 3]]],
    [
      "far rows are reads of their own",
      [90_000, 1],
      [
        [1, 1],
        [90_000, 1],
      ],
    ],
    ["no rows are no read", [], []],
  ])("%s", async (_what, rows, expected) => {
    const { column, reads } = counted(100_000, 2);
    await column.read?.(Int32Array.from(rows));
    expect(reads).toEqual(expected);
  });

  test("a batch reads its rows alone, whatever the length of the column", async () => {
    const { column, reads } = counted(2 ** 33, 1);
    const dataset = fromColumns("many", [column]).shuffle({ seed: 3 }).batch(64);
    expect(dataset.batchRows(0, 0).rows).toBeInstanceOf(Float64Array);
    for await (const { rows, columns } of loader(dataset, { gather: hostGather, step: 2 ** 27 - 1, ahead: 1 })) {
      expect(Array.from(columns.get("x")?.data ?? [])).toEqual([...rows]);
      expect(Math.max(...rows)).toBeGreaterThan(2 ** 31);
    }
    expect(reads.reduce((sum, [, count]) => sum + count, 0)).toBeLessThan(100);
  });

  test("rows outside are refused", async () => {
    const { column } = counted(10, 1);
    await expect(hostGather(column, Int32Array.of(10))).rejects.toThrow('row 10 of column "x" is not in [0, 10)');
  });

  test("a source without an identity is refused", () => {
    expect(() => columnFromRanges({ name: "x", shape: [1], dtype: "f32", transform: undefined }, {} as never)).toThrow(
      /range and identity/,
    );
  });
});

test("orders of more than 2^32 rows are permutations", () => {
  const { at } = order(7, 1, 2 ** 40);
  const rows = Array.from({ length: 2000 }, (_unused, index) => at(2 ** 40 - 1 - index));
  expect(new Set(rows).size).toBe(2000);
  expect(rows.every((row) => Number.isInteger(row) && row >= 0 && row < 2 ** 40)).toBe(true);
  // Half of them lie in the upper half.
  expect(rows.filter((row) => row >= 2 ** 39).length).toBeGreaterThan(900);
});

describe("fileRanges", () => {
  const forms: readonly { dtype: DType; short?: "i16" | "u16"; values: TypedArray | Int16Array | Uint16Array }[] = [
    { dtype: "f32", values: Float32Array.of(1, 2.5, -3, 4, 5, 6) },
    { dtype: "f64", values: Float64Array.of(1, 2.5, -3, 4, 5, 6) },
    { dtype: "i32", short: "i16", values: Int16Array.of(1, -2, 3, -4, 5, 32_767) },
    { dtype: "i32", short: "u16", values: Uint16Array.of(1, 2, 3, 4, 5, 65_535) },
    { dtype: "u8", values: Uint8Array.of(1, 2, 3, 4, 5, 255) },
    { dtype: "i64", values: BigInt64Array.of(1n, 2n, 3n, 4n, 5n, -6n) as never },
    { dtype: "bool", values: Uint8Array.of(1, 0, 0, 1, 1, 0) },
  ];
  const cases = forms.flatMap((form) => [false, true].map((bigEndian) => ({ ...form, bigEndian })));
  test.each(cases)("$dtype $short big-endian: $bigEndian", async ({ dtype, short, values, bigEndian }) => {
    const path = join(folder, `${dtype}-${short}-${bigEndian}`);
    const bytes = Buffer.from(new Uint8Array(values.buffer));
    const size = values.BYTES_PER_ELEMENT;
    if (bigEndian) for (let at = 0; at < bytes.length; at += size) bytes.subarray(at, at + size).reverse();
    writeFileSync(path, Buffer.concat([Buffer.from("head"), bytes]));
    const shape = [3, 2];
    const source = fileRanges("test", path, { shape, dtype, start: 4, short, bigEndian });
    const column = columnFromRanges({ name: "x", shape, dtype, transform: undefined }, source);
    const expected = short === undefined ? values : Int32Array.from(values as Int16Array);
    expect(await column.load()).toEqual(expected);
    const chosen = await column.read?.(Int32Array.of(2, 0));
    expect([...(chosen as TypedArray)]).toEqual([...expected.subarray(4), ...expected.subarray(0, 2)]);
    expect(dtypes[dtype].create(0).constructor).toBe(expected.constructor);
  });

  test("a byte that is no bool is named", async () => {
    const path = join(folder, "no-bool");
    writeFileSync(path, Uint8Array.of(0, 1, 2));
    const source = fileRanges("test", path, { shape: [3], dtype: "bool", start: 0 });
    await expect(source.range(1, 2)).rejects.toThrow(/no-bool: element 2 is 2; a bool is stored as 0 or 1/);
  });

  test("identities: a copy has the same, a sampled change another, and the whole hash sees every byte", async () => {
    const rows = 3 * 2 ** 20;
    const content = Buffer.alloc(rows, 7);
    const made = (name: string): Column => {
      const path = join(folder, name);
      writeFileSync(path, content);
      const values = { shape: [rows], dtype: "u8" as const, start: 0 };
      return columnFromRanges({ name: "x", ...values, transform: undefined }, fileRanges("test", path, values));
    };
    const lines = (column: Column, whole = false): Promise<string[]> =>
      datasetLines("data", fromColumns("d", [column]), ["x"], 0, new Map(), whole);
    const first = made("first");
    expect(await lines(made("copy"))).toEqual(await lines(first));
    const covered = [...blocks(rows, false)];
    const unseen = (covered[0]?.[1] as number) + 1;
    content[unseen] = 8;
    const between = made("between");
    expect(await lines(between)).toEqual(await lines(first));
    expect(await lines(between, true)).not.toEqual(await lines(first, true));
    content[unseen] = 7;
    content[covered[5]?.[0] as number] = 8;
    expect(await lines(made("sampled"))).not.toEqual(await lines(first));
  });
});
