import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DType } from "../../src/ir/dtype.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor, Node } from "../../src/ir/node.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import { topological } from "../../src/ir/walk.ts";
import * as ops from "../../src/ops/index.ts";
import { simplify, simplifyRules } from "../../src/passes/index.ts";
import { RewriteTrace } from "../../src/rewrite/index.ts";
import { choices, graphFrom, inputsFor } from "../support/random-graph.ts";
import { difference, makeTensor } from "../support/tensors.ts";

const { call } = ops;
const nan = Number.NaN;
const special = [0, -0, 1, -1, nan, Infinity, -Infinity, 0.5, 1e-45, 3e38, -7, 2];

/** A tensor of this shape with special values in it. */
const specials = (shape: readonly number[], dtype: DType = "f32"): HostTensor => {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Array.from({ length: size }, (_unused, index) => special[(index * 5 + 1) % special.length] as number);
  return makeTensor({
    dtype,
    shape,
    values:
      dtype === "bool"
        ? values.map((value) => Number(value > 0))
        : values.map((value) => (dtype === "f32" || dtype === "f64" ? value : Math.trunc(value) || 0)),
  });
};

interface Example {
  readonly rule: string;
  readonly inputs: readonly HostTensor[];
  readonly body: (...inputs: Node[]) => Node;
  /** Ops of the result, in order. */
  readonly ops: string;
}

const x = specials([12]);
const matrix = specials([3, 4]);
const cube = specials([2, 3, 2]);
const flag = specials([12], "bool");
const whole = specials([12], "i32");

/** What each rule is there for; the first of a rule's examples is the plainest. */
const examples: readonly Example[] = [
  {
    rule: "fold constants",
    inputs: [x],
    body: (a) => ops.add(a, ops.broadcastTo(ops.mul(ops.constant("f32", 3), ops.constant("f32", 4)), [12])),
    ops: "constant broadcast add",
  },
  {
    rule: "op before broadcast",
    inputs: [specials([4])],
    body: (a) => ops.exp(ops.broadcastInDim(a, [3, 4], [1])),
    ops: "exp broadcast",
  },
  {
    rule: "op before broadcast",
    inputs: [specials([4]), specials([])],
    body: (a, b) => ops.mul(ops.broadcastInDim(a, [3, 4], [1]), ops.broadcastInDim(b, [3, 4], [])),
    ops: "broadcast mul broadcast",
  },
  { rule: "add neutral", inputs: [x], body: (a) => ops.add(a, -0), ops: "" },
  { rule: "add neutral", inputs: [whole], body: (a) => ops.add(0, a), ops: "" },
  { rule: "subtract zero", inputs: [x], body: (a) => ops.sub(a, 0), ops: "" },
  { rule: "multiply by one", inputs: [x], body: (a) => ops.mul(1, a), ops: "" },
  { rule: "divide by one", inputs: [x], body: (a) => ops.div(a, 1), ops: "" },
  { rule: "divide by power of two", inputs: [x], body: (a) => ops.div(a, -8), ops: "constant broadcast mul" },
  { rule: "double negation", inputs: [x], body: (a) => ops.neg(ops.neg(a)), ops: "" },
  { rule: "double not", inputs: [flag], body: (a) => ops.not(ops.not(a)), ops: "" },
  {
    rule: "add negation",
    inputs: [x, specials([12])],
    body: (a, b) => ops.add(ops.neg(a), ops.exp(b)),
    ops: "exp sub",
  },
  { rule: "subtract negation", inputs: [x], body: (a) => ops.sub(ops.exp(a), ops.neg(a)), ops: "exp add" },
  { rule: "abs of sign change", inputs: [x], body: (a) => ops.abs(ops.abs(ops.neg(a))), ops: "abs" },
  { rule: "operand twice", inputs: [x], body: (a) => ops.maximum(a, a), ops: "" },
  { rule: "small power", inputs: [x], body: (a) => ops.pow(a, 2), ops: "mul" },
  { rule: "small power", inputs: [x], body: (a) => ops.pow(a, 0), ops: "constant broadcast" },
  { rule: "small power", inputs: [x], body: (a) => ops.pow(a, -1), ops: "constant broadcast div" },
  {
    rule: "select by constant",
    inputs: [x, specials([12])],
    body: (a, b) => ops.select(ops.full("bool", [12], 0), a, ops.exp(b)),
    ops: "exp",
  },
  { rule: "select of one", inputs: [flag, x], body: (c, a) => ops.select(c, a, a), ops: "" },
  {
    rule: "select by not",
    inputs: [flag, x],
    body: (c, a) => ops.select(ops.not(c), a, ops.exp(a)),
    ops: "exp select",
  },
  { rule: "cast to own dtype", inputs: [x], body: (a) => call("cast", [a], { dtype: "f32" }), ops: "" },
  { rule: "cast of cast", inputs: [x], body: (a) => ops.cast(ops.cast(a, "f64"), "i32"), ops: "cast" },
  { rule: "cast of cast", inputs: [whole], body: (a) => ops.cast(ops.cast(a, "f64"), "i32"), ops: "" },
  { rule: "transpose nothing", inputs: [matrix], body: (a) => call("transpose", [a], { order: [0, 1] }), ops: "" },
  {
    rule: "gather of cast",
    inputs: [matrix, makeTensor({ dtype: "i32", shape: [2], values: [2, 0] })],
    body: (a, i) => ops.gather(ops.cast(a, "f16"), i as Node),
    ops: "gather cast",
  },
  {
    rule: "transpose of transpose",
    inputs: [cube],
    body: (a) => ops.transpose(ops.transpose(a, [1, 2, 0]), [1, 2, 0]),
    ops: "transpose",
  },
  {
    rule: "transpose of ones",
    inputs: [specials([3, 1, 4])],
    body: (a) => ops.transpose(a, [0, 2, 1]),
    ops: "reshape",
  },
  {
    rule: "transpose of broadcast",
    inputs: [matrix],
    body: (a) => ops.transpose(ops.broadcastInDim(a, [3, 2, 4], [0, 2]), [1, 2, 0]),
    ops: "transpose broadcast",
  },
  {
    rule: "transpose of dot",
    inputs: [specials([3, 2]), specials([2, 4])],
    body: (a, b) => ops.transpose(ops.matmul(a, b)),
    ops: "dot",
  },
  { rule: "reshape nothing", inputs: [matrix], body: (a) => call("reshape", [a], { shape: [3, 4] }), ops: "" },
  {
    rule: "reshape of reshape",
    inputs: [matrix],
    body: (a) => ops.reshape(ops.reshape(a, [12]), [2, 6]),
    ops: "reshape",
  },
  {
    rule: "reshape of scalar",
    inputs: [specials([])],
    body: (a) => ops.reshape(ops.broadcastTo(a, [4]), [2, 2]),
    ops: "broadcast",
  },
  { rule: "broadcast nothing", inputs: [matrix], body: (a) => ops.broadcastInDim(a, [3, 4], [0, 1]), ops: "" },
  {
    rule: "broadcast of broadcast",
    inputs: [specials([3])],
    body: (a) => ops.broadcastInDim(ops.broadcastInDim(a, [3, 2], [0]), [2, 3, 2], [1, 2]),
    ops: "broadcast",
  },
  {
    rule: "broadcast of reshape",
    inputs: [matrix],
    body: (a) => ops.broadcastTo(ops.reshape(a, [3, 1, 4]), [3, 2, 4]),
    ops: "broadcast",
  },
  { rule: "reduce of ones", inputs: [x], body: (a) => call("reduce", [a], { op: "min", dims: [] }), ops: "" },
  { rule: "reduce of ones", inputs: [specials([3, 1])], body: (a) => ops.max(a, 1), ops: "reshape" },
  { rule: "reduce of reduce", inputs: [cube], body: (a) => ops.max(ops.max(a, 1), 1), ops: "reduce" },
  {
    rule: "reduce of transpose",
    inputs: [cube],
    body: (a) => ops.max(ops.transpose(a, [2, 1, 0]), 2),
    ops: "reduce transpose",
  },
  {
    rule: "dot of transpose",
    inputs: [specials([2, 3]), specials([4, 2])],
    body: (a, b) => ops.matmul(ops.transpose(a), ops.transpose(b)),
    ops: "dot",
  },
  { rule: "slice of all", inputs: [matrix], body: (a) => ops.slice(a, [0, 0], [3, 4]), ops: "" },
  {
    rule: "slice of slice",
    inputs: [x],
    body: (a) => ops.slice(ops.slice(a, [1], [12], [2]), [1], [5], [3]),
    ops: "slice",
  },
  {
    rule: "move within scalar",
    inputs: [specials([])],
    body: (a) => ops.reverse(ops.slice(ops.broadcastTo(a, [9]), [2], [7]), [0]),
    ops: "broadcast",
  },
  { rule: "pad by nothing", inputs: [x], body: (a) => ops.pad(a, ops.constant("f32", 1), [0], [0]), ops: "" },
  { rule: "reverse of ones", inputs: [specials([1, 4])], body: (a) => ops.reverse(a, [0]), ops: "" },
  {
    rule: "reverse of reverse",
    inputs: [cube],
    body: (a) => ops.reverse(ops.reverse(a, [0, 1]), [1, 2]),
    ops: "reverse",
  },
  { rule: "concat of one", inputs: [x], body: (a) => call("concat", [a], { dim: 0 }), ops: "" },
  {
    rule: "dynamic slice of all",
    inputs: [x, makeTensor({ dtype: "i32", shape: [], values: [5] })],
    body: (a, i) => call("dynamicSlice", [a, i], { sizes: [12] }),
    ops: "",
  },
  {
    rule: "update of all",
    inputs: [x, specials([12]), makeTensor({ dtype: "i32", shape: [], values: [5] })],
    body: (a, b, i) => call("dynamicUpdateSlice", [ops.exp(a), b, i]),
    ops: "",
  },
];

const graphOf = ({ inputs, body }: Pick<Example, "inputs" | "body">): Graph =>
  traceGraph(
    "example",
    inputs.map((type, index) => ({ name: `x${index}`, type: { dtype: type.dtype, shape: type.shape } })),
    (...nodes) => [body(...nodes)],
  );

const opsOf = (graph: Graph): string =>
  topological(graph.outputs)
    .map((node) => node.op.name)
    .filter((name) => name !== "parameter")
    .join(" ");

function expectSameBits(before: Graph, after: Graph, inputs: readonly HostTensor[]): void {
  const [expected, actual] = [ops.evaluateGraph(before, inputs), ops.evaluateGraph(after, inputs)];
  actual.forEach((result, index) => {
    expect(result.shape).toEqual(expected[index]?.shape);
    expect(result.dtype).toBe(expected[index]?.dtype);
    expect(difference(result.data, expected[index]?.data ?? [], 0)).toBeUndefined();
  });
}

describe("simplification", () => {
  it("has an example of every rule, and names each once", () => {
    const names = simplifyRules.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !examples.some((example) => example.rule === name))).toEqual([]);
    for (const { equation } of simplifyRules) expect(equation).toContain("=");
  });

  it.each(examples.map((example) => [`${example.rule} -> ${example.ops}`, example] as const))(
    "%s",
    (_title, example) => {
      const before = graphOf(example);
      const trace = new RewriteTrace();
      const after = simplify(before, trace);
      verifyGraph(after);
      expect(trace.counts().get(example.rule) ?? 0, [...trace.counts().keys()].join()).toBeGreaterThan(0);
      expect(opsOf(after)).toBe(example.ops);
      expectSameBits(before, after, example.inputs);
    },
  );

  const kept: readonly (readonly [string, readonly HostTensor[], Example["body"]])[] = [
    ["x + 0, because -0 + 0 is 0", [x], (a) => ops.add(a, 0)],
    ["x - (-0)", [x], (a) => ops.sub(a, -0)],
    ["x * 0, because of NaN and infinities", [x], (a) => ops.mul(a, 0)],
    ["x - x, because of NaN", [x], (a) => ops.sub(a, a)],
    ["x / x, because of NaN", [x], (a) => ops.div(a, a)],
    ["-(x - y), because of -0", [x, x], (a, b) => ops.neg(ops.sub(a, ops.exp(b)))],
    ["x / 3", [x], (a) => ops.div(a, 3)],
    ["x / 2^127, whose reciprocal is not exact in f32", [x], (a) => ops.div(a, 2 ** 127)],
    ["x / 0", [x], (a) => ops.div(a, 0)],
    ["integer x / 2, because it truncates", [whole], (a) => ops.div(a, 2)],
    ["casts that round", [x], (a) => ops.cast(ops.cast(a, "i32"), "f32")],
    ["casts that saturate on the way", [specials([12], "i32")], (a) => ops.cast(ops.cast(a, "f64"), "u8")],
    ["float sums of one, because -0 becomes 0", [specials([12, 1])], (a) => ops.sum(a, 1)],
    ["float sums over no dims, for the same reason", [x], (a) => call("reduce", [a], { op: "sum", dims: [] })],
    ["x^0.5, which differs from the root at -0", [x], (a) => ops.pow(a, 0.5)],
    ["a max of sums", [specials([3, 4])], (a) => ops.max(ops.sum(a, 1), 0)],
    [
      "a transposed product that is not a product the other way round",
      [specials([2, 3, 2]), specials([2, 2])],
      (a, b) => ops.transpose(ops.matmul(a, b), [0, 2, 1]),
    ],
  ];
  it.each(kept)("keeps %s", (_title, inputs, body) => {
    const before = graphOf({ inputs, body });
    const after = simplify(before);
    expect(opsOf(after)).toBe(opsOf(before));
  });

  it("leaves integer division by a constant zero to the run", () => {
    const graph = graphOf({ inputs: [], body: () => ops.div(ops.constant("i32", 1), ops.constant("i32", 0)) });
    expect(() => ops.evaluateGraph(simplify(graph), [])).toThrow(/div: integer division by zero \(i32\)/);
  });

  it("keeps every bit of random graphs, and is done after one pass", () => {
    const fired = new Set<string>();
    fc.assert(
      fc.property(choices, fc.nat(1000), (list, seed) => {
        const before = graphFrom(list);
        const trace = new RewriteTrace();
        const after = simplify(before, trace);
        for (const { rule } of trace.firings) fired.add(rule);
        verifyGraph(after);
        expectSameBits(before, after, inputsFor(before, seed));
        const again = new RewriteTrace();
        simplify(after, again);
        expect(again.firings).toEqual([]);
      }),
      { numRuns: 300 },
    );
    expect(fired.size).toBeGreaterThan(15);
  });
});
