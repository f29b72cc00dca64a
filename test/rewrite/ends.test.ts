/** Rules come to an end: each use of one lowers the order of its pass, on every op and on convolutions of every layout. */
import { describe, expect, it } from "vitest";
import { passesBeforePlanning, runPasses } from "../../src/compile/index.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor, Node } from "../../src/ir/node.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import * as ops from "../../src/ops/index.ts";
import { formatRules, simplifyOrder } from "../../src/passes/index.ts";
import { pathOrder, RewriteTrace, rewriteGraph, rule } from "../../src/rewrite/index.ts";
import { baseRows, rowGraph, rows } from "../ops/table.ts";
import { rowGradient } from "../support/row.ts";
import { partOf } from "../support/sample.ts";
import { difference, makeTensor } from "../support/tensors.ts";
import { amongConvolutions, convolve, layouts, network } from "./layouts.ts";

const passed = (graph: Graph): Graph => runPasses(graph, passesBeforePlanning, { check: true });

const valuesFor = (graph: Graph): HostTensor[] =>
  graph.inputs.map(({ dtype, shape }, index) =>
    makeTensor({ dtype, shape, values: { low: -1, high: 1, seed: index } }),
  );

function expectSame(before: Graph, after: Graph, told: string): void {
  verifyGraph(after);
  const inputs = valuesFor(before);
  const expected = ops.evaluateGraph(before, inputs);
  ops.evaluateGraph(after, inputs).forEach((result, index) => {
    expect(result.shape, told).toEqual(expected[index]?.shape);
    expect(difference(result.data, expected[index]?.data ?? [], 1e-11), told).toBeUndefined();
  });
}

describe("passes come to an end", () => {
  it.each([
    [1, undefined],
    [2, 240],
    [3, 120],
  ] as const)("on convolutions of every layout, of %i spatial dims", (spatial, count) => {
    const named = spatial === 2 ? ["f01b,i01o->f01b", "bf01,oi01->bf01"] : [];
    for (const [index, layout] of [...named, ...layouts(spatial, count)].entries()) {
      const graph = network(layout);
      const after = passed(graph);
      if (index % 4 === 0) expectSame(graph, after, layout);
    }
  });

  it("on every op", () => {
    for (const row of rows) passed(rowGraph(row));
  });

  it.each([1, 2, 3])("on every op behind convolutions of any layout, of %i spatial dims", (spatial) => {
    const all = layouts(spatial, 500);
    let moved = 0;
    const part = partOf([...baseRows.entries()], 3, spatial);
    for (const [index, row] of part) {
      // Nothing to convolve.
      if (row.inputs.some(({ shape }) => shape.includes(0))) continue;
      const graph = amongConvolutions(row, all[(index * 7) % all.length] as string);
      const after = passed(graph);
      verifyGraph(after);
      if (after !== graph) moved++;
    }
    expect(moved).toBeGreaterThan(part.length / 3);
  });

  it("on the gradient of every op", () => {
    for (const row of baseRows) if (row.gradient !== false) passed(rowGradient(row).graph);
  });

  it("on matrices given by entries", () => {
    const trace = new RewriteTrace(simplifyOrder);
    const specs = [
      { name: "dense", type: { dtype: "f32" as const, shape: [3, 3] } },
      { name: "values", type: { dtype: "f32" as const, shape: [2] } },
      { name: "rows", type: { dtype: "i32" as const, shape: [2] } },
      { name: "columns", type: { dtype: "i32" as const, shape: [2] } },
    ];
    const graph = traceGraph("entries", specs, (...nodes) => {
      const [dense, entries, at, columns] = nodes as [Node, Node, Node, Node];
      const matrix = ops.sparse(entries, at, columns, [3, 3]);
      return [
        ops.matmul(ops.transpose(matrix), dense),
        ops.matmul(dense, matrix),
        ops.sampled(ops.matmul(dense, ops.exp(dense)), at, columns),
        ops.sampled(ops.transpose(dense), at, columns),
      ];
    });
    rewriteGraph(graph, formatRules, trace);
    expect([...trace.counts().keys()].sort()).toEqual(formatRules.map(({ name }) => name).sort());
  });

  it("where two convolutions bring in an order and its inverse", () => {
    const specs = ["x", "y", "w"].map((name) => ({
      name,
      type: { dtype: "f64" as const, shape: name === "w" ? [3, 3, 1, 1] : [3, 3, 3, 3] },
    }));
    const graph = traceGraph("both", specs, (x, y, w) => [
      ops.add(
        ops.mul(convolve(x as Node, w as Node, "bf01,oi01->bf01"), y as Node),
        convolve(y as Node, w as Node, "bf01,oi01->01fb"),
      ),
    ]);
    expectSame(graph, passed(graph), "both");
  });
});

describe("the order of rules", () => {
  const vector = { dtype: "f32" as const, shape: [2] };
  const first = (node: Node): Node => node.inputs[0] as Node;
  const traced = (body: (x: Node) => Node): Graph =>
    traceGraph("g", [{ name: "x", type: vector }], (x) => [body(x as Node)]);

  it("refuses a rule that can undo itself, and says which", () => {
    const swap = rule("sub", "swap", "x - y = y - x", (node) => ops.sub(node.inputs[1] as Node, first(node)));
    const graph = traced((x) => ops.sub(x, ops.exp(x)));
    expect(() => rewriteGraph(graph, [swap], new RewriteTrace(simplifyOrder))).toThrow(
      /'swap' does not lower sub f32\[2\].*it gives sub f32\[2\]/,
    );
  });

  it("refuses a rule that grows", () => {
    const grow = rule("neg", "grow", "-x = -(-(-x))", (node) => ops.neg(ops.neg(ops.neg(first(node)))));
    expect(() => rewriteGraph(traced(ops.neg), [grow], new RewriteTrace(simplifyOrder))).toThrow(
      /'grow' does not lower/,
    );
  });

  it("has what a node reads, lower ops over it, and fewer of the same below it", () => {
    const above = pathOrder(({ op: { name } }) => ({ exp: 2, neg: 1 })[name] ?? 0);
    traced((x) => {
      const [deep, flat] = [ops.exp(ops.neg(x)), ops.exp(x)];
      expect(above(deep, x)).toBe(true);
      expect(above(deep, flat)).toBe(true);
      expect(above(flat, ops.neg(ops.neg(x)))).toBe(true);
      expect(above(flat, deep)).toBe(false);
      expect(above(ops.neg(ops.neg(x)), flat)).toBe(false);
      expect(above(ops.add(deep, x), ops.add(flat, flat))).toBe(true);
      expect(above(ops.add(deep, x), ops.add(x, deep))).toBe(false);
      return x;
    });
  });
});
