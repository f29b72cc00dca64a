import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type DType, dtypeNames } from "../../src/ir/dtype.ts";
import { promote } from "../../src/ir/promote.ts";

const document = readFileSync(new URL("../../docs/dtypes.md", import.meta.url), "utf8");
const cells = (line: string): string[] =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());

describe("the table of promotions in docs/dtypes.md", () => {
  const lines = document.split("\n");
  const start = lines.findIndex((line) => line.startsWith("|      | bool"));
  const [, ...columns] = cells(lines[start] as string);
  const body = lines.slice(start + 2, start + 2 + columns.length).map(cells);

  it("has a row and a column for every dtype", () => {
    expect([...columns].sort()).toEqual([...dtypeNames].sort());
    expect(body.map(([name]) => name)).toEqual(columns);
  });

  it("says what the code does", () => {
    for (const [left, ...results] of body)
      results.forEach((result, index) => {
        const made = promote(left as DType, columns[index] as DType);
        expect(made ?? "–", `${left} with ${columns[index]}`).toBe(result);
      });
  });

  it("is symmetric", () => {
    for (const x of dtypeNames) for (const y of dtypeNames) expect(promote(x, y)).toBe(promote(y, x));
  });
});
