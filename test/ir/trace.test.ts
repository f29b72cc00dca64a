import { describe, expect, it } from "vitest";
import { traceGraph } from "../../src/ir/graph.ts";
import type { Graph, Node } from "../../src/ir/node.ts";
import { apply, atPositionOf, currentTrace, positionOf, Trace, withTrace } from "../../src/ir/trace.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import { topological, usersOf } from "../../src/ir/walk.ts";
import { add, call, evaluateGraph, expandNode, mul, neg, relu, sum } from "../../src/ops/index.ts";
import { describePosition } from "../../src/util/source.ts";

const vector = (name: string, size = 2) => ({ name, type: { dtype: "f32" as const, shape: [size] } });

describe("a trace", () => {
  it("makes equal nodes once, whatever the order of attributes", () => {
    traceGraph("g", [vector("x")], (x) => {
      expect(neg(x)).toBe(neg(x));
      expect(call("reduce", [x], { op: "sum", dims: [0] })).toBe(call("reduce", [x], { dims: [0], op: "sum" }));
      expect(call("constant", [], { dtype: "f32", value: 0 })).not.toBe(
        call("constant", [], { dtype: "f32", value: -0 }),
      );
      return [x];
    });
  });

  it("refuses values of another trace, even with an id of its own", () => {
    let foreign: Node | undefined;
    traceGraph("first", [vector("x")], (x) => {
      foreign = x;
      return [neg(x)];
    });
    expect(() =>
      traceGraph("second", [vector("y")], (y) => {
        neg(y);
        return [neg(foreign as Node)];
      }),
    ).toThrow(/neg: input parameter f32\[2\] belongs to another trace/);
  });

  it("is needed to make nodes, and ends with its function, also by an error", () => {
    expect(() => call("constant", [], { dtype: "f32", value: 1 })).toThrow(/no trace is in progress/);
    expect(() =>
      withTrace(new Trace(), () => {
        throw new Error("x");
      }),
    ).toThrow("x");
    expect(currentTrace()).toBeUndefined();
  });

  it("remembers where the user wrote a node, for its copies too", () => {
    const original = traceGraph("g", [vector("x")], (x) => [neg(x)], new Trace(true));
    const copy = traceGraph("copy", [vector("x")], (x) => [atPositionOf(original.outputs[0] as Node, () => add(x, x))]);
    const where = describePosition(positionOf(original.outputs[0] as Node));
    expect(where).toMatch(/trace\.test\.ts:\d+:\d+$/);
    expect(describePosition(positionOf(copy.outputs[0] as Node))).toBe(where);
  });

  it("gives the nodes of an expanded body the position of the composite", () => {
    const expanded = (x: Node): Node[] => {
      const y = relu(x);
      const body = atPositionOf(y, () => expandNode(y, [neg(x)])[0] as Node);
      expect(describePosition(positionOf(y))).toMatch(/trace\.test\.ts:\d+:\d+$/);
      expect(describePosition(positionOf(body))).toBe(describePosition(positionOf(y)));
      return [body];
    };
    traceGraph("g", [vector("x")], expanded, new Trace(true));
  });
});

describe("orders", () => {
  it("of very deep graphs do not overflow", () => {
    const graph = traceGraph("deep", [vector("x", 1)], (x) => {
      let value = x;
      for (let step = 0; step < 8_000; step++) value = add(value, x);
      return [value];
    });
    expect(topological(graph.outputs)).toHaveLength(8_001);
    verifyGraph(graph);
    const one = { dtype: "f32" as const, shape: [1], data: Float32Array.of(1) };
    expect(evaluateGraph(graph, [one])[0]?.data[0]).toBe(8_001);
  });

  it("know the users of each node", () => {
    traceGraph("g", [vector("x")], (x) => {
      const y = mul(x, x);
      const z = add(y, x);
      const users = usersOf([x, y, z]);
      expect([users.get(x), users.get(y), users.get(z)]).toEqual([[y, z], [z], []]);
      return [z];
    });
  });
});

describe("verifyGraph", () => {
  const good = (): Graph => traceGraph("g", [vector("x"), vector("y")], (x, y) => [sum(add(x, y))]);

  it("takes what tracing makes", () => {
    verifyGraph(good());
  });

  it.each<[string, (graph: Graph) => Graph, RegExp]>([
    [
      "a parameter that is no input",
      (graph) => ({ ...graph, inputs: graph.inputs.slice(0, 1) }),
      /parameter 'y' f32\[2\] is not an input/,
    ],
    ["inputs out of order", (graph) => ({ ...graph, inputs: [...graph.inputs].reverse() }), /input 0 is parameter 1/],
    ["an input that is no parameter", (graph) => ({ ...graph, inputs: graph.outputs }), /input 0 is not a parameter/],
    [
      "types that the op does not give",
      (graph) => ({ ...graph, outputs: [{ ...(graph.outputs[0] as Node), types: [{ dtype: "f64", shape: [] }] }] }),
      /has types that its op does not give/,
    ],
    [
      "a node older than its input",
      (graph) => ({ ...graph, outputs: [{ ...(graph.outputs[0] as Node), id: 0 }] }),
      /older than its input/,
    ],
  ])("refuses %s", (_what, spoil, message) => {
    expect(() => verifyGraph(spoil(good()))).toThrow(message);
  });
});

describe("apply", () => {
  it("says the user's line where types do not fit", () => {
    expect(() =>
      traceGraph("g", [vector("x", 2), vector("y", 3)], (x, y) => {
        return [apply(neg(x).op, [x, y], {})];
      }),
    ).toThrow(/neg: takes 1 inputs, got 2\n {2}at .*trace\.test\.ts:\d+:\d+/);
  });
});
