import { describe, expect, test } from "vitest";
import { checkMatches, folded, foldedNames, matching, type Pattern } from "../../src/util/pattern.ts";

const names = [
  "embed.weight",
  "blocks.0.linear.weight",
  "blocks.0.linear.bias",
  "blocks.11.linear.weight",
  "head.weight",
  "head.bias",
  "a$b.w+",
];

const cases: readonly (readonly [Pattern, readonly number[]])[] = [
  ["head", [4, 5]],
  ["head.*", [4, 5]],
  ["head.**", [4, 5]],
  ["hea", []],
  ["*.weight", [0, 4]],
  ["**.weight", [0, 1, 3, 4]],
  ["blocks.**.weight", [1, 3]],
  ["blocks.*.linear.weight", [1, 3]],
  ["blocks.{0-5}", [1, 2]],
  ["blocks.{0,11}.linear.{weight,bias}", [1, 2, 3]],
  ["blocks.1", []],
  ["bl*.1*", [3]],
  ["**", [0, 1, 2, 3, 4, 5, 6]],
  [
    ["**", "!head", "head.bias"],
    [0, 1, 2, 3, 5, 6],
  ],
  [["!**.bias"], [0, 1, 3, 4, 6]],
  ["a$b.w+", [6]],
  ["e.bed", []],
];

test.each(cases)("%j", (pattern, places) => {
  const matches = matching("test", pattern);
  expect(names.flatMap((name, index) => (matches(name) ? [index] : []))).toEqual(places);
});

describe("names in few words", () => {
  const many = Array.from({ length: 12 }, (_unused, layer) =>
    ["q", "k"].flatMap((part) => [`layers.${layer}.${part}.weight`, `layers.${layer}.${part}.bias`]),
  ).flat();

  test("are patterns of those names", () => {
    expect(foldedNames(many)).toEqual(["layers.{0-11}.q.{weight,bias}", "layers.{0-11}.k.{weight,bias}"]);
    expect(many.filter(matching("test", foldedNames(many)))).toEqual(many);
    expect(foldedNames(["3.weight", "0.weight", "1.weight", "x"])).toEqual(["{0-1,3}.weight", "x"]);
    expect(folded([])).toBe("none");
    expect(folded("abcdefghijklmnop".split(""))).toMatch(/^a, b, .*, k, … \(16 in all\)$/);
  });

  test("stand in the error of a pattern that matches none", () => {
    expect(() => checkMatches("trainable", ["layers.0", "head"], many)).toThrow(
      /^trainable: "head" matches none of the names[\s\S]*the names are layers\.\{0-11\}\.q\.\{weight,bias\}/,
    );
    expect(() => checkMatches("trainable", "heads", ["head", "body"])).toThrow(/did you mean "head"\?/);
    for (const wrong of ["", [], [""], 3, {}])
      expect(() => matching("trainable", wrong as never)).toThrow(/^trainable: must be a pattern/);
  });
});
