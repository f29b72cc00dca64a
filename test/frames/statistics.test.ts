import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test, vi } from "vitest";
import { main } from "../../src/cli/main.ts";
import { fromRows } from "../../src/data/index.ts";
import * as frames from "../../src/frames/index.ts";
import { Counts } from "../../src/frames/sketches/counts.ts";
import { Distinct } from "../../src/frames/sketches/distinct.ts";
import { Moments } from "../../src/frames/sketches/moments.ts";
import { murmur3 } from "../../src/frames/sketches/murmur.ts";
import { Quantiles } from "../../src/frames/sketches/quantiles.ts";
import { Summary } from "../../src/frames/statistics/statistics.ts";

/** Runs the command in this process. */
async function heddle(...args: readonly string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  const written = { stdout: "", stderr: "" };
  const spies = [
    vi.spyOn(console, "log").mockImplementation((text: string) => {
      written.stdout += `${text}\n`;
    }),
    vi.spyOn(console, "error").mockImplementation((text: string) => {
      written.stderr += `${text}\n`;
    }),
    vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      written.stderr += text;
      return true;
    }),
  ];
  try {
    return { status: await main(args), ...written };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/** Numbers that look random, the same every time. */
const noise = (count: number, seed: number): number[] => {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  });
};

describe("sketches against what they summarise", () => {
  test("moments merge to those of two passes, however the numbers are cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { maxLength: 30 }), { minLength: 1 }),
        (parts) => {
          const merged = new Moments();
          for (const part of parts) {
            const own = new Moments();
            for (const value of part) own.add(value);
            merged.merge(Moments.from(JSON.parse(JSON.stringify(own))));
          }
          const all = parts.flat();
          expect(merged.count).toBe(all.length);
          if (all.length === 0) return;
          const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
          const variance = all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / all.length;
          const size = Math.max(1, ...all.map(Math.abs));
          expect(Math.abs(merged.mean - mean) / size).toBeLessThan(1e-12);
          expect(Math.abs(merged.variance - variance) / size ** 2).toBeLessThan(1e-12);
          // Zero has two signs, which compare as equal.
          expect([merged.lowest + 0, merged.highest + 0]).toEqual([Math.min(...all) + 0, Math.max(...all) + 0]);
        },
      ),
      { numRuns: 200 },
    );
  });

  test.each([
    ["ascending", (count: number) => Array.from({ length: count }, (_, at) => at)],
    ["descending", (count: number) => Array.from({ length: count }, (_, at) => count - at)],
    ["random", (count: number) => noise(count, 3)],
    ["few different", (count: number) => noise(count, 5).map((value) => Math.floor(value * 7))],
  ] as const)("quantiles of %s numbers: exact up to 2,048, else ranks within 0.5 %%", (_what, make) => {
    for (const [count, parts] of [
      [2000, 1],
      [200_000, 1],
      [200_000, 7],
    ] as const) {
      const values = make(count);
      const merged = new Quantiles();
      for (let part = 0; part < parts; part++) {
        const own = new Quantiles();
        for (let at = part; at < count; at += parts) own.add(values[at] as number);
        merged.merge(Quantiles.from(JSON.parse(JSON.stringify(own))));
      }
      const sorted = Float64Array.from(values).sort();
      const shares = [0, 0.01, 0.25, 0.5, 0.9, 0.999, 1];
      expect(merged.count).toBe(count);
      merged.at(shares).forEach((value, at) => {
        const place = (shares[at] as number) * (count - 1);
        if (count <= 2048) {
          const [low, high] = [sorted[Math.floor(place)] as number, sorted[Math.ceil(place)] as number];
          expect(value).toBeCloseTo(low + (high - low) * (place % 1), 12);
          return;
        }
        const first = sorted.findIndex((one) => one >= value);
        const last = sorted.findLastIndex((one) => one <= value);
        const off = Math.max(0, first - place, place - last) / count;
        expect(off).toBeLessThan(0.005);
      });
    }
  });

  test.each([0, 1, 50, 5000, 300_000])("about %i different values, also of parts", (count) => {
    const [one, other] = [new Distinct(), new Distinct()];
    for (let at = 0; at < count; at++) {
      if (at % 3 !== 0) one.add(`value ${at}`);
      if (at % 3 !== 1) other.add(`value ${at}`);
    }
    one.merge(Distinct.from(JSON.parse(JSON.stringify(other))));
    // Three standard errors.
    expect(Math.abs(one.estimate - count)).toBeLessThanOrEqual(0.049 * count);
  });

  test("counts are exact while there are few values, and too low by no more than is told", () => {
    const counts = new Counts(50);
    const exact = new Map<number, number>();
    noise(40_000, 9).forEach((value) => {
      const one = Math.floor(value ** 4 * 400);
      counts.add(one);
      exact.set(one, (exact.get(one) ?? 0) + 1);
    });
    expect(counts.isFull).toBe(true);
    const found = counts.ranked();
    expect(found[0]?.[0]).toBe(0);
    for (const [value, count] of found) {
      expect(count).toBeLessThanOrEqual(exact.get(value as number) as number);
      expect(count).toBeGreaterThanOrEqual((exact.get(value as number) as number) - counts.lost);
    }
    // The bound of Misra and Gries.
    expect(counts.lost).toBeLessThanOrEqual(40_000 / 51);
  });

  test.each([
    // Of the reference implementation, and of scikit-learn's murmurhash3_32.
    ["", 0, 0],
    ["", 1, 0x514e28b7],
    ["hello", 0, 0x248bfa47],
    ["hello, world", 0, 0x149bbb7f],
    ["The quick brown fox jumps over the lazy dog", 0x9747b28c, 0x2fa826cd],
  ])("murmur3 of %j with seed %i", (text, seed, expected) => {
    expect(murmur3(text, seed) >>> 0).toBe(expected);
  });
});

const people = Array.from({ length: 400 }, (_unused, at) => ({
  age: at % 10 === 0 ? Number.NaN : 20 + ((at * 7) % 50),
  city: ["Paris", "Oslo", "Rome"][at % 3] as string,
  ok: at % 2 === 0,
}));

test("statistics of records: parts merge to those of all", async () => {
  const whole = await frames.statistics(fromRows(people));
  const merged = new Summary();
  for (const part of [people.slice(250), people.slice(0, 250)]) {
    const own = new Summary();
    for await (const piece of fromRows(part).pieces()) own.see(piece);
    merged.merge(own);
  }
  const rounded = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (_name, one) => (typeof one === "number" ? Number(one.toPrecision(9)) : one));
  expect(rounded(merged.finish().columns.toSorted((a, b) => (a.name < b.name ? -1 : 1)))).toEqual(
    rounded(whole.columns),
  );
  const [age, city, ok] = whole.columns as [frames.ColumnStatistics, frames.ColumnStatistics, frames.ColumnStatistics];
  expect(whole.rows).toBe(400);
  const ages = people.map((one) => one.age).filter((one) => !Number.isNaN(one));
  expect(age).toMatchObject({ kind: "whole", count: 360, missing: 40, distinct: new Set(ages).size });
  expect(age.numbers?.histogram.reduce((sum, one) => sum + one, 0)).toBeCloseTo(1, 12);
  expect(city).toMatchObject({
    kind: "text",
    top: [
      ["Paris", 134],
      ["Oslo", 133],
      ["Rome", 133],
    ],
    isWhole: true,
  });
  expect(ok).toMatchObject({ kind: "truth", distinct: 2 });
});

test("statistics of dates, of mixed columns, and of numbers whose spread is near the last digit", async () => {
  const days = ["2024-01-01", "2024-01-03", "2024-01-02"].map((day) => new Date(`${day}T00:00:00Z`));
  const rows = days.map((day, at) => ({
    day,
    mixed: [1, "long text", true][at],
    key: 2n ** 53n + BigInt(2 * at),
  }));
  const found = await frames.statistics(
    fromRows([...rows, { day: new Date(Number.NaN), mixed: 7, key: 2n ** 53n + 1n }]),
  );
  const [day, mixed, key] = found.columns as [
    frames.ColumnStatistics,
    frames.ColumnStatistics,
    frames.ColumnStatistics,
  ];
  expect(day).toMatchObject({ kind: "date", count: 3, missing: 1, distinct: 3 });
  expect([day.numbers?.lowest, day.numbers?.mean]).toEqual([Date.UTC(2024, 0, 1), Date.UTC(2024, 0, 2)]);
  expect(day.top[0]).toEqual(["2024-01-01T00:00:00.000Z", 1]);
  expect([mixed.kind, mixed.numbers]).toEqual(["mixed", undefined]);
  expect(key).toMatchObject({ kind: "whole", distinct: 4 });
  const later = await frames.statistics(fromRows(days.map((one) => ({ day: new Date(Number(one) + 864e5) }))));
  const schema = frames.schemaOf({ ...found, columns: [day] });
  expect(frames.anomalies(later, schema, { drift: 99 }).map(({ text }) => text)).toEqual([
    "has values up to 2024-01-04T00:00:00.000Z, they ended at 2024-01-03T00:00:00.000Z",
  ]);

  const moments = [new Moments(), new Moments(), new Moments()] as const;
  const values = Array.from({ length: 20 }, (_unused, at) => 2 ** 53 + 2 * at);
  for (const [at, value] of values.entries()) {
    moments[0].add(value);
    moments[at % 2 === 0 ? 1 : 2].add(value);
  }
  moments[1].merge(Moments.from(JSON.parse(JSON.stringify(moments[2]))));
  for (const one of moments.slice(0, 2)) {
    // The mean is 19 from 2^53 on, between two doubles.
    expect(Math.abs(one.mean - 2 ** 53 - 19)).toBeLessThanOrEqual(1);
    expect(one.variance).toBeCloseTo(4 * ((20 ** 2 - 1) / 12), 9);
  }
});

describe("heddle data", () => {
  const folder = mkdtempSync(join(tmpdir(), "statistics-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string, rows: readonly object[]): string => {
    const path = join(folder, name);
    const names = Object.keys(rows[0] ?? {});
    const lines = rows.map((row) =>
      names.map((one) => ((row as Record<string, unknown>)[one] ?? "").toString().replace("NaN", "")).join(","),
    );
    writeFileSync(path, `${[names.join(","), ...lines].join("\n")}\n`);
    return path;
  };
  const then = file("then.csv", people);
  const schema = join(folder, "schema.json");

  test("show and stats say what a file holds", async () => {
    const shown = await heddle("data", "show", then, "--rows", "2");
    expect(shown.status).toBe(0);
    expect(shown.stdout).toMatch(/age +city +ok\n +whole +text +truth\n +NaN +Paris +true\n/);
    const { status, stdout } = await heddle("data", "stats", then, "--output", schema);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^400 records, 3 columns\n/);
    expect(stdout).toMatch(/ age +whole +10\.0 % +\d+ +21 .*[▁▂▃▄▅▆▇█]\n/);
    expect(stdout).toMatch(/city: "Paris" 134, "Oslo" 133, "Rome" 133\n/);
    expect(JSON.parse((await heddle("data", "stats", then, "--json")).stdout).rows).toBe(400);
    expect(frames.schemaFrom(JSON.parse(readFileSync(schema, "utf8"))).columns).toHaveLength(3);
  });

  const written = (name: string, content: string | Uint8Array): string => {
    const path = join(folder, name);
    writeFileSync(path, content);
    return path;
  };
  const whole = Array.from({ length: 1200 }, (_unused, at) => at).join("\n");

  test.each<[string, string | Uint8Array, readonly string[], RegExp]>([
    [
      "decimals keep their digits",
      "lat\n52.1234567\n52.1234568\n52.1234569\n",
      [],
      / lat +number +0\.0 % +3 +52\.1234567 +52\.1234568 /,
    ],
    ["a decimal as it is written", "a\n123456.78\n", [], / 123456\.78 /],
    ["keys beyond 2^53", "id\n9007199254740992\n9007199254740993\n", [], / id +whole +0\.0 % +2 /],
    ["a late fraction", `a\n${whole}\n1.5\n`, [], / a +number +0\.0 % /],
    ["a late mark of missing values", `a\n${whole}\nNA\nnan\n`, ["--missing-values", "NA,nan"], / a +whole +0\.2 % /],
    ["a type by name", "zip,a\n01234,1\n", ["--types", "zip=text"], /\nzip: "01234" 1\n/],
    ["lengths of texts", "a\nword\n", [], /^1 record, 1 column\n[\s\S]* a +text \(lengths\) /],
    ["no records", "a,b\n", [], /^0 records, 2 columns\n[\s\S]* a +empty [\s\S]* b +empty /],
    ["control characters", "a\n\u001b[31mred\u009b\n", [], /\na: "\\u001b\[31mred\\u009b" 1\n$/],
  ])("stats: %s", async (name, content, flags, expected) => {
    const { status, stdout } = await heddle("data", "stats", written(`${name}.csv`, content), ...flags);
    expect(status).toBe(0);
    expect(stdout).toMatch(expected);
  });

  test("show escapes what would steer a terminal", async () => {
    const path = written("steer.csv", 'a\u001b[2J,b\n\u001b[31mred\u202e,"x\ny"\n');
    const { stdout } = await heddle("data", "show", path);
    expect(stdout).toContain("a\\u001b[2J");
    expect(stdout).toMatch(/\\u001b\[31mred\\u202e +x y\n/);
    expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
  });

  test("a file without records lacks values, not columns", async () => {
    await heddle("data", "stats", then, "--output", schema);
    const { status, stdout } = await heddle(
      "data",
      "validate",
      written("none.csv", "age,city,ok\n"),
      "--schema",
      schema,
    );
    expect(status).toBe(1);
    expect(stdout).toBe(["age", "city", "ok"].map((name) => `${name}: has no values: there are no records\n`).join(""));
  });

  test("the picture has a histogram of each column", async () => {
    const path = join(folder, "people.svg");
    expect((await heddle("data", "stats", then, "--svg", path)).status).toBe(0);
    const svg = readFileSync(path, "utf8");
    for (const title of ["age", "city (length)", "ok"]) expect(svg).toContain(`>${title}<`);
    expect(svg).not.toMatch(/NaN|undefined/);
  });

  test.each<[string, readonly object[], readonly RegExp[]]>([
    ["the same", people, [/^no anomalies\n$/]],
    ["another order", [...people].reverse(), [/^no anomalies\n$/]],
    ["a column less", people.map(({ age, city }) => ({ age, city })), [/^ok: is absent\n$/]],
    ["a column more", people.map((one) => ({ ...one, more: 1 })), [/^more: is new \(whole\)\n$/]],
    [
      "more gaps",
      people.map((one, at) => (at % 4 === 0 ? { ...one, age: Number.NaN } : one)),
      [/age: is missing in 30\.0 %, it was in 10\.0 %/],
    ],
    ["another kind", people.map((one) => ({ ...one, age: "old" })), [/age: has values of kind text, not whole/]],
    [
      "a larger value",
      people.map((one, at) => (at === 5 ? { ...one, age: 900 } : one)),
      [/age: has values up to 900, they ended at 69/],
    ],
    [
      "an unseen city",
      people.map((one, at) => (at === 7 ? { ...one, city: "Bergen" } : one)),
      [/city: has values that it did not have: "Bergen" \(1\)/],
    ],
    [
      "drift of numbers",
      people.map((one) => ({ ...one, age: Math.min(69, one.age + 15) })),
      [/age: has drifted: the population stability index is \d/],
    ],
    [
      "drift of categories",
      people.map((one, at) => ({ ...one, city: at % 5 === 0 ? one.city : "Paris" })),
      [/city: has drifted: the population stability index is \d/],
    ],
  ])("validate and diff: %s", async (name, rows, expected) => {
    await heddle("data", "stats", then, "--output", schema);
    const now = file(`${name}.csv`, rows);
    for (const args of [
      ["validate", now, "--schema", schema],
      ["diff", then, now],
    ]) {
      const { status, stdout } = await heddle("data", ...args);
      for (const pattern of expected) expect(stdout).toMatch(pattern);
      expect(status).toBe(stdout === "no anomalies\n" ? 0 : 1);
    }
  });

  test("bounds of drift and of missing values can be named", async () => {
    const moved = file(
      "moved.csv",
      people.map((one) => ({ ...one, age: Math.min(69, one.age + 15) })),
    );
    expect((await heddle("data", "diff", then, moved, "--drift", "50")).stdout).toBe("no anomalies\n");
  });

  test.each<[string, readonly string[], number, RegExp]>([
    ["a file that is not there", ["stats", "absent.csv"], 2, /cannot read .*absent\.csv: no such file/],
    ["a name without a format", ["show", "people.dat"], 2, /the name people\.dat does not say its format/],
    ["no schema", ["validate", then], 2, /--schema <file>/],
    ["a schema that is none", ["validate", then, "--schema", then], 1, /is not JSON/],
    [
      "a schema of another kind",
      ["validate", then, "--schema", written("list.json", "[]")],
      1,
      /list\.json: schema: the data is not/,
    ],
    [
      "a late word",
      ["stats", written("word.csv", `a\n${whole}\nword\n`)],
      1,
      /"word" is not a number[\s\S]*--types name=text,age=f64 --missing-values NA/,
    ],
    [
      "Latin-1",
      ["stats", written("latin.csv", Buffer.from("a\ncaf\xe9\n", "latin1"))],
      1,
      /latin\.csv, line 2: its bytes are not UTF-8/,
    ],
    ["types that are none", ["show", then, "--types", "age"], 2, /--types takes names with types/],
    [
      "types of another format",
      ["show", "a.jsonl", "--types", "age=f64"],
      2,
      /--types and --missing-values are for CSV/,
    ],
    ["a bound that is none", ["diff", then, then, "--drift", "x"], 2, /--drift takes a number from 0 on/],
  ])("%s is an error", async (_what, args, status, message) => {
    const ended = await heddle("data", ...args);
    expect(ended.stderr).toMatch(message);
    expect(ended.status).toBe(status);
  });

  test("damaged schemas are refused", () => {
    expect(() => frames.schemaFrom({ format: 2, columns: [] })).toThrow(/format 2/);
    expect(() => frames.schemaFrom({ columns: [{ name: "a" }] })).toThrow(/column 0 is malformed/);
    expect(() => frames.schemaFrom([])).toThrow(/not that of a schema/);
  });
});
