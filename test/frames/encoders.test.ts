import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { csv, fromGenerator, fromRows, type Records, toDataset } from "../../src/data/index.ts";
import { FrameLearning } from "../../src/frames/frame.ts";
import * as frames from "../../src/frames/index.ts";

interface Case {
  readonly name: string;
  readonly expected: readonly (readonly number[])[];
  readonly names: readonly string[] | null;
}
const { table, cases } = JSON.parse(readFileSync(new URL("../fixtures/frames.json", import.meta.url), "utf8")) as {
  table: { readonly [column: string]: readonly unknown[] };
  cases: readonly Case[];
};
const rows = (table["age"] as readonly unknown[]).map((_unused, row) =>
  Object.fromEntries(Object.entries(table).map(([name, values]) => [name, values[row]])),
);
const parts = ["year", "month", "day", "dayOfYear", "weekday", "hour", "minute", "second"] as const;

/** The encoder of each case. */
const encoders: { readonly [name: string]: frames.Encoder } = {
  "impute mean": frames.impute("age", { impute: "mean" }),
  "impute median": frames.impute("age", { impute: "median" }),
  "impute most_frequent": frames.impute("age", { impute: "mostFrequent" }),
  "standard after mean": frames.scale("age", { impute: "mean" }),
  "standard after median": frames.scale("age", { impute: "median" }),
  "standard after most_frequent": frames.scale("age", { impute: "mostFrequent" }),
  "standard after 0": frames.scale("age", { impute: 0 }),
  standard: frames.scale("fare"),
  "standard of a constant": frames.scale("constant"),
  minMax: frames.scale("fare", { by: "minMax" }),
  "minMax after mean": frames.scale("age", { by: "minMax", impute: "mean" }),
  maxAbs: frames.scale("negative", { by: "maxAbs" }),
  robust: frames.scale("fare", { by: "robust" }),
  "robust after median": frames.scale("age", { by: "robust", impute: "median" }),
  indicator: frames.scale("age", { impute: "mean", indicator: true }),
  "bin by width as number": frames.bin("fare", { bins: 6, by: "width" }),
  "bin by width as oneHot": frames.bin("fare", { bins: 6, by: "width", as: "oneHot" }),
  "bin by quantile as number": frames.bin("fare", { bins: 6 }),
  "bin by quantile as oneHot": frames.bin("fare", { bins: 6, as: "oneHot" }),
  "quantile bins of few values": frames.bin("deck", { bins: 6 }),
  oneHot: frames.oneHot("port"),
  "oneHot drop first": frames.oneHot("port", { drop: "first" }),
  "oneHot infrequent": frames.oneHot("port", { least: 10, unseen: "other" }),
  "oneHot most": frames.oneHot("port", { most: 2, unseen: "other" }),
  "oneHot of numbers": frames.oneHot("deck"),
  ordinal: frames.ordinal("port"),
  "ordinal in order": frames.ordinal("size", { categories: ["small", "medium", "large"] }),
  hash: frames.hash("port", { size: 13 }),
  counts: frames.words("subject", { as: "counts", shortest: 2 }),
  "counts of frequent words": frames.words("subject", { as: "counts", shortest: 2, least: 20 }),
  date: frames.date("sold", { parts, cyclic: false, scale: false }),
  "date scaled": frames.date("sold", { parts: ["time"] }),
};

describe("frames give what scikit-learn and pandas give", () => {
  test.each(cases)("$name", async ({ name, expected, names }) => {
    const encoder = encoders[name] as frames.Encoder;
    const frame = await frames.fit(fromRows(rows), { x: [encoder] });
    const { data, shape } = frame.encode("x", rows);
    const width = shape[1] as number;
    expect(shape[0]).toBe(rows.length);
    if (names !== null) expect(frame.features("x").map((one) => one.replace("subject: ", ""))).toEqual(names);
    // The indicator stands after the number.
    const first = name === "indicator" ? 1 : 0;
    expect(width - first).toBe(expected[0]?.length);
    expected.forEach((values, row) => {
      values.forEach((value, at) => {
        expect(data[row * width + first + at]).toBeCloseTo(value, 5);
      });
    });
  });

  test("every case has an encoder", () => {
    expect(Object.keys(encoders).sort()).toEqual(cases.map(({ name }) => name).sort());
  });
});

const all = {
  x: [
    frames.scale("age", { impute: "median", indicator: true }),
    frames.scale("fare", { by: "robust" }),
    frames.bin("fare", { as: "oneHot" }),
    frames.oneHot("port"),
    frames.date("sold"),
    frames.words("subject", { as: "counts" }),
    frames.hash("subject", { size: 8, words: true }),
  ],
  ids: frames.words("subject", { length: 5 }),
  y: frames.recode("size"),
  code: frames.hash("port", { as: "id", size: 10 }),
};

test("what parts of the records have learned merges to what all of them teach", async () => {
  const whole = await frames.fit(fromRows(rows), all);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 90, maxLength: 90 }), async (shares) => {
      const merged = new FrameLearning(all);
      for (const part of [2, 0, 3, 1]) {
        const own = new FrameLearning(all);
        const chosen = rows.filter((_row, at) => shares[at] === part);
        for await (const piece of fromRows(chosen).pieces()) own.see(piece);
        merged.merge(JSON.parse(JSON.stringify(own)));
      }
      const frame = merged.finish();
      for (const name of whole.names) {
        const [one, other] = [whole.encode(name, rows), frame.encode(name, rows)];
        expect(other.shape).toEqual(one.shape);
        const apart = Array.from(one.data, (value, at) => Math.abs(value - (other.data[at] as number)));
        expect(Math.max(...apart)).toBeLessThan(1e-5);
      }
    }),
    { numRuns: 10 },
  );
});

test("a frame is data: what is read back gives the same, and names, types and classes follow", async () => {
  const frame = await frames.fit(fromRows(rows), all);
  const again = frames.frameFrom(JSON.parse(JSON.stringify(frame)));
  for (const name of frame.names) expect(again.encode(name, rows)).toEqual(frame.encode(name, rows));
  expect(again.type("y")).toEqual({ dtype: "i32", shape: [] });
  expect(again.type("ids")).toEqual({ dtype: "i32", shape: [5] });
  expect(again.classes("y")).toEqual(["large", "medium", "small"]);
  expect(again.features("x").slice(0, 4)).toEqual(["age", "age missing", "fare", "fare bin 0"]);
  expect(again.needs(["y", "ids"])).toEqual(["size", "subject"]);
});

test("words are numbered by frequency from 2; other words are 1, and 0 fills up", async () => {
  const texts = fromRows([{ text: "b a b" }, { text: "B c" }, { text: "" }]);
  const frame = await frames.fit(texts, { ids: frames.words("text", { most: 2 }) });
  expect(frame.classes("ids")).toEqual([null, null, "b", "a"]);
  expect([...frame.encode("ids", [{ text: "a, c B" }, { text: "b b b b" }, { text: "" }]).data]).toEqual([
    3, 1, 2, 2, 2, 2, 0, 0, 0,
  ]);
  const left = await frames.fit(texts, { ids: frames.words("text", { most: 2, unseen: "ignore", length: 2 }) });
  expect([...left.encode("ids", [{ text: "c a c b" }]).data]).toEqual([3, 2]);
});

describe("unseen and missing values", () => {
  const learn = (encoder: frames.Encoder, values: readonly unknown[]) =>
    frames.fit(fromRows(values.map((value): { readonly [name: string]: unknown } => ({ value }))), { made: encoder });
  const made = async (encoder: frames.Encoder, seen: readonly unknown[], value: unknown): Promise<number[]> =>
    [...(await learn(encoder, seen)).encode("made", [{ value }]).data] as number[];

  test.each<[string, frames.Encoder, readonly unknown[], unknown, number[]]>([
    ["an unseen category is the last", frames.recode("value", { unseen: "other" }), ["b", "a"], "c", [2]],
    ["zeros of oneHot", frames.oneHot("value", { unseen: "ignore" }), ["b", "a"], "c", [0, 0]],
    ["a column of oneHot", frames.oneHot("value", { unseen: "other" }), ["b", "a"], "c", [0, 0, 1]],
    ["a missing one is a category", frames.recode("value"), ["b", "a", ""], null, [2]],
    [
      "a missing one as an unseen one",
      frames.recode("value", { missing: "unseen", unseen: "other" }),
      ["a", ""],
      "",
      [1],
    ],
    ["numbers, texts and truth values are different", frames.recode("value"), [1, "1", true, 0], "1", [2]],
    ["bigints are numbers", frames.recode("value"), [5n, 7n], 7n, [1]],
    ["a missing number is filled in", frames.impute("value"), [1, 3, Number.NaN], undefined, [2]],
    ["truth values are numbers", frames.scale("value", { by: "none" }), [true, false], true, [1]],
    ["numbers beyond the bins are in the outermost", frames.bin("value", { edges: [1, 2] }), [1], 9, [2]],
    [
      "a missing moment is zeros",
      frames.date("value", { parts: ["year", "hour"], missing: "zero" }),
      ["2024-01-01"],
      "",
      [0, 0, 0],
    ],
    [
      "a zone moves a moment",
      frames.date("value", { parts: ["hour"], cyclic: false, scale: false }),
      ["2024-01-01"],
      "2024-01-01T01:30:00+02:00",
      [23],
    ],
    ["a missing hash is 0", frames.hash("value", { as: "id", size: 3 }), ["a"], null, [0]],
  ])("%s", async (_what, encoder, seen, value, expected) => {
    expect(await made(encoder, seen, value)).toEqual(expected);
  });

  test.each<[string, frames.Encoder, readonly unknown[], unknown, RegExp]>([
    [
      "an unseen category",
      frames.recode("value"),
      ["a"],
      "b",
      /record 0, column "value": "b" is none of the 1 categories/,
    ],
    ["a missing one that none was", frames.oneHot("value"), ["a"], "", /a value is missing, which none was/],
    ["a missing number", frames.scale("value"), [1], Number.NaN, /a number is missing/],
    ["a text among numbers", frames.scale("value"), [1], "x", /"x" is not a number/],
    ["a word", frames.words("value", { unseen: "error" }), ["a"], "a b", /"b" is not in the vocabulary of 1 words/],
    ["a day that is none", frames.date("value"), ["2024-02-29"], "2023-02-29", /"2023-02-29" is not a moment/],
    ["a list", frames.oneHot("value"), ["a"], [1], /is not a category/],
    [
      "a number as text",
      frames.scale("value"),
      [1, 2],
      "40",
      /"40" is a text, not a number[\s\S]*hint: pass the number 40/,
    ],
    [
      "a number beyond f32",
      frames.impute("value"),
      [1, 2],
      -1e300,
      /record 0, column "value": -1e\+300, scaled, is beyond f32/,
    ],
    ["infinity", frames.scale("value"), [1, 2], Infinity, /Infinity, scaled, is beyond f32/],
  ])("%s is an error with its place", async (_what, encoder, seen, value, message) => {
    await expect(made(encoder, seen, value)).rejects.toThrow(message);
  });

  test.each<[string, frames.Encoder, readonly unknown[], RegExp]>([
    ["missing numbers", frames.scale("value"), [1, null], /record 1, column "value": a number is missing/],
    [
      "no numbers at all",
      frames.scale("value", { impute: "mean" }),
      [null],
      /column "value" has no numbers, all are missing/,
    ],
    ["infinity", frames.scale("value"), [1, Infinity], /Infinity has no place/],
    [
      "a spread beyond f64",
      frames.scale("value"),
      [1e300, -1e300, 1],
      /column "value" has numbers whose spread is beyond f64/,
    ],
    ["bounds beyond f64", frames.bin("value", { by: "width" }), [1.7e308, -1.7e308], /spread is beyond f64/],
    [
      "rare values alone",
      frames.oneHot("value", { least: 5, unseen: "other" }),
      ["a", "a", "b"],
      /no value that comes 5 times, the most frequent comes 2 times/,
    ],
    [
      "gaps alone",
      frames.oneHot("value", { missing: "unseen" }),
      [null],
      /no values to learn categories from, all are missing/,
    ],
    ["no records", frames.scale("value"), [], /there are no records to learn from/],
    [
      "missing categories",
      frames.oneHot("value", { missing: "error" }),
      ["a", ""],
      /record 1, column "value": a value is missing/,
    ],
    ["no words", frames.words("value"), ["", "!"], /has no words to learn/],
    [
      "too many categories",
      frames.oneHot("value"),
      Array.from({ length: 10_001 }, (_, at) => at),
      /more than 10000 different values/,
    ],
  ])("learning refuses %s", async (_what, encoder, seen, message) => {
    await expect(learn(encoder, seen)).rejects.toThrow(message);
  });
});

test.each<[string, () => unknown, RegExp]>([
  ["a name that is none", () => frames.scale("" as never), /takes the name of a column/],
  ["an unknown option", () => frames.scale("a", { imput: 1 } as never), /unknown option 'imput'/],
  ["an unknown policy", () => frames.recode("a", { unseen: "ignore" }), /unseen must be one of "error", "other"/],
  ["rare values without a place", () => frames.oneHot("a", { least: 2 }), /which unseen: "error" refuses/],
  ["edges that fall", () => frames.bin("a", { edges: [2, 1] }), /edges must be ascending/],
  ["categories that come twice", () => frames.ordinal("a", { categories: ["b", "b"] }), /categories must be different/],
  ["an unknown part", () => frames.date("a", { parts: ["week" as never] }), /parts must be some of/],
])("options: %s", (_what, make, message) => {
  expect(make).toThrow(message);
});

test("columns that are no encoders, or of no column, are named", async () => {
  const records = fromRows([{ a: 1 }]);
  await expect(frames.fit(records, { x: "a" as never })).rejects.toThrow(/column "x" takes encoders, got "a"/);
  await expect(frames.fit(records, {})).rejects.toThrow(/takes the columns to make/);
  // @ts-expect-error a wrong column is an error of the compiler, too
  await expect(frames.fit(records, { x: frames.scale("b") })).rejects.toThrow(
    /record 0: column "b" is not among the columns that are read[\s\S]*hint: those are a/,
  );
  const frame = await frames.fit(records, { x: frames.scale("a") });
  expect(() => frame.encode("y", [])).toThrow(/there is no column "y"/);
  expect(() => frame.encode("x", [{ b: 1 }])).toThrow(/record 0 has no column "a"/);
});

test.each<[string, readonly unknown[], readonly string[]]>([
  ["texts", ["a", "b", null], ["c=a", "c=b", "c=missing", "c=other"]],
  ["a number and its text", [1, "1"], ["c=1", 'c="1"', "c=other"]],
  ["texts that frames use", ["missing", "other", null], ['c="missing"', 'c="other"', "c=missing", "c=other"]],
  ["a truth value and its text", [true, "true", '"true"'], ['c="\\"true\\""', 'c="true"', "c=true", "c=other"]],
])("names of categories are different: %s", async (_what, values, expected) => {
  const frame = await frames.fit(fromRows(values.map((c) => ({ c }))), { x: frames.oneHot("c", { unseen: "other" }) });
  expect(frame.features("x")).toEqual(expected);
});

test("a column that a file has, and that is not read, is named", async () => {
  const folder = mkdtempSync(join(tmpdir(), "frames-"));
  const path = join(folder, "two.csv");
  writeFileSync(path, "age,joined\n1,2024-01-01\n");
  try {
    const read = csv(path, { columns: { age: "f32" } }) as unknown as Records<{ age: number; joined: string }>;
    await expect(frames.fit(read, { x: frames.date("joined") })).rejects.toThrow(
      /two.csv, line 2: column "joined" is not among the columns that are read[\s\S]*hint: those are age/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
  await expect(toDataset(fromRows([]))).rejects.toThrow(/toDataset: records has no records/);
});

test("damaged data of a frame is refused, whatever is damaged", async () => {
  const text = JSON.stringify(await frames.fit(fromRows(rows), all));
  expect(() => frames.frameFrom({ format: 9, outputs: [] })).toThrow(/format 9/);
  const damage = (value: unknown, path: readonly number[]): unknown => {
    if (typeof value !== "object" || value === null || path.length === 0)
      return path.length === 0 ? null : { wrong: 1 };
    const entries = Object.entries(value);
    const at = (path[0] as number) % Math.max(1, entries.length);
    const changed = entries.map(([name, part], index) => [name, index === at ? damage(part, path.slice(1)) : part]);
    return Array.isArray(value) ? changed.map(([, part]) => part) : Object.fromEntries(changed as [string, unknown][]);
  };
  fc.assert(
    fc.property(fc.array(fc.nat(), { minLength: 1, maxLength: 7 }), (path) => {
      try {
        // What is accepted must work or name a record.
        frames.frameFrom(damage(JSON.parse(text), path)).encode("x", rows);
      } catch (error) {
        expect((error as { code?: string }).code).toMatch(/^(format|version|data|argument)$/);
      }
    }),
    { numRuns: 300 },
  );
});

test("records of files and streams, encoded a piece at a time; batches are views of what was encoded", async () => {
  const chained = async (records: Records<{ a: number; b: string }>) => {
    const frame = await frames.fit(records, { x: [frames.scale("a"), frames.oneHot("b")], y: frames.recode("b") });
    return frame.apply(records);
  };
  const listed = Array.from({ length: 100 }, (_, at) => ({ a: at, b: "pqr"[at % 3] as string }));
  const picked = await chained(fromRows(listed));
  const streamed = await chained(fromGenerator(() => listed));
  expect(picked.canPick).toBe(true);
  expect(streamed.length).toBe(undefined);
  const [one, other] = [await toDataset(picked), await toDataset(streamed)];
  for (const name of ["x", "y"])
    expect(await other.columns.get(name)?.load()).toEqual(await one.columns.get(name)?.load());
  for await (const piece of picked.pieces()) {
    const x = piece.columns["x"] as readonly Float32Array[];
    const dataset = await toDataset(fromRows(x.map((value) => ({ x: value }))));
    // No value was copied.
    expect((await dataset.columns.get("x")?.load())?.buffer).toBe(x[0]?.buffer);
  }
  // Another frame makes other data: stored folders must not be taken for it.
  const identity = (records: { identity(among: "runs"): Promise<string> }): Promise<string> => records.identity("runs");
  expect(await identity(picked)).toBe(await identity(await chained(fromRows(listed))));
  const moved = fromRows(listed);
  const frame = await frames.fit(moved, { x: [frames.scale("a", { by: "none" })] });
  expect(await identity(frame.apply(moved))).not.toBe(await identity(picked));
});
