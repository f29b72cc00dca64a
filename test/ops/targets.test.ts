import { expect, test } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { stablehloRules } from "../../src/hlo/index.ts";
import { absent, isAbsent } from "../../src/ir/node.ts";
import { allOps, defineOp } from "../../src/ir/op.ts";
import { allTargets } from "../../src/ir/target.ts";
import "../../src/lower/index.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { planGraph } from "../../src/plan/index.ts";
import { mesh as meshOfSizes } from "../../src/plan/mesh.ts";
import { costOf, splitGraph } from "../../src/program/index.ts";
import { baseRows, rowGraph, rowInputs } from "./table.ts";

// An op that is added has a rule for every target, has a body, or is listed here with the reason that it gives.
test("every target knows every op, or its body", () => {
  const missing = allTargets().map(({ name, ruleOf }) => {
    const rules = allOps().flatMap((op) => (isAbsent(op.body) ? [[op.name, ruleOf(op)] as const] : []));
    return [name, Object.fromEntries(rules.flatMap(([op, rule]) => (isAbsent(rule) ? [[op, rule.absent]] : [])))];
  });
  const program = "becomes a program of its own, not a kernel";
  // Sends and receives are steps of programs that differ by device, never nodes.
  const oneProgram = "StableHLO modules are one program for all replicas";
  expect(Object.fromEntries(missing)).toEqual({
    native: { parameter: "an executor binds it to an argument", scan: program, while: program, cond: program },
    stablehlo: {
      parameter: "is an argument of the function",
      send: oneProgram,
      receive: oneProgram,
      exchange: "StableHLO's replicas run one program, and these devices send different amounts",
    },
  });
});

test("rules are of ops that exist, and are given once", () => {
  const names = new Set(allOps().map(({ name }) => name));
  expect(stablehloRules.ops.filter((op) => !names.has(op))).toEqual([]);
  expect(() => stablehloRules.define({ add: absent("of this test") })).toThrow(
    "add is already defined for 'stablehlo'",
  );
});

test("native lowering is asked by executors alone: not by passes, planner, program and interpreter", () => {
  const rules = allOps().map((op) => [op, op.lower] as const);
  const forbid = (op: object): void => {
    Object.defineProperty(op, "lower", {
      configurable: true,
      get: () => {
        throw new TypeError("asked for op.lower");
      },
    });
  };
  for (const [op] of rules) forbid(op);
  try {
    const mesh = meshOfSizes({ data: 2 });
    const valid = baseRows.filter(({ fails }) => fails === undefined);
    for (const row of new Map(valid.map((each) => [each.op, each])).values()) {
      const graph = rowGraph(row);
      const plan = planGraph(runPasses(graph), mesh);
      costOf(splitGraph(plan.local, mesh.axes));
      evaluateGraph(graph, rowInputs(row));
    }
  } finally {
    for (const [op, value] of rules)
      Object.defineProperty(op, "lower", { value, configurable: true, enumerable: true });
  }
});

test("a form and native calls fit each other", () => {
  const fields = {
    doc: "Of this test.",
    example: absent("of a test"),
    infer: () => [],
    equation: absent("of a test"),
    linear: [],
    gradient: absent("of a test"),
    batch: absent("of a test"),
    localize: absent("of a test"),
    cost: () => 0,
    reference: absent("of a test"),
  } as const;
  const refused = "its form and the field 'lower' do not fit";
  expect(() => defineOp({ ...fields, name: "callsNothing", form: { kind: "kernel" } })).toThrow(refused);
  const view = { kind: "view", view: () => undefined } as const;
  expect(() => defineOp({ ...fields, name: "viewsAndCalls", form: view, lower: { emit: () => [] } })).toThrow(refused);
});
