import { describe, expect, it } from "vitest";
import { gradients } from "../../src/autodiff/index.ts";
import { type PassReport, passesAfterPlanning, passesBeforePlanning, runPasses } from "../../src/compile/index.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { Graph, HostTensor, Node } from "../../src/ir/node.ts";
import { type Shape, sizeOf } from "../../src/ir/shape.ts";
import { verifyGraph } from "../../src/ir/verify.ts";
import { topological } from "../../src/ir/walk.ts";
import { channelsLast, expand, simplify } from "../../src/passes/index.ts";
import { RewriteTrace } from "../../src/rewrite/index.ts";
import { leNet, leNetGradient, smallLeNet } from "../support/lenet.ts";
import * as ops from "../support/nodes.ts";
import { difference, makeTensor } from "../support/tensors.ts";

const inputsOf = (graph: Graph): HostTensor[] =>
  graph.inputs.map(({ dtype, shape }, index) =>
    makeTensor({
      dtype,
      shape,
      values: { low: dtype === "i32" ? 0 : -1, high: dtype === "i32" ? smallLeNet.classes : 1, seed: 5 + index },
    }),
  );

const nodesOf = (graph: Graph, op: string): Node[] => topological(graph.outputs).filter((node) => node.op.name === op);

function expectSame(before: Graph, after: Graph, tolerance = 1e-12): void {
  verifyGraph(after);
  const inputs = inputsOf(before);
  const expected = ops.evaluateGraph(before, inputs);
  ops.evaluateGraph(after, inputs).forEach((result, index) => {
    expect(result.shape).toEqual(expected[index]?.shape);
    expect(difference(result.data, expected[index]?.data ?? [], tolerance)).toBeUndefined();
  });
}

/** The layouts that convolutions have in a graph, sorted. */
const layouts = (graph: Graph): string[] =>
  nodesOf(graph, "conv")
    .map((node) => String(node.attrs["layout"]))
    .sort();

describe("the layout of a LeNet", () => {
  const before = leNetGradient();
  const reports: PassReport[] = [];
  const after = runPasses(before, passesBeforePlanning, { onPass: (report) => reports.push(report) });

  it("keeps the loss and all gradients", () => {
    expectSame(before, after);
    expectSame(leNet(), runPasses(leNet()));
  });

  it("brings every convolution into a native layout", () => {
    expect(layouts(after)).toEqual([
      "b01f,io01->b01f",
      "b01f,oi01->b01f",
      "b01f,oi01->b01f",
      "f01b,i01o->01bf",
      "f01b,i01o->01bf",
    ]);
  });

  it("leaves transposes at the edges only", () => {
    // One user's transpose of the linear weight, and that of its gradient, before.
    expect(nodesOf(before, "transpose")).toHaveLength(2);
    const left = nodesOf(after, "transpose");
    const [flatten, unflatten, ...weights] = left;
    expect(left).toHaveLength(4);
    expect(topological(after.outputs).find((node) => node.inputs[0] === flatten)?.op.name).toBe("reshape");
    expect(unflatten?.inputs[0]?.op.name).toBe("reshape");
    expect(weights.map((node) => [node.inputs[0]?.op.name, after.outputs.includes(node)])).toEqual([
      ["conv", true],
      ["conv", true],
    ]);
  });

  it("moves pooling, bias and relu to channels last", () => {
    for (const op of ["reduceWindow", "selectAndScatter", "max", "add", "gt", "select"]) {
      for (const node of nodesOf(after, op))
        if (node.shape.length === 4) expect(smallLeNet.channels, `${op} ${node.shape}`).toContain(node.shape[3]);
    }
  });

  it("says which rules fired", () => {
    expect(reports.map(({ name }) => name)).toEqual([
      "open",
      "prune",
      "expand",
      "simplify",
      "residuals",
      "channelsLast",
    ]);
    const [, , expanded, simplified, , laidOut] = reports.map(({ trace }) => trace.counts());
    expect(expanded).toEqual(new Map([["expand composite", 2]]));
    expect(simplified?.get("dot of transpose")).toBe(2);
    expect(simplified?.get("transpose of dot")).toBe(1);
    expect(laidOut?.get("conv in native layout")).toBe(5);
    expect(laidOut?.get("transpose towards output")).toBeGreaterThan(5);
    expect(laidOut?.get("transpose of transpose")).toBeGreaterThan(5);
  });

  it("is stable: a second run fires nothing", () => {
    const trace = new RewriteTrace();
    channelsLast(after, trace);
    expect(trace.firings).toEqual([]);
  });

  it("stays as it is where the user wrote channels last", () => {
    const graph = convGraph([2, 6, 5, 3], [3, 3, 3, 4], (x, w) => conv(x, w, "b01f,01io->b01f"));
    expect(nodesOf(channelsLast(simplify(graph)), "transpose")).toEqual([]);
  });
});

const conv = (
  x: Node,
  kernel: Node,
  layout = "bf01,oi01->bf01",
  padding: readonly (readonly [number, number])[] = [
    [1, 1],
    [1, 1],
  ],
): Node => {
  const ones = padding.map(() => 1);
  return ops.call("conv", [x, kernel], { layout, strides: ones, padding, inputDilation: ones, kernelDilation: ones });
};

const convGraph = (x: Shape, kernel: Shape, body: (x: Node, kernel: Node) => Node): Graph =>
  traceGraph(
    "g",
    [
      { name: "x", type: { dtype: "f64", shape: x } },
      { name: "kernel", type: { dtype: "f64", shape: kernel } },
    ],
    (a, b) => {
      const loss = ops.sum(ops.mul(body(a, b), body(a, b)));
      return [body(a, b), ...gradients(loss, [a, b])];
    },
  );

const pool = (x: Node, op: "max" | "sum", window = [1, 1, 2, 2]): Node =>
  ops.call("reduceWindow", [x], { op, window, strides: window, padding: window.map(() => [0, 0]) });

describe("the layout of other networks", () => {
  const image = [2, 3, 6, 4];
  const weight = [3, 3, 3, 3];
  const bodies: readonly (readonly [string, (x: Node, w: Node) => Node])[] = [
    ["residual", (x, w) => ops.add(conv(ops.relu(conv(x, w)), w), x)],
    [
      "batch norm",
      (x, w) => {
        const y = conv(x, w);
        const centred = ops.sub(y, ops.mean(y, [0, 2, 3], { keepDims: true }));
        return ops.mul(
          centred,
          ops.rsqrt(ops.add(ops.mean(ops.mul(centred, centred), [0, 2, 3], { keepDims: true }), 0.1)),
        );
      },
    ],
    ["global average pool", (x, w) => ops.mean(conv(x, w), [2, 3])],
    ["average pool", (x, w) => conv(pool(conv(x, w), "sum"), w)],
    ["windows over channels and space", (x, w) => pool(conv(x, w), "max", [1, 3, 2, 1])],
    [
      "concatenated channels, padded, cut and reversed",
      (x, w) => {
        const y = conv(x, w);
        const joined = ops.concat([y, ops.tanh(y)], 1);
        const padded = ops.pad(joined, ops.constant("f64", 2), [0, 1, 0, 2], [0, 0, 1, 0], [0, 0, 1, 0]);
        return ops.reverse(ops.slice(padded, [0, 1, 0, 1], padded.shape, [1, 2, 1, 1]), [1, 3]);
      },
    ],
    ["soft max over channels", (x, w) => ops.softmax(conv(x, w), 1)],
    [
      "window larger than the output",
      (x, w) =>
        conv(conv(x, w), ops.broadcastTo(ops.reshape(w, [3, 3, 1, 9]), [3, 3, 6, 9]), "bf01,oi01->bf01", [
          [0, 0],
          [3, 3],
        ]),
    ],
    ["exotic layout", (x, w) => conv(ops.relu(conv(x, w, "0fb1,i01o->f1b0")), w, "f1b0,01oi->0b1f")],
    [
      "one channel",
      (x, w) => ops.relu(conv(ops.slice(x, [0, 0, 0, 0], [2, 1, 6, 4]), ops.slice(w, [0, 0, 0, 0], [1, 1, 3, 3]))),
    ],
  ];

  it.each(bodies)("keeps the values and gradients of: %s", (name, body) => {
    const exotic = name === "exotic layout";
    const before = convGraph(exotic ? [6, 3, 2, 4] : image, weight, body);
    const after = runPasses(before);
    expectSame(before, after, 1e-11);
    const allowed = /^(b01f,[io01]+->b01f|f01b,i01o->01bf)$/;
    expect(layouts(after).filter((layout) => !allowed.test(layout))).toEqual([]);
  });

  it("moves windows only where the first of equal elements stays the first", () => {
    const graph = convGraph(image, weight, (x, w) => pool(ops.mul(conv(x, w), 0), "max", [1, 3, 2, 1]));
    expectSame(graph, channelsLast(simplify(graph)), 0);
  });

  it("of one spatial dim", () => {
    const before = convGraph([2, 3, 8], [4, 3, 3], (x, w) => ops.relu(conv(x, w, "bf0,oi0->bf0", [[1, 1]])));
    const after = runPasses(before);
    expectSame(before, after, 1e-11);
    expect(layouts(after).every((layout) => /^(b0f,[io0]+->b0f|f0b,i0o->0bf)$/.test(layout))).toBe(true);
  });

  it("does nothing to graphs without convolutions", () => {
    const graph = traceGraph("g", [{ name: "x", type: { dtype: "f32", shape: [2, 3, 4, 5] } }], (x) => [
      ops.exp(ops.transpose(x, [0, 3, 1, 2])),
    ]);
    expect(channelsLast(graph)).toBe(graph);
  });
});

describe("the pipeline", () => {
  it("runs passes by name, times and counts them", () => {
    const reports: PassReport[] = [];
    const before = leNet();
    const graph = runPasses(before, passesBeforePlanning, {
      skip: ["open", "channelsLast", "expand", "prune", "residuals"],
      onPass: (report) => reports.push(report),
    });
    expect(reports).toHaveLength(1);
    expect(reports[0]).toMatchObject({ name: "simplify", before, after: graph });
    expect(reports[0]?.milliseconds).toBeGreaterThanOrEqual(0);
    expect(nodesOf(graph, "relu")).toHaveLength(2);
  });

  it("says why each pass is there, under a name of its own", () => {
    const all = [...passesBeforePlanning, ...passesAfterPlanning];
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    for (const { why } of all) expect(why.length).toBeGreaterThan(20);
  });

  it("verifies what a pass gives", () => {
    const broken = {
      name: "broken",
      why: "to be caught by the verifier",
      run: (graph: Graph): Graph => ({ ...graph, inputs: [] }),
    };
    expect(() => runPasses(leNet(), [broken])).toThrow(/is not an input/);
  });

  it("expands composites without a kernel and keeps the others", () => {
    const graph = expand(leNetGradient());
    expect(nodesOf(graph, "relu")).toEqual([]);
    expect(nodesOf(graph, "softmaxCrossEntropy")).toHaveLength(1);
    expect(nodesOf(graph, "softmaxCrossEntropyGrad")).toHaveLength(1);
  });

  it("uses sizes of the real network in little time", () => {
    const graph = leNetGradient({ batch: 128, side: 28, channels: [32, 64], kernel: 5, classes: 10, dtype: "f32" });
    const after = runPasses(graph);
    expect(nodesOf(after, "transpose")).toHaveLength(4);
    expect(sizeOf(after.outputs[3]?.shape ?? [])).toBe(64 * 32 * 25);
  });
});
