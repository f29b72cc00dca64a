/** Plain records of CSV in native code beside the same file read record by record, which a column of truth values takes: values, errors, places. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { data } from "heddle";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "heddle-csv-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const path = join(folder, "rows.csv");

const types = { a: "f32", b: "f64", c: "i32", d: "u8", e: "text" } as const;

/** All records from one on, and what was said of those that were left out. */
async function read(columns: object, options: object, from: number) {
  const told: string[] = [];
  const onBad = (error: Error): void => void told.push(error.message);
  const rows: unknown[] = [];
  try {
    const records = data.csv(path, { ...options, ...columns, onBad });
    for await (const { flag: _flag, ...row } of records.read({ from })) rows.push(row);
  } catch (error) {
    told.push((error as Error).message);
  }
  return { rows, told };
}

/** Reads the file in both ways, and compares them. */
async function compare(text: string | Uint8Array, options: object = {}, from = 0): Promise<number> {
  writeFileSync(path, text);
  const named = await read({ columns: types }, options, from);
  expect(named).toEqual(await read({ columns: { ...types, flag: "bool" } }, options, from));
  return named.rows.length;
}

const plain = ["0", "-1", "12", "255", "3.25", "-0.5e-3", "1e30", " 7 ", "+5", "0.12345678901234568", "007", "-0"];
const odd = [
  "",
  "NA",
  "nan",
  "inf",
  "1e400",
  "16777217",
  "9007199254740993",
  "x",
  '"4"',
  '"5,5"',
  '"a""b"',
  "é",
  "1.5.5",
  "2147483648",
];
const field = fc.oneof(
  { weight: 30, arbitrary: fc.constantFrom(...plain) },
  { weight: 1, arbitrary: fc.constantFrom(...odd) },
);
const record = fc
  .tuple(fc.array(field, { minLength: 5, maxLength: 5 }), fc.nat(40))
  .map(([fields, shape]) => (shape === 0 ? "" : shape === 1 ? fields.join(",") : `${fields.join(",")},true`));

test("any file, with any ends of lines, gives the same in both ways", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(record, { maxLength: 60 }),
      fc.constantFrom("\n", "\r\n", "\r"),
      fc.constantFrom([""], ["", "NA"], ["-1"]),
      fc.nat(20),
      fc.boolean(),
      async (records, end, missing, from, ends) => {
        const text = ["a,b,c,d,e,flag", ...records].join(end) + (ends ? end : "");
        await compare(text, { missing }, from);
      },
    ),
    { numRuns: 150 },
  );
});

test("types that follow from the records lose no whole number", async () => {
  const lines = Array.from({ length: 3000 }, (_unused, row) => `${row === 2000 ? "16777217" : row / 4},${row}`);
  writeFileSync(path, `a,c\n${lines.join("\n")}\n`);
  await expect(data.csv(path).select("a", "c").toArray()).rejects.toThrow(/line 2002, column "a": f32 holds 16777216/);
  const { rows, told } = await read({}, { types: { a: "f64" } }, 0);
  expect([rows.length, told]).toEqual([3000, []]);
  expect(rows[2000]).toEqual({ a: 16777217, c: 2000 });
});

test("several blocks, long records, and a record at every border", async () => {
  const long = "t".repeat(300_000);
  const rows = Array.from({ length: 60_000 }, (_unused, row) =>
    row % 9000 === 17 ? `1,2,3,4,${long},true` : `${row}.5,${row},${row},${row % 256},word ${row % 11},true`,
  );
  const text = `a,b,c,d,e,flag\n${rows.join("\n")}\n`;
  expect(await compare(text)).toBe(60_000);
  expect(await compare(text, {}, 59_990)).toBe(10);
  expect(await compare(text, { separator: ";" })).toBe(0);
});

test("bytes that are not UTF-8 are of their line, wherever it is", async () => {
  const lines = Array.from({ length: 200 }, (_unused, row) => `${row},1,2,3,x,true`);
  const bytes = Buffer.from(`a,b,c,d,e,flag\n${lines.join("\n")}\n`);
  bytes[bytes.indexOf("150,1,2,3,x") + 10] = 0xff;
  expect(await compare(bytes)).toBe(199);
});

test("batches have arrays of their own", async () => {
  writeFileSync(path, `a,c\n${Array.from({ length: 1000 }, (_unused, row) => `${row}.25,${row}`).join("\n")}\n`);
  const seen: number[] = [];
  const kept: data.HostBatch[] = [];
  for await (const batch of data
    .csv(path, { columns: { a: "f32", c: "i32" } })
    .batch(128)
    .host())
    kept.push(batch);
  for (const { columns } of kept) seen.push(...((columns["a"] as data.HostRows).data as Float32Array));
  expect(seen).toEqual(Array.from({ length: 1000 }, (_unused, row) => row + 0.25));
});
