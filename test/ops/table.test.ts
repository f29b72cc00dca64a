import { describe, expect, it } from "vitest";
import { isFloat } from "../../src/ir/dtype.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import { isAbsent, type Node } from "../../src/ir/node.ts";
import { allOps } from "../../src/ir/op.ts";
import { parseGraph } from "../../src/ir/parse.ts";
import { printGraph } from "../../src/ir/print.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import { call, evaluateGraph, resultsOf } from "../../src/ops/index.ts";
import { checkGradient, gradientSum, inDouble, weighed } from "../support/row.ts";
import { partOf } from "../support/sample.ts";
import { legalShardings } from "../support/shardings.ts";
import { difference } from "../support/tensors.ts";
import { baseRows, type Row, rowGraph, rowInputs, rows, runRow, shardedRows, withoutRow } from "./table.ts";

const name = (row: Row): string => `${row.op}: ${row.title}`;
const builder =
  (row: Row) =>
  (...inputs: Node[]) =>
    row.build?.(...inputs) ?? [call(row.op, inputs, row.attrs)];
/** The row in f64, as derivatives are checked. */
const double = (row: Row): Row => inDouble(row) ?? row;

describe("the table", () => {
  it("has a row for every op", () => {
    const covered = new Set([...rows.map(({ op }) => op), ...Object.keys(withoutRow)]);
    expect(
      allOps()
        .map((op) => op.name)
        .filter((op) => !covered.has(op)),
    ).toEqual([]);
  });

  it("excuses only ops that exist and have no row", () => {
    const names = new Set(allOps().map((op) => op.name));
    expect(Object.keys(withoutRow).filter((op) => !names.has(op) || rows.some((row) => row.op === op))).toEqual([]);
  });

  it("has one title per row", () => {
    const titles = rows.map(name);
    expect(titles.filter((title, index) => titles.indexOf(title) !== index)).toEqual([]);
  });

  it("says the shardings of every op that has an equation", () => {
    const said = new Set(shardedRows.map(({ op }) => op));
    const due = allOps().filter((op) => !isAbsent(op.equation) && withoutRow[op.name] === undefined);
    expect(due.map((op) => op.name).filter((op) => !said.has(op))).toEqual([]);
  });

  it("checks the gradient of every op that has one and takes floats", () => {
    const checked = new Set(baseRows.filter((row) => row.gradient !== false).map(({ op }) => op));
    const floats = new Set(
      baseRows
        .filter(
          (row) =>
            row.fails === undefined &&
            rowGraph(row).outputs.some(({ dtype }) => isFloat(dtype)) &&
            row.inputs.some(({ dtype }) => isFloat(dtype)),
        )
        .map(({ op }) => op),
    );
    // Their gradients are not those of central differences: that is what they are for.
    checked.add("stopGradient").add("refuseGradient");
    const due = allOps().filter((op) => floats.has(op.name) && (!isAbsent(op.gradient) || !isAbsent(op.body)));
    expect(due.map((op) => op.name).filter((op) => !checked.has(op))).toEqual([]);
  });
});

describe("the reference gives the independent values", () => {
  it.each(rows.map((row) => [name(row), row] as const))("%s", async (_name, row) => {
    await runRow(row, evaluateGraph);
  });
});

describe("the gradient is that of central differences", () => {
  const checked = baseRows.filter((row) => row.gradient !== false).map((row) => [name(row), double(row)] as const);
  it.each(checked)("%s", (_name, row) => {
    const inputs = rowInputs(row);
    const { body, inputs: all } = weighed(builder(row), inputs, 11);
    checkGradient(body, all, inputs.length, typeof row.gradient === "object" ? row.gradient : {});
  });
});

describe("the second derivative is that of central differences along a direction", () => {
  const differentiable = baseRows.filter((row) => row.gradient !== false);
  it.each(partOf(differentiable, 3).map((row) => [name(row), double(row)] as const))("%s", (_name, row) => {
    const inputs = rowInputs(row);
    const first = weighed(builder(row), inputs, 13);
    const second = gradientSum(first.body, first.inputs, inputs.length, 17);
    // The weights of the first derivative are inputs too: linear, and checked with the rest.
    checkGradient(second.body, second.inputs, inputs.length, { tolerance: 1e-6, along: 23 });
  });
});

describe("the shardings that follow from the equation are those written down", () => {
  it.each(shardedRows.map((row) => [name(row), row] as const))("%s", (_name, row) => {
    expect([...row.shardings].sort()).toEqual(legalShardings(rowGraph(row).outputs[0] as Node).sort());
  });
});

describe("documentation", () => {
  const documented = allOps().filter((op) => !isAbsent(op.example));
  it.each(documented.map((op) => [op.name, op] as const))("the example of %s", (_name, op) => {
    if (isAbsent(op.example)) return;
    const { inputs, attrs, outputs } = op.example;
    const types = inputs.map((type, index) => ({ name: `x${index}`, type }));
    const results = evaluateGraph(
      traceGraph("example", types, (...nodes) => resultsOf(call(op.name, nodes, attrs))),
      inputs,
    );
    expect(results.map(({ dtype, shape }) => ({ dtype, shape }))).toEqual(
      outputs.map(({ dtype, shape }) => ({ dtype, shape })),
    );
    results.forEach((result, index) => {
      expect(difference(result.data, outputs[index]?.data ?? [], 1e-6)).toBeUndefined();
    });
  });

  it("every op says what it does, and every absent rule why", () => {
    for (const op of allOps()) {
      expect(op.doc, op.name).toMatch(/^\S.*\.$/s);
      for (const [field, value] of Object.entries(op))
        if (isAbsent(value)) expect(value.absent, `${op.name}.${field}`).toMatch(/\S{3,}/);
    }
  });
});

describe("text", () => {
  it("of every row is read back as the same graph", () => {
    for (const row of rows) {
      const graph = rowGraph(row);
      const text = printGraph(graph);
      expect(printGraph(parseGraph(text))).toBe(text);
      verifyGraph(graph);
    }
  });
});
