import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { graphFingerprint, inputSpecs, mapGraph, traceGraph } from "../../src/ir/graph.ts";
import { absent, type Graph } from "../../src/ir/node.ts";
import { defineOp } from "../../src/ir/op.ts";
import { parseGraph } from "../../src/ir/parse.ts";
import { printGraph } from "../../src/ir/print.ts";
import { apply } from "../../src/ir/trace.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import { add, constant, evaluateGraph, mul, sum } from "../../src/ops/index.ts";
import { choices, graphFrom, inputsFor } from "../support/random-graph.ts";

const f32 = (...shape: number[]) => ({ dtype: "f32" as const, shape });
const small = (name = "g", input = "x"): Graph =>
  traceGraph(name, [{ name: input, type: f32(2) }], (x) => [sum(mul(x, x))]);

const roundTrip = (graph: Graph): void => {
  const text = printGraph(graph);
  expect(printGraph(parseGraph(text))).toBe(text);
};

// An op that owns a body, as loops will.
const applyBody = defineOp<{ body: Graph }>({
  name: "testApplyBody",
  doc: "Runs its body.",
  example: absent("of a test"),
  infer: (_inputs, { body }) =>
    body.outputs.map((output) => output.types[0] as { shape: readonly number[]; dtype: "f32" }),
  equation: absent("of a test"),
  linear: [],
  gradient: absent("of a test"),
  batch: absent("not batched in this test"),
  localize: absent("of a test"),
  cost: () => 0,
  reference: (inputs, { body }, _outputs, context) => context.evaluate(body, inputs).map((output) => output.data),
  form: absent("of a test"),
});

describe("text of graphs", () => {
  it("reads as in the documentation", () => {
    expect(printGraph(small("loss"))).toBe(`graph @loss(%0 x: f32[2]) {
  %1 = mul %0, %0 : f32[2]
  %2 = reduce %1 {dims: [0], op: "sum"} : f32[]
  return %2
}
`);
  });

  it("of random graphs is read back as the same graph with the same values", () => {
    fc.assert(
      fc.property(choices, fc.nat(1000), (list, seed) => {
        const graph = graphFrom(list);
        verifyGraph(graph);
        const read = parseGraph(printGraph(graph));
        verifyGraph(read);
        expect(printGraph(read)).toBe(printGraph(graph));
        const inputs = inputsFor(graph, seed);
        expect(evaluateGraph(read, inputs)).toEqual(evaluateGraph(graph, inputs));
      }),
      { numRuns: 150 },
    );
  });

  it.each(["0.weight", "a, b", "x: f32", "with space", "(q", "%1", "ends,", 'quo"ted', "back\\slash\\", "new\nline"])(
    "keeps the input name %j",
    (name) => {
      const graph = small("g", name);
      roundTrip(graph);
      expect(inputSpecs(parseGraph(printGraph(graph)))[0]?.name).toBe(name);
    },
  );

  it.each(["layer.1", "a.0.b", "step"])("keeps the graph name %j", (name) => {
    expect(parseGraph(printGraph(small(name))).name).toBe(name);
  });

  it("keeps NaN, infinities and -0 in attributes", () => {
    const values = [Number.NaN, Infinity, -Infinity, -0, 0, 1e-30, 0.1];
    roundTrip(traceGraph("g", [], () => values.map((value) => constant("f64", value))));
  });

  it("prints the graphs that ops own first, each once, under names of their own", () => {
    const body = (factor: number): Graph => traceGraph("body", [{ name: "x", type: f32(2) }], (x) => [mul(x, factor)]);
    const [first, second] = [body(2), body(3)];
    const graph = traceGraph("outer", [{ name: "x", type: f32(2) }], (x) => [
      apply(applyBody, [apply(applyBody, [apply(applyBody, [x], { body: first })], { body: second })], { body: first }),
    ]);
    verifyGraph(graph);
    roundTrip(graph);
    expect(printGraph(graph).match(/^graph @/gm)).toHaveLength(3);
    const input = { ...f32(2), data: Float32Array.of(1, 2) };
    expect([...(evaluateGraph(parseGraph(printGraph(graph)), [input])[0]?.data ?? [])]).toEqual([12, 24]);
  });

  it("does not depend on the order in which attributes were written", () => {
    const graph = traceGraph("g", [{ name: "x", type: f32(2, 3) }], (x) => {
      const [a, b] = [sum(x, 0), sum(x, 0)];
      expect(a).toBe(b);
      return [add(a, b)];
    });
    roundTrip(graph);
  });

  it("gives equal fingerprints to equal functions of different traces only", () => {
    expect(graphFingerprint(small())).toBe(graphFingerprint(small()));
    expect(graphFingerprint(mapGraph(small(), (node, inputs) => apply(node.op, inputs, node.attrs)))).toBe(
      graphFingerprint(small()),
    );
    expect(graphFingerprint(small())).not.toBe(graphFingerprint(small("g", "y")));
  });
});

describe("malformed text", () => {
  const line = (statement: string): string => `graph @g(%0 x: f32[2]) {\n  ${statement}\n  return %1\n}`;
  it.each([
    ["", /there is no graph/],
    ["hello", /line 1: expected 'graph @name/],
    [line("%1 = nothing %0 : f32[2]"), /there is no op 'nothing'/],
    [line("%1 = neg %7 : f32[2]"), /line 2: %7 is not defined/],
    [line("%1 = neg %0 : f32[3]"), /line 2: 'neg' gives f32\[2\], the text says f32\[3\]/],
    [line("%1 = neg %0 : g32[3]"), /line 2: 'g32\[3\]' is not a type/],
    [line("%1 = reduce %0 {dims: [0], op: @nowhere} : f32[]"), /line 2: graph @nowhere is not defined above/],
    [line("%1 = reduce %0 {dims: [0,, op: 1} : f32[]"), /line 2: malformed attribute/],
    [line("one = neg %0 : f32[2]"), /line 2: malformed line/],
    ["graph @g(%0 x: f32[2]) {\n}", /graph ends without 'return'/],
    ["graph @g(%0 x) {\n}", /line 1: malformed input/],
  ])("%j is refused with its line", (text, message) => {
    expect(() => parseGraph(text)).toThrow(message);
  });
});
