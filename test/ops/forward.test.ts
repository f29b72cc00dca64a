import { describe, expect, it } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { isFloat } from "../../src/ir/dtype.ts";
import { type InputSpec, traceGraph } from "../../src/ir/graph.ts";
import type { Graph, Node } from "../../src/ir/node.ts";
import { nodesWithin } from "../../src/ir/walk.ts";
import { batchings } from "../support/batch.ts";
import { checkTangents, tangentGraph } from "../support/forward.ts";
import * as ops from "../support/nodes.ts";
import { inDouble } from "../support/row.ts";
import { makeTensor } from "../support/tensors.ts";
import { baseRows, rowGraph, rowInputs } from "./table.ts";

// A loop with a condition has no gradient, but it has tangents.
const smooth = baseRows.filter((row) => row.gradient !== false || row.op === "while");
const cases = smooth.flatMap((single) => {
  const row = inDouble(single) ?? single;
  const floats = (moving: boolean[]): boolean[] =>
    moving.map((is, place) => is && isFloat(row.inputs[place]?.dtype ?? "i32"));
  return batchings(row)
    .map(floats)
    .filter((moving) => moving.includes(true))
    .map((moving) => ({
      name: `${row.op}: ${row.title}, by ${moving.flatMap((is, place) => (is ? [place] : [])).join(", ")}`,
      row,
      moving,
    }));
});

describe("the tangent is that of central differences along a direction", () => {
  it.each(cases)("$name", async ({ row, moving }) => {
    await checkTangents(rowGraph(row), rowInputs(row), moving, typeof row.gradient === "object" ? row.gradient : {});
  });
});

describe("forward mode", () => {
  const spec = (...shape: number[]): InputSpec => ({ name: "x", type: { dtype: "f64", shape } });
  const layers = (depth: number): Graph =>
    traceGraph("layers", [spec(4, 4), spec(4, 4)], (x, w) => {
      let value = x as Node;
      for (let layer = 0; layer < depth; layer++)
        value = ops.softmax(ops.relu(ops.add(ops.matmul(ops.tanh(value), w as Node), ops.sin(value))));
      return [value];
    });

  it("grows with the graph and no faster", () => {
    const size = (graph: Graph): number => nodesWithin(graph).length;
    const [few, many] = [layers(4), layers(16)];
    const factor = (graph: Graph): number => size(runPasses(tangentGraph(graph, [true, true]))) / size(graph);
    expect(factor(many)).toBeLessThan(5);
    expect(factor(many)).toBeLessThan(factor(few) * 1.05);
  });

  it("does not run a loop a second time for its values", () => {
    const body = traceGraph(
      "body",
      [{ name: "i", type: { dtype: "i32", shape: [] } }, spec(2), spec(2)],
      (_i, c, x) => [ops.sin(ops.mul(c as Node, x as Node)), c as Node],
    );
    const graph = traceGraph("loop", [spec(2), spec(3, 2)], (c, xs) =>
      ops.scan([c as Node, xs as Node], { body, length: 3, carries: 1, slices: 1, reverse: false }),
    );
    const made = tangentGraph(graph, [true, true]);
    expect(nodesWithin(made).filter((node) => node.op.name === "scan")).toHaveLength(1);
  });

  it("nests", async () => {
    const graph = traceGraph("f", [spec(3), spec(3)], (x, y) => [ops.sin(ops.mul(ops.exp(x as Node), y as Node))]);
    const [x, y, u, v] = [1, 2, 3, 4].map((seed) =>
      makeTensor({ dtype: "f64", shape: [3], values: { low: -1, high: 1, seed } }),
    );
    const once = tangentGraph(graph, [true, true]);
    await checkTangents(once, [x, y, u, v] as never, [true, true, true, true]);
  });

  it("names an op without a gradient", () => {
    const rows: InputSpec = { name: "rows", type: { dtype: "i32", shape: [3] } };
    const start: InputSpec = { name: "start", type: { dtype: "i32", shape: [] } };
    const graph = traceGraph("g", [spec(2), rows, start], (...inputs) => [
      ops.call("gatherPart", inputs, { batchDims: 0, total: 4 }),
    ]);
    expect(() => tangentGraph(graph, [true, false, false])).toThrow(
      /gatherPart f64\[2\].* has no derivative: appears in planned graphs only/,
    );
  });
});
