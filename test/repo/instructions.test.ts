/** The comparison of counted instructions with the figures, and the programs that are counted. */
import { expect, test } from "vitest";
import { compared } from "../../scripts/count-instructions.ts";
import { countedPrograms } from "../../scripts/instructions/programs.ts";
import figures from "../../scripts/instructions.json" with { type: "json" };

const cases = [
  { name: "the same count", count: 1000, ok: true, says: /100\.0 % of the figure$/ },
  { name: "growth by 10 %", count: 1100, ok: true, says: /110\.0 % of the figure$/ },
  { name: "more growth", count: 1101, ok: false, says: /GREW by more than 10 %/ },
  { name: "less than a tenth fewer", count: 920, ok: true, says: /92\.0 % of the figure$/ },
  { name: "many fewer", count: 900, ok: true, says: /fell by more than 10 %: write the figure with --update$/ },
] as const;

test.each(cases)("$name", ({ count, ok, says }) => {
  const result = compared({ one: count }, { one: 1000 });
  expect(result.ok).toBe(ok);
  expect(result.lines).toEqual([expect.stringMatching(says)]);
});

test("a program without a figure", () => {
  expect(compared({ one: 1, two: 1 }, { one: 1 })).toMatchObject({ ok: false });
});

test("there are ten programs, each with a figure", () => {
  expect(countedPrograms).toHaveLength(10);
  expect(Object.keys(figures)).toEqual(countedPrograms.map(({ name }) => name));
});
