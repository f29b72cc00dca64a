import { describe, expect, it } from "vitest";
import { stablehloText } from "../../src/hlo/index.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import { isAbsent, type Node } from "../../src/ir/node.ts";
import { allOps } from "../../src/ir/op.ts";
import { Trace } from "../../src/ir/trace.ts";
import { topological } from "../../src/ir/walk.ts";
import { call, evaluateGraph, matmul } from "../../src/ops/index.ts";
import { batchings, batchSize, onBatch, runBatched } from "../support/batch.ts";
import { partOf } from "../support/sample.ts";
import { baseRows, rowGraph } from "./table.ts";

/** Ops that no batch reaches, and why. */
const withoutBatch: { readonly [op: string]: string } = {
  parameter: "stands for an argument",
  constant: "has no inputs",
  iota: "has no inputs",
  axisIndex: "has no inputs",
  element: "picks a result of another op",
  allReduce: "appears in planned graphs only",
  allGather: "appears in planned graphs only",
  reduceScatter: "appears in planned graphs only",
  allToAll: "appears in planned graphs only",
  exchange: "appears in planned graphs only",
  gatherPart: "appears in planned graphs only",
  scatterAddPart: "appears in planned graphs only",
  send: "appears in programs of pipelines only",
  receive: "appears in programs of pipelines only",
};

const batchedRows = baseRows.flatMap((row) =>
  batchings(row).map((batched) => {
    const places = batched.flatMap((is, place) => (is ? [place] : []));
    return { name: `${row.op}: ${row.title}, batched input ${places.join(", ")}`, row, batched };
  }),
);

describe("every op on a batch", () => {
  it("has a rule, or a body that has", () => {
    const due = allOps().filter((op) => withoutBatch[op.name] === undefined);
    expect(due.filter((op) => isAbsent(op.batch) && isAbsent(op.body)).map((op) => op.name)).toEqual([]);
    const tested = new Set(batchedRows.map(({ row }) => row.op));
    expect(due.map((op) => op.name).filter((op) => !tested.has(op))).toEqual([]);
  });

  it("excuses only ops that have none", () => {
    const none = allOps().flatMap((op) => (isAbsent(op.batch) && isAbsent(op.body) ? [op.name] : []));
    expect(Object.keys(withoutBatch).sort()).toEqual(none.sort());
  });

  it.each(partOf(batchedRows, 5))("$name", ({ row, batched }) => runBatched(row, batched, evaluateGraph));

  it("is written as StableHLO", () => {
    const giving = batchedRows.filter(({ row: { fails } }) => fails === undefined);
    for (const { row, batched } of partOf(giving, 5, 1))
      expect(stablehloText(onBatch(rowGraph(row), batched, batchSize))).toContain("func.func");
  });

  it("computes once what does not depend on the batch", () => {
    const type = { dtype: "f32" as const, shape: [2, 2] };
    const specs = ["x", "y"].map((name) => ({ name, type }));
    const graph = traceGraph("g", specs, (x, y) => [matmul(x as Node, matmul(y as Node, y as Node))]);
    const products = topological(onBatch(graph, [true, false], batchSize).outputs).filter(
      ({ op }) => op.name === "dot",
    );
    expect(products.map(({ shape }) => shape)).toEqual([
      [2, 2],
      [batchSize, 2, 2],
    ]);
  });

  it("names the op that has no rule, with its reason", () => {
    const type = { dtype: "f32" as const, shape: [2] };
    const reduced = (x: Node): Node[] => [
      call("allReduce", [x], { axis: "data", parts: 2, reduction: "sum", label: "" }),
    ];
    const graph = traceGraph("g", [{ name: "x", type }], reduced, new Trace(true));
    expect(() => onBatch(graph, [true], batchSize)).toThrow(
      /allReduce f32\[2\] -> f32\[2\] cannot be batched: a collective is called for a whole batch at once: call it outside of vmap\s+at .*batch\.test/,
    );
  });
});
