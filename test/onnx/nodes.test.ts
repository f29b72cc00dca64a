/** Every node test of the package onnx, and the table of docs/onnx.md, which says what became of each. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { onnxOps } from "../../src/adapters/onnx/ops.ts";
import { type Outcome, runCase } from "./run-case.ts";

const cases = process.env["HEDDLE_ONNX_CASES"] as string;
const page = fileURLToPath(new URL("../../docs/onnx.md", import.meta.url));
const [begin, end] = ["<!-- written by npm run test:onnx -- --write -->", "<!-- end of the table -->"];
const outcomes = new Map<string, Outcome>();

/** Which op a test is of: the one it is named after, or, where a function was expanded, that function. */
const nameOf = (one: string): string => one.replace(/^test_/, "").replace(/_expanded(_ver\d+)?$/, "");

function table(): string {
  const count = (kind: Outcome["kind"]): number => [...outcomes.values()].filter((one) => one.kind === kind).length;
  const passed = new Map<string, number>();
  const skipped = new Map<string, string[]>();
  for (const [name, { kind, reason, ops }] of outcomes) {
    if (kind === "passed") for (const op of ops) passed.set(op, (passed.get(op) ?? 0) + 1);
    if (kind === "skipped") skipped.set(reason, [...(skipped.get(reason) ?? []), nameOf(name)]);
  }
  const reasons = [...skipped].sort(([left, a], [right, b]) => b.length - a.length || (left < right ? -1 : 1));
  return [
    begin,
    "",
    `${outcomes.size} tests: **${count("passed")} passed, ${count("skipped")} skipped, ${count("failed")} failed**.`,
    "",
    "Ops that are imported, each with the number of passed tests that use it:",
    "",
    `${onnxOps.map((op) => `${op} ${passed.get(op) ?? 0}`).join(", ")}.`,
    "",
    "| skipped because of | tests | such as |",
    "| --- | ---: | --- |",
    ...reasons.map(([reason, names]) => `| ${reason} | ${names.length} | ${names.slice(0, 3).join(", ")} |`),
    "",
    end,
  ].join("\n");
}

describe("node tests of the package onnx", () => {
  beforeAll(async () => {
    for (const name of readdirSync(cases).sort()) outcomes.set(name, await runCase(join(cases, name)));
  });

  test("none fails", () => {
    const failed = [...outcomes].filter(([, { kind }]) => kind === "failed");
    expect(failed.map(([name, { reason }]) => `${name}: ${reason}`)).toEqual([]);
    expect(outcomes.size).toBe(1884);
  });

  test("every op of the table passes some, so that no row is untested", () => {
    const used = new Set([...outcomes.values()].flatMap(({ kind, ops }) => (kind === "passed" ? ops : [])));
    // The package has no tests of these: test/io/onnx-random.test.ts has.
    const without = ["Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"];
    expect(onnxOps.filter((op) => !used.has(op))).toEqual(without);
  });

  test("docs/onnx.md has the table", () => {
    const text = readFileSync(page, "utf8");
    const [before, after] = [text.slice(0, text.indexOf(begin)), text.slice(text.indexOf(end) + end.length)];
    const wanted = `${before}${table()}${after}`;
    if (process.env["HEDDLE_ONNX_UPDATE"] === "1") writeFileSync(page, wanted);
    expect(readFileSync(page, "utf8")).toBe(wanted);
  });
});
