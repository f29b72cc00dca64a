/** Graph, plan and program of ten small programs stay byte for byte what they were, or the change is looked at. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type Node, parseGraph, printGraph } from "../../src/ir/index.ts";
import { originField } from "../../src/lower/json.ts";
import { lowerProgram } from "../../src/lower/lower.ts";
import { parsePlan, printPlan, verifyPlan } from "../../src/plan/index.ts";
import { parseProgram, printProgram, verifyProgram } from "../../src/program/index.ts";
import { goldens, planGolden } from "./programs.ts";

describe.each(goldens.map((golden) => [golden.name, golden] as const))("%s", (name, golden) => {
  const { graph, plan, program } = planGolden(golden);
  const texts = { graph: printGraph(graph), plan: printPlan(plan), program: printProgram(program) };

  test.each(["graph", "plan", "program"] as const)("%s", async (stage) => {
    await expect(texts[stage]).toMatchFileSnapshot(`texts/${name}.${stage}.txt`);
  });

  test("each stage reads back, and is sound", () => {
    expect(printGraph(parseGraph(texts.graph))).toBe(texts.graph);
    expect(printPlan(parsePlan(texts.plan))).toBe(texts.plan);
    expect(printProgram(parseProgram(texts.program))).toBe(texts.program);
    verifyPlan(plan);
    verifyProgram(program);
  });
});

test.each(goldens.map((golden) => [golden.name, golden] as const))(
  "%s: calls with their nodes are those that run",
  (_name, golden) => {
    const { program } = planGolden(golden);
    const origins: (readonly Node[])[] = [];
    const { steps } = lowerProgram(program, { slots: 2, origins }).json;
    const plain = JSON.stringify(steps, (key, value) => (key === originField ? undefined : value));
    expect(plain).toBe(JSON.stringify(lowerProgram(program, { slots: 2 }).json.steps));
    expect(origins.length).toBeGreaterThan(0);
  },
);

test("the walk through the stages shows these very texts", () => {
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf8");
  const page = read("../../docs/walkthrough.md");
  for (const name of ["tensor-parallel", "recurrent"])
    for (const stage of ["graph", "plan", "program"])
      expect(page).toContain(read(`texts/${name}.${stage}.txt`).trimEnd());
});
