import { describe, expect, it } from "vitest";
import { inputSpecs, traceGraph } from "../../src/ir/graph.ts";
import { absent, type Graph, type Node } from "../../src/ir/node.ts";
import { defineOp } from "../../src/ir/op.ts";
import { printGraph } from "../../src/ir/print.ts";
import type { TensorType } from "../../src/ir/shape.ts";
import { apply, positionOf, Trace } from "../../src/ir/trace.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import { abs, add, exp, mul, neg, sign } from "../../src/ops/index.ts";
import { RewriteTrace, type Rule, rewriteGraph, rule } from "../../src/rewrite/index.ts";
import { describePosition } from "../../src/util/source.ts";

const vector = (name: string) => ({ name, type: { dtype: "f32" as const, shape: [2] } });
const trace1 = (body: (x: Node) => Node): Graph => traceGraph("g", [vector("x")], (x) => [body(x)], new Trace(true));

const is = (node: Node | undefined, name: string): boolean => node?.op.name === name;
const first = (node: Node): Node => node.inputs[0] as Node;

const doubleNeg = rule("neg", "double negation", "-(-x) = x", (node) =>
  is(first(node), "neg") ? first(first(node)) : undefined,
);
const signFirst = rule("abs", "abs to neg", "|x| = -(-sign(x))", (node) => neg(neg(sign(first(node)))));
const signIsExp = rule("sign", "sign to exp", "sign(x) = exp(x)", (node) => exp(first(node)));

const rewritten = (body: (x: Node) => Node, rules: readonly Rule[], trace?: RewriteTrace): string => {
  const graph = rewriteGraph(trace1(body), rules, trace);
  verifyGraph(graph);
  return printGraph(graph)
    .split("\n")
    .slice(1, -2)
    .map((line) => line.trim())
    .join("; ");
};

describe("rewriteGraph", () => {
  it("goes on to a fixed point", () => {
    expect(rewritten((x) => neg(neg(neg(neg(neg(x))))), [doubleNeg])).toBe("%1 = neg %0 : f32[2]; return %1");
  });

  it("rewrites what rules put in place, inner nodes too", () => {
    expect(rewritten(abs, [doubleNeg, signFirst, signIsExp])).toBe("%1 = exp %0 : f32[2]; return %1");
  });

  it("takes the first rule of the list", () => {
    const one = rule("neg", "one", "-x = |x|", (node) => abs(first(node)));
    const two = rule("*", "two", "op(x) = x + x", (node) =>
      is(node, "neg") ? add(first(node), first(node)) : undefined,
    );
    expect(rewritten(neg, [one, two])).toBe("%1 = abs %0 : f32[2]; return %1");
    expect(rewritten(neg, [two, one])).toBe("%1 = add %0, %0 : f32[2]; return %1");
  });

  it("shares what becomes equal and drops what is not used", () => {
    expect(rewritten((x) => mul(neg(neg(x)), x), [doubleNeg])).toBe("%1 = mul %0, %0 : f32[2]; return %1");
  });

  it("keeps inputs, their order and their names, used or not", () => {
    const graph = traceGraph("g", [vector("a"), vector("b"), vector("c")], (_a, b) => [neg(neg(b)), b]);
    const result = rewriteGraph(graph, [doubleNeg]);
    expect(inputSpecs(result)).toEqual(inputSpecs(graph));
    expect(result.outputs).toEqual([result.inputs[1], result.inputs[1]]);
    expect(result.name).toBe("g");
  });

  it("changes nothing without rules", () => {
    const graph = trace1((x) => add(exp(x), x));
    expect(printGraph(rewriteGraph(graph, []))).toBe(printGraph(graph));
  });

  it("keeps source positions: of copies their own, of replacements that of the node they replace", () => {
    const graph = trace1((x) => {
      const y = exp(x);
      return abs(y);
    });
    const result = rewriteGraph(graph, [rule("abs", "abs to sign", "|x| = sign(x)", (node) => sign(first(node)))]);
    const where = (node: Node): string | undefined => describePosition(positionOf(node));
    const [before, after] = [graph.outputs[0] as Node, result.outputs[0] as Node];
    expect(where(after)).toBe(where(before));
    expect(where(first(after))).toBe(where(first(before)));
    expect(where(after)).toMatch(/rewrite\.test\.ts:\d+/);
    expect(where(after)).not.toBe(where(first(after)));
  });

  it("records which rule fired where", () => {
    const trace = new RewriteTrace();
    rewritten((x) => abs(neg(neg(x))), [doubleNeg, signFirst], trace);
    expect(trace.counts()).toEqual(
      new Map([
        ["double negation", 2],
        ["abs to neg", 1],
      ]),
    );
    expect(trace.firings[0]).toMatchObject({
      rule: "double negation",
      before: "neg f32[2] -> f32[2]",
      after: "parameter 'x' f32[2]",
    });
    expect(describePosition(trace.firings[1]?.position)).toMatch(/rewrite\.test\.ts:\d+/);
  });

  it("refuses rules that undo each other", () => {
    const there = rule("neg", "there", "-x = |x|", (node) => abs(first(node)));
    const back = rule("abs", "back", "|x| = -x", (node) => neg(first(node)));
    expect(() => rewritten(neg, [there, back])).toThrow(/rules do not come to an end at (neg|abs) f32\[2\]/);
  });

  it("refuses rules that grow without end", () => {
    const grow = rule("neg", "grow", "-x = |-(x + x)|", (node) => abs(neg(add(first(node), first(node)))));
    expect(() => rewritten(neg, [grow])).toThrow(/rules do not come to an end/);
  });

  it("handles very deep graphs", () => {
    const graph = trace1((x) => {
      let value = x;
      for (let step = 0; step < 6_000; step++) value = step % 2 === 0 ? neg(neg(exp(value))) : add(value, x);
      return value;
    });
    verifyGraph(rewriteGraph(graph, [doubleNeg]));
  });

  it("rewrites the graphs that ops own, each once", () => {
    const owner = defineOp<{ body: Graph }>({
      name: "testOwner",
      doc: "Owns a graph.",
      example: absent("of a test"),
      infer: (_inputs, { body }) => body.outputs[0]?.types[0] as TensorType,
      equation: absent("of a test"),
      linear: [],
      gradient: absent("of a test"),
      batch: absent("not batched in this test"),
      localize: absent("of a test"),
      cost: () => 0,
      reference: absent("of a test"),
      form: absent("of a test"),
    });
    const body = traceGraph("body", [vector("x")], (x) => [neg(neg(x))]);
    const trace = new RewriteTrace();
    const graph = trace1((x) => apply(owner, [apply(owner, [x], { body })], { body }));
    const result = rewriteGraph(graph, [doubleNeg], trace);
    expect(printGraph(result)).toContain("graph @body(%0 x: f32[2]) {\n  return %0\n}");
    expect(trace.firings).toHaveLength(1);
  });
});
