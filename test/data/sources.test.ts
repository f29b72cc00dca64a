import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { tableFromArrays, tableToIPC } from "apache-arrow";
import { parquetWriteBuffer } from "hyparquet-writer";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  arrow,
  csv,
  images,
  jsonLines,
  libsvm,
  matrixMarket,
  openCsv,
  openParquet,
  type Places,
  parquet,
  streamed,
  text,
  tfrecord,
} from "../../src/data/index.ts";
import { crc32c } from "../../src/data/sources/crc32c.ts";
import { numberIn } from "../../src/data/sources/numbers.ts";
import { HeddleError } from "../../src/util/errors.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-sources-"));
afterAll(() => rmSync(folder, { recursive: true }));
const range = (count: number): number[] => Array.from({ length: count }, (_unused, at) => at);

/** What the tests ask of records, whatever their columns. */
interface Source {
  read(options?: object): AsyncIterable<object>;
  shuffle(options: { readonly window: number }): Source;
}

/** A format: how some numbers are written to a file, and how they are read again. */
interface Form {
  readonly name: string;
  readonly write: (numbers: readonly number[]) => Uint8Array | string;
  readonly read: (places: Places, onBad?: "skip") => Source;
  /** The number of a record. */
  readonly numberOf: (row: never) => number;
  /** A record that is malformed, as text in the place of record 2; undefined where one cannot be told from the others. */
  readonly bad?: (file: Uint8Array) => Uint8Array;
  /** Where the error of the bad record is. */
  readonly place?: RegExp;
  readonly compressed?: false;
}

const replaced = (from: string, to: string) => (file: Uint8Array) =>
  Buffer.from(Buffer.from(file).toString("latin1").replace(from, to), "latin1");

const tfRecords = (numbers: readonly number[]): Buffer =>
  Buffer.concat(
    numbers.map((number) => {
      const data = Buffer.from(`n${number}`);
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(data.length));
      const crc = (bytes: Uint8Array): Buffer => {
        const sum = crc32c(bytes);
        const out = Buffer.alloc(4);
        out.writeUInt32LE((((sum >>> 15) | (sum << 17)) + 0xa282ead8) >>> 0);
        return out;
      };
      return Buffer.concat([length, crc(length), data, crc(data)]);
    }),
  );

const forms: readonly Form[] = [
  {
    name: "csv",
    write: (numbers) => `n,name\r\n${numbers.map((n) => `${n},"a, ""${n}"""\r\n`).join("")}`,
    read: (places, onBad = "fail" as never) => csv(places, { columns: { n: "i32", name: "text" }, onBad }),
    numberOf: ({ n, name }: { n: number; name: string }) => (name === `a, "${n}"` ? n : -1),
    bad: replaced("\n2,", "\ntwo,"),
    place: /csv-bad, line 4, column "n": "two" is not a number/,
  },
  {
    name: "jsonLines",
    write: (numbers) => numbers.map((n) => `${JSON.stringify({ n, list: [n] })}\n`).join(""),
    read: (places, onBad = "fail" as never) => jsonLines(places, { onBad }),
    numberOf: ({ n, list }: { n: number; list: number[] }) => (list[0] === n ? n : -1),
    bad: replaced('{"n":2,', '{"n":2;'),
    place: /jsonLines-bad, line 3: /,
  },
  {
    name: "text",
    write: (numbers) => numbers.map((n) => `${n}\n`).join("\n"),
    read: (places) => text(places),
    numberOf: ({ text: line }: { text: string }) => Number(line),
  },
  {
    name: "libsvm",
    write: (numbers) => `# numbers\n${numbers.map((n) => `1 1:${n} 3:-0.5 # ${n}\n`).join("")}`,
    read: (places, onBad = "fail" as never) => libsvm(places, { features: 3, onBad }),
    numberOf: ({ x, y }: { x: Float32Array; y: number }) => (y === 1 && x[2] === -0.5 ? (x[0] as number) : -1),
    bad: replaced("1 1:2 ", "1 4:2 "),
    place: /libsvm-bad, line 4: index 4 is not in \[1, 3\]/,
  },
  {
    name: "matrixMarket",
    write: (numbers) =>
      `%%MatrixMarket matrix coordinate real general\n% comment\n9 9 ${numbers.length}\n${numbers.map((n) => `1 2 ${n}\n`).join("")}`,
    read: (places, onBad = "fail" as never) => matrixMarket(places, { onBad }),
    numberOf: ({ row, column, value }: { row: number; column: number; value: number }) =>
      row === 0 && column === 1 ? value : -1,
    bad: replaced("1 2 2\n", "1 10 2\n"),
    place: /matrixMarket-bad, line 6: entry 1, 10 is outside/,
  },
  {
    name: "tfrecord",
    write: tfRecords,
    read: (places, onBad = "fail" as never) => tfrecord(places, { onBad }),
    numberOf: ({ bytes }: { bytes: Uint8Array }) => Number(Buffer.from(bytes).toString().slice(1)),
    bad: replaced("n2", "n7"),
    place: /tfrecord-bad, record 2: the checksum of its bytes is wrong/,
  },
  {
    name: "parquet",
    write: (numbers) =>
      new Uint8Array(
        parquetWriteBuffer({
          columnData: [
            { name: "n", data: numbers as number[], type: "INT32" },
            { name: "f", data: numbers.map((n) => n / 2), type: "DOUBLE" },
          ],
          rowGroupSize: 40,
        }),
      ),
    read: (places) => parquet(places),
    numberOf: ({ n, f }: { n: number; f: number }) => (f === n / 2 ? n : -1),
    compressed: false,
  },
  {
    name: "arrow",
    write: (numbers) =>
      tableToIPC(tableFromArrays({ n: Int32Array.from(numbers), f: Float64Array.from(numbers) }), "file"),
    read: (places) => arrow(places),
    numberOf: ({ n, f }: { n: number; f: number }) => (f === n ? n : -1),
    compressed: false,
  },
];

/** A zstd frame of raw blocks. */
function zstd(bytes: Uint8Array): Buffer {
  const blocks: Buffer[] = [Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58)];
  for (let from = 0; from < bytes.length; from += 1000) {
    const part = bytes.subarray(from, from + 1000);
    const header = (part.length << 3) | Number(from + 1000 >= bytes.length);
    blocks.push(Buffer.of(header & 255, (header >> 8) & 255, header >> 16), Buffer.from(part));
  }
  return Buffer.concat(blocks);
}

let server: Server;
let address: string;
beforeAll(async () => {
  server = createServer((request, response) => {
    const bytes = readFileSync(join(folder, basename(request.url ?? "")));
    const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
    const end = Math.min(bytes.length - 1, to === "" ? bytes.length - 1 : Number(to));
    response.writeHead(206, { "content-range": `bytes ${from}-${end}/${bytes.length}` });
    response.end(bytes.subarray(Number(from), end + 1));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

describe.each(forms)("$name", ({ name, write, read, numberOf, bad, place, compressed }) => {
  const file = (ending: string, bytes: Uint8Array | string): string => {
    const path = join(folder, `${name}-${ending}`);
    writeFileSync(path, bytes);
    return path;
  };
  const numbers = async (records: Source, options = {}): Promise<number[]> => {
    const found: number[] = [];
    for await (const row of records.read(options)) found.push(numberOf(row as never));
    return found;
  };
  const bytes = Buffer.from(write(range(100)));

  test("gives the records of a file, from any of them on", async () => {
    const records = read(file("all", bytes));
    expect(await numbers(records)).toEqual(range(100));
    for (const from of [1, 39, 40, 99, 100]) expect(await numbers(records, { from })).toEqual(range(100).slice(from));
  });

  test("reads several files by a pattern, in the order of their names, and shuffles them", async () => {
    for (const part of range(3)) file(`part${part}`, write(range(100).slice(part * 30, part * 30 + 30)));
    const records = read(join(folder, `${name}-part*`));
    expect(await numbers(records)).toEqual(range(90));
    const shuffled = await numbers(records.shuffle({ window: 20 }), { seed: 1 });
    expect([...shuffled].sort((one, other) => one - other)).toEqual(range(90));
    expect(shuffled).not.toEqual(range(90));
    expect(await numbers(records.shuffle({ window: 20 }), { seed: 1, from: 33 })).toEqual(shuffled.slice(33));
  });

  test("reads behind HTTP by ranges", async () => {
    file("served", bytes);
    expect(await numbers(read(`${address}/${name}-served`))).toEqual(range(100));
  });

  test.skipIf(compressed === false).each([
    ["gzip", gzipSync],
    ["zstd", zstd],
  ])("reads %s, and refuses what is damaged", async (kind, compress) => {
    const whole = compress(bytes);
    expect(await numbers(read(file(kind, whole)))).toEqual(range(100));
    await expect(numbers(read(file(`${kind}-cut`, whole.subarray(0, whole.length - 9))))).rejects.toThrow(HeddleError);
  });

  test.skipIf(bad === undefined)("a malformed record is named, or left out", async () => {
    const path = file("bad", (bad as NonNullable<typeof bad>)(bytes));
    await expect(numbers(read(path))).rejects.toThrow(place);
    expect(await numbers(read(path, "skip"))).toEqual(range(100).filter((number) => number !== 2));
  });

  test("a file that is not there, and a pattern without a file", () => {
    expect(() => read(join(folder, "none-*"))).toThrow(/no file has a name like/);
    return expect(numbers(read(join(folder, "none")))).rejects.toThrow(/cannot read .*none: no such file/);
  });

  test("50 damaged files: records, or an error of a file", async () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((seed / 2 ** 32) * below);
    };
    for (const damage of range(50)) {
      const copy = damage % 2 === 0 ? bytes.subarray(0, random(bytes.length)) : Buffer.from(bytes);
      if (damage % 2 === 1) for (let change = 0; change < 3; change++) copy[random(copy.length)] = random(256);
      const path = file("damaged", copy);
      // The error is one of Heddle's, whose text names the file; never another, and never a silent end of the process.
      const error = await numbers(read(path)).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (error === undefined) continue;
      expect(error).toBeInstanceOf(HeddleError);
      expect((error as HeddleError).message).toContain("damaged");
    }
  });
});

describe("csv by RFC 4180", () => {
  const rows = async (content: string | Uint8Array, options = {}): Promise<unknown[]> => {
    const path = join(folder, "rfc.csv");
    writeFileSync(path, content);
    return csv(path, options).toArray();
  };
  test.each<[string, string | Uint8Array, object, unknown[]]>([
    [
      "line ends of all kinds, a blank line, no end",
      "a,b\n1,x\r\n\n2,y\r3,z",
      {},
      [
        { a: 1, b: "x" },
        { a: 2, b: "y" },
        { a: 3, b: "z" },
      ],
    ],
    ["quotes, and what is in them", 'a,b\n"1","x, ""y""\n z"\n', {}, [{ a: 1, b: 'x, "y"\n z' }]],
    ["a mark of byte order", "\uFEFFa\n1\n", {}, [{ a: 1 }]],
    [
      "types: whole, large, fraction, missing, truth, text",
      "a,b,c,d,e,f\n1,9999999999,.5,,true,é\n-2,1,1e3,7,FALSE,\n",
      {},
      [
        { a: 1, b: 9_999_999_999, c: 0.5, d: Number.NaN, e: true, f: "é" },
        { a: -2, b: 1, c: 1000, d: 7, e: false, f: "" },
      ],
    ],
    ["no header, tabs", "1\tx\n", { header: ["n", "s"], separator: "\t" }, [{ n: 1, s: "x" }]],
    [
      "missing values by name",
      "a,b\nNA,NA\n1,b\n",
      { missing: ["NA"], columns: { a: "f64", b: "text" } },
      [
        { a: Number.NaN, b: "" },
        { a: 1, b: "b" },
      ],
    ],
    ["64-bit integers", "a\n9223372036854775807\n", { columns: { a: "i64" } }, [{ a: 9_223_372_036_854_775_807n }]],
    [
      "a name of a prototype",
      "__proto__,constructor\n1,2\n",
      { columns: { constructor: "i32" } },
      [{ constructor: 2 }],
    ],
    ["only a header", "a,b\n", {}, []],
    [
      "whole numbers that f64 cannot hold are i64",
      "a\n9007199254740992\n9007199254740993\n",
      {},
      [{ a: 9_007_199_254_740_992n }, { a: 9_007_199_254_740_993n }],
    ],
    [
      "where one is missing, or beyond i64, they are text",
      "a,b\n9007199254740993,99999999999999999999\n,1\n",
      {},
      [
        { a: "9007199254740993", b: "99999999999999999999" },
        { a: "", b: "1" },
      ],
    ],
    [
      "large numbers as JavaScript prints them are numbers",
      "a\n12345678901234567000\n",
      {},
      [{ a: 12345678901234567000 }],
    ],
    ["all numbers as f64", "a,b,c\n1,0.1,x\n", { numbers: "f64" }, [{ a: 1, b: 0.1, c: "x" }]],
    ["types of some columns", "a,b\n1,2\n", { types: { a: "text" } }, [{ a: "1", b: 2 }]],
    [
      "a record that is not UTF-8 is left out",
      Buffer.from('a\ncaf\xe9\n"x\ny"\n', "latin1"),
      { onBad: "skip" },
      [{ a: "x\ny" }],
    ],
  ])("%s", async (_what, content, options, expected) => {
    expect(await rows(content, options)).toEqual(expected);
  });
  test.each<[string, string | Uint8Array, object, RegExp]>([
    ["too few fields", "a,b\n1,2\n3\n", {}, /rfc.csv, line 3: it has 1 field, the file has 2 columns/],
    ["a quote left open", 'a\n"1\n2\n', {}, /line 2: a quote is left open/],
    ["text after a quote", 'a,b\n"1"x,2\n', {}, /line 2: a quoted field goes on after its quote/],
    [
      "lines are counted within quotes",
      'a,b\n"x\ny",1\n"z",w\n',
      { columns: { b: "i32" } },
      /line 4, column "b": "w" is not a number/,
    ],
    ["a fraction among integers", "a\n1.5\n", { columns: { a: "i32" } }, /column "a": "1.5" is not a value of i32/],
    [
      "a missing integer",
      "a,b\n,1\n",
      { columns: { a: "i32" } },
      /column "a": a value is missing, which i32 cannot hold/,
    ],
    [
      "a column that is not there",
      "a\n1\n",
      { columns: { b: "i32" } },
      /has no column "b"\n.*hint: its columns are a/s,
    ],
    ["a name twice", "a,a\n1,2\n", {}, /two columns have the name "a"/],
    ["an empty file", "", {}, /it is empty/],
    [
      "Latin-1",
      Buffer.from('a,b\n"x\ny",1\ncaf\xe9,2\n', "latin1"),
      {},
      /line 4: its bytes are not UTF-8[\s\S]*hint: .*iconv/,
    ],
    ["a header in Latin-1", Buffer.from("caf\xe9\n1\n", "latin1"), {}, /line 1: its bytes are not UTF-8/],
    ["Latin-1 after a carriage return", Buffer.from("a\r1\r\xe9\r2", "latin1"), {}, /line 3: its bytes are not UTF-8/],
    [
      "a late fraction",
      `a\n${range(1200).join("\n")}\n1.5\n`,
      {},
      /line 1202, column "a": "1.5" is not a value of i32[\s\S]*the first 1,000 records; name another: types: { "a": "f64" }/,
    ],
    [
      "a late word",
      `a\n${range(1200).join("\n")}\nNA\n`,
      { numbers: "f64" },
      /"NA" is not a number[\s\S]*types: { "a": "text" }, or say what means a missing value: missing: \["", "NA"\]/,
    ],
    [
      "a late whole number that f64 cannot hold",
      `a\n${range(1200).join("\n")}\n9007199254740993\n`,
      { numbers: "f64" },
      /f64 holds 9007199254740992 in the place of 9007199254740993[\s\S]*"i64"/,
    ],
    ["an unknown type of all numbers", "a\n1\n", { numbers: "i32" }, /numbers must be "f32" or "f64"/],
    ["an unknown type of a column", "a\n1\n", { types: { a: "u16" } }, /the type of column "a" must be one of/],
    ["types beside columns", "a\n1\n", { types: { a: "f32" }, columns: { a: "f32" } }, /columns names all types/],
    ["types of a column that is not there", "a\n1\n", { types: { b: "f32" } }, /has no column "b"/],
    ["too many fields", `a\n${",".repeat(70_000)}\n`, {}, /line 2: it has more than 65536 fields/],
  ])("%s", async (_what, content, options, message) => {
    await expect(rows(content, options)).rejects.toThrow(message);
  });
  test("a file without records has its columns", async () => {
    const path = join(folder, "header.csv");
    writeFileSync(path, "a,b\n");
    const found: unknown[] = [];
    for await (const { length, columns } of csv(path).pieces()) found.push([length, Object.keys(columns)]);
    expect(found).toEqual([[0, ["a", "b"]]]);
  });
  test("blocks: records of any length across their ends", async () => {
    const content = `a,b\n${range(3000)
      .map((n) => `${n},"${"x\n".repeat(n % 700)}"\n`)
      .join("")}`;
    const found = (await rows(content)) as { a: number; b: string }[];
    expect(found.every(({ a, b }, n) => a === n && b.length === 2 * (n % 700))).toBe(true);
    expect(found.length).toBe(3000);
  });
});

test("numbers of bytes are those of texts", () => {
  const texts = [
    "0",
    "-0",
    "1.",
    ".5",
    "123456789012345",
    "0.1",
    "3.14159265358979",
    "1e308",
    "1e400",
    "-2.5E-3",
    "12345678901234567890.123",
    " 7 ",
    "+8",
    "inf",
    "-Infinity",
  ];
  const odd = ["", "-", ".", "1.2.3", "0x10", "1e", "abc", "1 2", "١"];
  const given = (text: string): number => {
    const bytes = Buffer.from(text);
    return numberIn(bytes, 0, bytes.length);
  };
  expect(texts.map(given)).toEqual(texts.map((text) => Number(text.replace(/inf(inity)?/i, "Infinity"))));
  expect(odd.map(given).every(Number.isNaN)).toBe(true);
});

test("lines that are not UTF-8 are errors with their place, or left out", async () => {
  const path = join(folder, "latin.jsonl");
  writeFileSync(path, Buffer.from('{"a":1}\n{"a":"\xe9"}\n{"a":3}\nno\n', "latin1"));
  await expect(jsonLines(path).toArray()).rejects.toThrow(/latin.jsonl, line 2: its bytes are not UTF-8/);
  await expect(text(path).toArray()).rejects.toThrow(/latin.jsonl, line 2: its bytes are not UTF-8/);
  expect(await text(path, { onBad: "skip", empty: true }).toArray()).toEqual(
    ['{"a":1}', '{"a":3}', "no"].map((line) => ({ text: line })),
  );
  const told: string[] = [];
  const onBad = (error: Error): void => {
    told.push(/line \d/.exec(error.message)?.[0] ?? "");
  };
  expect(await jsonLines(path, { onBad }).toArray()).toEqual([{ a: 1 }, { a: 3 }]);
  expect(told).toEqual(["line 2", "line 4"]);
});

test("deep JSON and prototypes of JSON do no harm", async () => {
  const path = join(folder, "hostile.jsonl");
  writeFileSync(path, `{"a":1,"__proto__":{"polluted":1}}\n${"[".repeat(100_000)}\n`);
  const [first] = await jsonLines(path, { onBad: "skip" }).toArray();
  expect([(first as { a: number }).a, ({} as { polluted?: number }).polluted]).toEqual([1, undefined]);
  await expect(jsonLines(path).toArray()).rejects.toThrow(/line 2: it is nested deeper than 64/);
});

test("openParquet knows the number of rows, and streams into a dataset", async () => {
  const path = join(folder, "rows.parquet");
  const form = forms.find(({ name }) => name === "parquet") as Form;
  writeFileSync(path, form.write(range(100)));
  const records = await openParquet<{ n: number; f: number }>(path, { columns: ["n"] });
  expect(records.length).toBe(100);
  const dataset = await streamed(records.shuffle({ window: 30 }));
  expect([dataset.length, dataset.columns.get("n")?.shape]).toEqual([100, [100]]);
  await expect(parquet(path, { columns: ["m"] }).toArray()).rejects.toThrow(/has no column "m"/);
});

test("images: a class for each folder, in one size, in any order; a file that is no image is named", async () => {
  const root = join(folder, "pets");
  for (const [at, kind] of ["cat", "dog"].entries()) {
    mkdirSync(join(root, kind), { recursive: true });
    for (const number of range(3))
      await sharp({
        create: { width: 8 + number, height: 6, channels: 3, background: { r: 100 * at, g: 10 * number, b: 7 } },
      })
        .png()
        .toFile(join(root, kind, `${number}.png`));
  }
  const records = images(root, { size: [4, 5] });
  expect(records.length).toBe(6);
  const found = await records.toArray();
  expect(found.map(({ y, label }) => `${y} ${label}`)).toEqual(["0 cat", "0 cat", "0 cat", "1 dog", "1 dog", "1 dog"]);
  expect(found[5]?.x).toEqual(
    Object.assign(
      Uint8Array.from({ length: 60 }, (_unused, at) => [100, 20, 7][Math.floor(at / 20)] as number),
      { shape: [3, 4, 5] },
    ),
  );
  const shuffled = await records.shuffle().toArray();
  expect(shuffled.map(({ path }) => path).sort()).toEqual(found.map(({ path }) => path));
  for await (const { x, y } of records.batch(4))
    expect([x.shape.slice(1), x.dtype, y.dtype]).toEqual([[3, 4, 5], "u8", "i32"]);
  expect((await images(root, { channels: 1 }).toArray())[0]?.x.length).toBe(48);
  writeFileSync(join(root, "cat", "3.png"), "no image");
  await expect(images(root).toArray()).rejects.toThrow(/3.png: /);
  const kept = images(root, { onBad: "skip", size: [4, 5] });
  expect([kept.length, await kept.toArray()]).toEqual([undefined, found]);
  const order = (await kept.shuffle().toArray()).map(({ path }) => path);
  expect([...order].sort()).toEqual(found.map(({ path }) => path));
  expect((await kept.shuffle().toArray()).map(({ path }) => path)).toEqual(order);
  const rest: string[] = [];
  for await (const { path } of kept.shuffle().read({ from: 2 })) rest.push(path);
  expect(rest).toEqual(order.slice(2));
});

describe("openCsv", () => {
  const columns = { n: "i32", name: "text" } as const;
  const rowsFrom = async (records: Awaited<ReturnType<typeof openCsv<typeof columns>>>, from: number) => {
    const rows: { n: number; name: string }[] = [];
    for await (const row of records.read({ from })) rows.push(row);
    return rows;
  };
  /** More records than between two places of the index, as plain lines, or with all that a line may not be. */
  const count = 10_000;
  const written: Record<string, (n: number) => string> = {
    lines: (n) => `${n},name ${n}\n`,
    "quoted, with line ends": (n) => `${n},"a,\r\n""${n}"""\r\n`,
    "empty lines": (n) => (n % 3 === 0 ? `\n${n},x\n\n` : `${n},y\n`),
    "carriage returns": (n) => `${n},z\r`,
  };
  const names = { none: "", "a mark of byte order": "\ufeff" };
  test.each(
    Object.keys(written).flatMap((form) =>
      Object.keys(names).map((start) => [form, start as keyof typeof names] as const),
    ),
  )("has the records of csv from any of them on: %s, %s", async (form, start) => {
    const path = join(folder, "indexed.csv");
    const line = written[form] as (n: number) => string;
    writeFileSync(path, `${names[start]}n,name\n${range(count).map(line).join("")}`);
    const records = await openCsv(path, { columns });
    expect(records.length).toBe(count);
    const all = await csv(path, { columns }).toArray();
    expect(await records.toArray()).toEqual(all);
    for (const from of [1, 4095, 4096, 4097, 8192, count - 1, count])
      expect((await rowsFrom(records, from)).map(({ n }) => n)).toEqual(range(count).slice(from));
  });

  test("of several files, compressed too; a malformed record is named by its line", async () => {
    const path = (name: string): string => join(folder, name);
    writeFileSync(
      path("part-1.csv"),
      `n,name\n${range(5000)
        .map(written["lines"] as never)
        .join("")}`,
    );
    writeFileSync(
      path("part-2.csv.gz"),
      gzipSync(
        `n,name\n${range(5000)
          .map((n) => `${n + 5000},x\n`)
          .join("")}`,
      ),
    );
    const records = await openCsv([path("part-1.csv"), path("part-2.csv.gz")], { columns });
    expect(records.length).toBe(10_000);
    const rest = await rowsFrom(records, 9500);
    expect(rest.map(({ n }) => n)).toEqual(range(500).map((n) => n + 9500));
    const shuffled = (await records.shuffle({ seed: 1 }).toArray()).map(({ n }) => n);
    expect(shuffled).not.toEqual(range(10_000));
    expect(shuffled.sort((a, b) => a - b)).toEqual(range(10_000));
    writeFileSync(
      path("bad.csv"),
      `n,name\n${range(9000)
        .map((n) => (n === 5000 ? "x,y\n" : `${n},y\n`))
        .join("")}`,
    );
    const bad = await openCsv(path("bad.csv"), { columns });
    expect(bad.length).toBe(9000);
    await expect(rowsFrom(bad, 4500)).rejects.toThrow(/bad\.csv, line 5002, column "n": "x" is not a number/);
    expect(await rowsFrom(bad, 8500)).toHaveLength(500);
    await expect(openCsv(path("bad.csv"), { columns, onBad: "skip" } as never)).rejects.toThrow(
      /onBad leaves records out/,
    );
  });
});
