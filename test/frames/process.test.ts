/** Frames that workers learn together, each from a part of the records. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { data, frames } from "heddle";
import { afterAll, expect, test } from "vitest";
import { heddle, withoutSpeed } from "../cli/heddle-process.ts";

const folder = mkdtempSync(join(tmpdir(), "frames-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const script = fileURLToPath(new URL("scripts/share.ts", import.meta.url));

/** Numbers of a frame's data, and the data with a mark in the place of each. */
function taken(text: string): { readonly numbers: readonly number[]; readonly rest: string } {
  const numbers: number[] = [];
  const rest = text.replace(/-?\d+(\.\d+)?(e-?\d+)?/g, (found) => {
    numbers.push(Number(found));
    return "#";
  });
  return { numbers, rest };
}

test.each([1, 3])("%i workers learn what one pass over all records teaches", async (workers) => {
  const path = join(folder, `${workers}.csv`);
  // Several blocks of the file, so that workers take turns, and fewer numbers than the sketch has room for.
  const line = (at: number): string =>
    `${at % 9 === 0 ? "" : ((at * 37) % 1500) / 7},w${(at * 13) % 11},"${"a b c ".repeat(at % 5)}${"long ".repeat(200)}t${at % 17}"`;
  writeFileSync(path, `number,word,text\n${Array.from({ length: 2000 }, (_unused, at) => line(at)).join("\n")}\n`);
  const rows = data.csv(path, { columns: { number: "f64", word: "text", text: "text" } });
  const alone = await frames.fit(rows, {
    x: [frames.scale("number", { impute: "median" }), frames.oneHot("word"), frames.bin("number", { impute: 0 })],
    ids: frames.words("text"),
  });
  const { status, stdout, stderr } = heddle(["run", script, "--workers", String(workers), "--", path]);
  expect(withoutSpeed(stderr)).toBe("");
  expect(status).toBe(0);
  const found = [...stdout.matchAll(/FRAME (\{.*\})$/gm)].map(([, text]) => text as string);
  expect(found).toHaveLength(2 * workers);
  // Every worker has the same bits.
  expect(new Set(found).size).toBeLessThanOrEqual(2);
  const expected = taken(JSON.stringify(alone));
  for (const text of found) {
    const own = taken(text);
    expect(own.rest).toBe(expected.rest);
    own.numbers.forEach((number, at) => {
      expect(number).toBeCloseTo(expected.numbers[at] as number, 9);
    });
  }
});
