import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import {
  balanced,
  csv,
  fileRanges,
  fromRows,
  images,
  jsonLines,
  libsvm,
  type RecordBatches,
  type Records,
  split,
  streamed,
  text,
  toDataset,
} from "../../src/data/index.ts";
import "../../src/train/index.ts";
import type { DType } from "../../src/ir/dtype.ts";
import { HeddleError } from "../../src/util/errors.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-refused-"));
afterAll(() => rmSync(folder, { recursive: true }));
/** A file of the folder. */
const file = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

const first = async <Row>(batches: RecordBatches<Row>) => {
  for await (const { columns } of batches.host()) return columns;
  return {};
};
const ofY = (...values: readonly unknown[]): Records<{ y: unknown }> => fromRows(values.map((y) => ({ y })));

describe("values that a dtype does not have", () => {
  test.each<[string, readonly unknown[], DType | undefined, RegExp]>([
    ["NaN", [0, Number.NaN], "i32", /record 1: column "y": NaN is not a value of i32/],
    ["a fraction", [0, 1.9], "i32", /record 1: column "y": 1.9 is not a value of i32/],
    ["above u8", [300], "u8", /record 0: column "y": 300 is not a value of u8/],
    ["below u8", [1, 2, -1], "u8", /record 2: column "y": -1 is not a value of u8/],
    ["above i32", [2 ** 31], "i32", /2147483648 is not a value of i32/],
    ["a fraction of i64", [1.5], "i64", /1.5 is not a value of i64/],
    ["a bigint above 64 bits", [2n ** 70n], undefined, /is not a value of i64/],
    ["a truth value of 2", [true, 2], undefined, /record 1: column "y": 2 is not a value of bool/],
    [
      "a vector's value",
      [
        [0, 1],
        [2, 3.5],
      ],
      "i32",
      /record 1: column "y": value 1: 3.5 is not a value of i32/,
    ],
    ["a text in a vector", [[0, "a"]], undefined, /value 1: "?a"? is not a number/],
    ["a typed vector of another dtype", [Float32Array.of(0.5)], "u8", /value 0: 0.5 is not a value of u8/],
    ["too large for f32", [1e39], undefined, /1e\+39 is too large for f32/],
    ["too large for a named f32", [1e39], "f32", /1e\+39 is too large for f32/],
    [
      "a whole number that f32 cannot hold",
      [1, 16_777_217],
      undefined,
      /record 1: column "y": f32 holds 16777216 .* 16777217\n.*dtypes: \{ y: "f64"/s,
    ],
    ["such a number in a vector", [[1, 16_777_217]], undefined, /value 1: f32 holds 16777216/],
    ["texts", ["a"], "i32", /column "y" is string, which dtypes cannot make i32 of/],
    ["an unknown dtype", [1], "i31" as DType, /column "y": dtype "i31" is unknown/],
  ])("%s", async (_what, values, dtype, message) => {
    const dtypes = dtype === undefined ? {} : { dtypes: { y: dtype } };
    await expect(first(ofY(...values).batch(10, dtypes))).rejects.toThrow(message);
    await expect(toDataset(ofY(...values), dtypes)).rejects.toThrow(message);
  });
  test("what fits is taken, rounded where a float is named", async () => {
    const values = async (given: readonly unknown[], dtype?: DType) => {
      const { y } = (await first(
        ofY(...given).batch(10, dtype === undefined ? {} : { dtypes: { y: dtype } }),
      )) as unknown as {
        y: { data: ArrayLike<number>; dtype: DType };
      };
      return [y.dtype, ...Array.from(y.data)];
    };
    expect(await values([16_777_217, 0.1], "f32")).toEqual(["f32", 16_777_216, Math.fround(0.1)]);
    expect(await values([Number.NaN, 1e20, -0, Number.POSITIVE_INFINITY])).toEqual([
      "f32",
      Number.NaN,
      Math.fround(1e20),
      -0,
      Number.POSITIVE_INFINITY,
    ]);
    expect(await values([16_777_217], "i32")).toEqual(["i32", 16_777_217]);
    expect(await values([true, 0, 1])).toEqual(["bool", 1, 0, 1]);
    expect(await values([1, 2n], "i64")).toEqual(["i64", 1n, 2n]);
    expect(await values([1 / 3], "bf16")).toEqual(["bf16", 0.333984375]);
    expect(await values([-0, 255], "u8")).toEqual(["u8", 0, 255]);
  });
  test("typed columns are converted by the same rule", async () => {
    const typed = (values: Int32Array | BigInt64Array) => async (dtype: DType) => {
      const records = ofY(...values);
      const { node } = records;
      const piece = { length: values.length, columns: { y: values } };
      const source = Object.assign(Object.create(Object.getPrototypeOf(records)), {
        node: {
          ...node,
          read: async function* () {
            yield piece;
          },
        },
      }) as typeof records;
      return first(source.batch(10, { dtypes: { y: dtype } }));
    };
    await expect(typed(Int32Array.of(1, 300))("u8")).rejects.toThrow(/record 1: column "y": 300 is not a value of u8/);
    expect(await typed(BigInt64Array.of(7n))("f32")).toMatchObject({ y: { dtype: "f32", data: Float32Array.of(7) } });
  });
  test("a stream keeps the rule for later records", async () => {
    const rows = Int32Array.of(1);
    const read = async (...values: readonly unknown[]) => {
      const column = (await streamed(ofY(...values))).columns.get("y");
      return column?.read?.(rows, { epoch: 0, seed: 0 });
    };
    await expect(read(1, 16_777_217)).rejects.toThrow(/record 1: column "y": f32 holds 16777216/);
    await expect(read(1, true)).rejects.toThrow(/column "y" is bool, the first record's f32/);
  });
});

const halves = { train: 0.5, test: 0.5 };

describe("options that do not fit", () => {
  test.each<[string, () => unknown, RegExp]>([
    [
      "dtypes of no column",
      () => first(ofY(1).batch(1, { dtypes: { z: "i32" } as never })),
      /dtypes names "z", which the records do not have\n.*columns are y/s,
    ],
    [
      "dtypes of no column of a dataset",
      () => toDataset(ofY(1), { dtypes: { z: "i32" } as never }),
      /toDataset: dtypes names "z"/,
    ],
    [
      "transforms of no column",
      () => toDataset(ofY(1), { transforms: { z: { dtype: "f32" } } as never }),
      /transforms names "z"/,
    ],
    [
      "a pad that the dtype does not have",
      () => first(ofY([1], [2, 3]).batch(2, { pad: -1, dtypes: { y: "u8" } })),
      /pad: column "y" is u8; -1 is not a value of u8/,
    ],
    [
      "a longer stream than its records",
      () => streamed(ofY(1, 2, 3, 4, 5), { length: 9 }),
      /streamed: length is 9, but there are 5 records/,
    ],
    [
      "missing as a text",
      () => csv("a.csv", { missing: "NA" } as never),
      /csv: missing must be a list of texts, got "NA"\n.*missing: \["NA"\]/s,
    ],
    [
      "header: false",
      () => csv("a.csv", { header: false } as never),
      /csv: header must be true or a list of names, got false\n.*header: \[/s,
    ],
    ["columns as a list", () => csv("a.csv", { columns: ["a"] } as never), /csv: columns/],
    [
      "an unknown type of a column",
      () => csv("a.csv", { columns: { a: "int" } } as never),
      /type of column "a" must be one of f32.*got "int"/,
    ],
    ["a long separator", () => csv("a.csv", { separator: ", " }), /separator must be one character/],
    [
      "columns of JSON as a text",
      () => jsonLines("a.jsonl", { columns: "a" } as never),
      /jsonLines: columns must be a list of texts/,
    ],
    [
      "a size of one number",
      () => images(folder, { size: 8 } as never),
      /images: size must be \[height, width\], got 8/,
    ],
    ["an unknown policy of images", () => images(folder, { onBad: "drop" } as never), /images: onBad must be/],
    ["features of libsvm", () => libsvm("a.txt", {} as never), /libsvm: features must be a number/],
    [
      "a group by name",
      () => split(ofY(1, 2), halves, { group: "y" } as never),
      /split: group must be a function of a record, got "y"\n.*row\.y/s,
    ],
    ["no shares", () => split(ofY(1), undefined as never), /split: shares/],
    [
      "buckets without bounds",
      () => ofY([1]).batch(1, { buckets: { column: "y" } as never }),
      /batch: buckets must be/,
    ],
    ["dtypes as a text", () => ofY(1).batch(1, { dtypes: "i32" as never }), /batch: dtypes/],
    ["classes by name", () => balanced(ofY(1), "y" as never), /balanced: takes a function/],
    [
      "no key of a group",
      () => split(ofY(1, undefined), halves, { group: ({ y }) => y as string }),
      /split: group of record 1 is undefined/,
    ],
    [
      "NaN as a class",
      () => split(ofY(Number.NaN), halves, { stratify: ({ y }) => y as number }),
      /split: stratify of record 0 is NaN/,
    ],
    [
      "a date in the place of a time",
      () => split(ofY("2020-01-01"), halves, { time: ({ y }) => y as number }),
      /split: time of record 0 is "2020-01-01"\n.*getTime/s,
    ],
    [
      "a class that is not there",
      () => balanced(ofY(1, null), ({ y }) => y as number),
      /balanced: the class of record 1 is null/,
    ],
    [
      "a part without records",
      () => split(ofY(1, 1, 1), halves, { group: ({ y }) => y as number }),
      /split: the part "test" of 3 records has none\n.*group keeps records together/s,
    ],
    [
      "a split of nothing",
      () => split(ofY(), halves, { stratify: ({ y }) => y as number }),
      /split: there are no records/,
    ],
    [
      "more rows than the file has",
      () => fileRanges("rows", file("short", new Uint8Array(15)), { shape: [4], dtype: "f32", start: 0 }),
      /rows: .*short is too short: 4 rows of 4 bytes from byte 0 on need 16, it has 15/,
    ],
  ])("%s", async (_what, run, message) => {
    const error = await Promise.resolve()
      .then(run)
      .then(
        () => undefined,
        (reason: unknown) => reason,
      );
    expect(error).toBeInstanceOf(HeddleError);
    expect((error as HeddleError).message).toMatch(message);
  });
});

test("ragged vectors are lists, also where they are equally long", async () => {
  expect(await first(ofY([1], [2]).batch(2, { ragged: true }))).toEqual({ y: [[1], [2]] });
  const made = await first(ofY([1], [2, 3]).batch(2, { ragged: true, dtypes: { y: "i32" } }));
  expect(made).toEqual({ y: [Int32Array.of(1), Int32Array.of(2, 3)] });
});

describe("files", () => {
  const mebibyte = 2 ** 20;
  test.each<[string, string | Uint8Array, RegExp]>([
    [
      "UTF-16 with a mark",
      Buffer.from("\uFEFFa,b\n1,2\n", "utf16le"),
      /utf.csv is UTF-16; text files are read as UTF-8/,
    ],
    ["UTF-16 with a mark, the other order", Buffer.from("\uFEFFa,b\n", "utf16le").swap16(), /utf.csv is UTF-16/],
    ["UTF-16 without a mark", Buffer.from("a,b\n1,2\n", "utf16le"), /utf.csv is UTF-16/],
  ])("%s", async (_what, content, message) => {
    const path = file("utf.csv", content);
    await expect(csv(path).toArray()).rejects.toThrow(message);
    await expect(text(path).toArray()).rejects.toThrow(message);
  });
  test("a field of more than 64 MiB is malformed, quoted or not, one below is read", async () => {
    const path = join(folder, "long.csv");
    const rows = async (bytes: number, quote = '"') => {
      file(
        "long.csv",
        Buffer.concat([Buffer.from(`a\n${quote}`), Buffer.alloc(bytes, "x"), Buffer.from(`${quote}\ny\n`)]),
      );
      return (await csv(path, { columns: { a: "text" }, onBad: "skip" }).toArray()).map(({ a }) => a.length);
    };
    expect(await rows(63 * mebibyte)).toEqual([63 * mebibyte, 1]);
    expect(await rows(65 * mebibyte)).toEqual([1]);
    expect(await rows(90 * mebibyte, "")).toEqual([1]);
  });
  test.each<[string, string, object, unknown]>([
    ["whole numbers that f32 cannot hold, with a missing one", "a,b\n16777217,1\n,1\n", {}, /^f64 16777217,NaN$/],
    ["a large number after a fraction", "a\n0.5\n16777217\n", {}, /^f64 0.5,16777217$/],
    ["small ones", "a\n0.5\n7\n", {}, /^f32 0.5,7$/],
    ["f32 that is named", "a\n16777217\n", { columns: { a: "f32" } }, /^f32 16777216$/],
    ["one that is too large for f32", "a\n1e39\n0.5\n", {}, /^f64 1e\+39,0.5$/],
    [
      "one that is too large for a named f32",
      "a\n1e39\n",
      { columns: { a: "f32" } },
      /line 2, column "a": "1e39" is too large for f32/,
    ],
    [
      "one behind the records that say the type",
      `a\n${"0.5\n".repeat(1000)}16777217\n`,
      {},
      /line 1002, column "a": f32 holds 16777216 in the place of 16777217[\s\S]*name another: types: { "a": "f64" }/,
    ],
  ])("numbers of CSV: %s", async (_what, content, options, expected) => {
    const found = await first(csv(file("numbers.csv", content), options).batch(2000)).then(
      (columns) => {
        const { dtype, data } = (columns as unknown as { a: { dtype: DType; data: Float64Array } }).a;
        return `${dtype} ${data}`;
      },
      (error: Error) => error.message,
    );
    expect(found).toMatch(expected as RegExp);
  });
  test("columns with names of prototypes", async () => {
    const records = csv(file("names.csv", "__proto__,constructor\n1,2\n"));
    const [row] = await records.toArray();
    expect(Object.entries(row as object)).toEqual([
      ["__proto__", 1],
      ["constructor", 2],
    ]);
    const again = await records
      .map((own) => own)
      .zip(ofY(7))
      .toArray();
    expect(Object.entries(again[0] as object)).toEqual([
      ["__proto__", 1],
      ["constructor", 2],
      ["y", 7],
    ]);
    const dataset = await toDataset(records, { dtypes: { constructor: "u8" } as never, transforms: {} });
    expect([...dataset.columns.values()].map(({ name, dtype }) => [name, dtype])).toEqual([
      ["__proto__", "i32"],
      ["constructor", "u8"],
    ]);
  });
});
