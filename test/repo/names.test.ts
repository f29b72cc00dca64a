/** The tables "From PyTorch" and "From Keras": every name of Heddle in them exists, and none is missing. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as heddle from "heddle";
import { describe, expect, test } from "vitest";
import * as methods from "../../src/functions/methods/index.ts";
import { foreignMembers } from "../../src/util/foreign.ts";
import { root } from "./pages.ts";

/** The names in backticks of a text: `nn.linear` of `` `nn.linear(10)` ``. */
const namesIn = (text: string): string[] =>
  [...text.matchAll(/`([a-zA-Z]\w*(?:\.\w+)*)/g)].map((match) => match[1] as string);

const tableCells = (text: string): string[][] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .map((row) => row.split(/(?<!\\)\|/));

/** The names behind the first column of the tables of a page; or in the second column alone. */
const namesOf = (page: string, columns: 1 | 2): string[] =>
  tableCells(readFileSync(join(root, page), "utf8")).flatMap((cells) => namesIn(cells.slice(2, 2 + columns).join(" ")));

const scope: { readonly [name: string]: unknown } = { ...heddle, x: heddle.tensor([1]) };

function exists(name: string): boolean {
  let value: unknown = scope;
  for (const part of name.split(".")) {
    if (
      typeof value === "function" ? !(part in value) : typeof value !== "object" || value === null || !(part in value)
    )
      return false;
    value = (value as { readonly [part: string]: unknown })[part];
  }
  return true;
}

/** What the tables say of options and of what `init` gives, and commands. */
const words = ["heddle", "result", "model", "params", "apply", "init", "seed"];

test.each([
  ["docs/from-pytorch.md", 250, /./],
  // Options and methods of a model stand there without a dot.
  ["docs/keras.md", 50, /\./],
])("every name of Heddle in the tables of %s exists", (page, least, form) => {
  const names = namesOf(page, 1).filter((name) => form.test(name));
  expect(names.length).toBeGreaterThan(least);
  expect(names.filter((name) => !exists(name) && !words.includes(name.split(".")[0] as string))).toEqual([]);
});

describe("docs/from-pytorch.md", () => {
  const names = namesOf("docs/from-pytorch.md", 2);

  test.each([
    ["nn", heddle.nn, ["applyLayer", "scopeKey", "uniformByFanIn"]],
    ["losses", heddle.losses, []],
    ["optim", heddle.optim, ["biasCorrection"]],
    ["metrics", heddle.metrics, ["isCounted"]],
  ] as const)(
    "no function of %s is missing but those for extensions",
    (module, exported, forExtensions: readonly string[]) => {
      const mentioned = (name: string): boolean => names.some((one) => `${one}.`.startsWith(`${module}.${name}.`));
      expect(
        Object.keys(exported)
          .filter((name) => !mentioned(name))
          .sort(),
      ).toEqual(forExtensions);
    },
  );

  test("no method of tensors is missing", () => {
    // What is no operation.
    const own = /^(?:constructor|.*Sync|contents|dispose|markDonated|isTraced|toJSON|toString|value|node)$/;
    const all = Object.getOwnPropertyNames(heddle.Tensor.prototype).filter(
      (name) => !own.test(name) && !foreignMembers.some((other) => other === name),
    );
    expect(all.length).toBeGreaterThan(100);
    expect(all.filter((name) => !names.includes(`x.${name}`))).toEqual([]);
  });
});

test("docs/library.md has every function that is a method, and its tables of functions name nothing else", () => {
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const [, elementwise = "", others = ""] = page.split(/^## (?:Elementwise functions|Picking, combining.*)$/m);
  const tables = [elementwise, others.split(/^#/m)[0] as string];
  const names = tables.flatMap((text) => tableCells(text).flatMap((cells) => namesIn(cells[1] as string)));
  expect(names.length).toBeGreaterThan(120);
  expect(names.filter((name) => !exists(name))).toEqual([]);
  const mentioned = new Set(namesIn(page).map((name) => name.replace("x.", "")));
  expect(Object.keys(methods).filter((name) => !mentioned.has(name))).toEqual([]);
});
