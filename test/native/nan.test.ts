/** @module NaN at every place of rows of every length up to twice the widest vector and three: what picks, orders or bounds values. */
import { afterAll, describe, expect, test } from "vitest";
import { traceGraph } from "../../src/ir/graph.ts";
import type { HostTensor, Node } from "../../src/ir/node.ts";
import * as ops from "../support/nodes.ts";
import { difference, makeTensor } from "../support/tensors.ts";
import { instructionSets, missing, nativeEvaluate } from "./evaluate.ts";

/** Lengths up to twice the lanes of the widest vector, and three more. */
const longest = { f32: 35, f64: 19 } as const;

/** Windows side by side and overlapping over rows; columns are channels, the lanes of vectors. */
function windowed(op: "max" | "min", image: Node, source: Node): Node[] {
  const n = image.shape[1] as number;
  const half = Math.ceil(n / 2);
  return [
    { size: 2, stride: 2, low: 0, high: 2 * half - n, out: half },
    { size: 3, stride: 1, low: 1, high: 1, out: n },
  ].flatMap(({ size, stride, low, high, out }) => {
    const padding = [
      [0, 0],
      [low, high],
      [0, 0],
    ];
    const attrs = { op, window: [1, size, 1], strides: [1, stride, 1], padding };
    return [
      ops.call("reduceWindow", [image], attrs),
      ops.call("selectAndScatter", [image, ops.slice(source, [0, 0, 0], [1, out, n])], attrs),
      ops.call("windowTake", [image, source], attrs),
    ];
  });
}

/** Of `x` [n, n + 1], whose row i has a NaN at place i of the first n, and `y` [n, n] without. */
function results(wide: Node, y: Node): Record<string, readonly Node[]> {
  const n = y.shape[0] as number;
  // Rows that lie apart, so that no loop runs over several; and the same without gaps.
  const apart = ops.slice(wide, [0, 0], [n, n]);
  const x = ops.barrier(apart, []);
  const image = ops.reshape(x, [1, n, n]);
  const source = ops.reshape(y, [1, n, n]);
  const each = (f: (x: Node, dim: number) => Node): Node[] => [f(apart, 1), f(x, 0)];
  const rows = ops.iota("i32", [n], 0);
  const scattered = (op: "max" | "min"): Node => ops.scatter(op, y, ops.mul(rows, 0), x);
  return {
    elementwise: [apart, x].flatMap((x) => [ops.maximum(x, y), ops.minimum(y, x)]),
    clamp: [apart, x].map((x) => ops.minimum(ops.maximum(x, -1), 1)),
    "clamp by NaN": [ops.minimum(ops.maximum(y, x), 1), ops.minimum(ops.maximum(y, -1), apart)],
    max: each(ops.max),
    min: each(ops.min),
    argMax: each(ops.argMax),
    argMin: each(ops.argMin),
    sort: [...each(ops.sort), ...ops.sortTogether([x, y], 1, { descending: true })],
    topK: ops.topK(x, Math.ceil(n / 3)),
    cumulative: [ops.cumulative("max", apart), ops.cumulative("min", x, 0), ops.cumulative("logSumExp", x)],
    softmax: each(ops.softmax),
    logSoftmax: each(ops.logSoftmax),
    logSumExp: each((x, dim) => ops.logSumExp(x, dim)),
    crossEntropy: [ops.softmaxCrossEntropy(x, rows)],
    "windows, max": windowed("max", image, source),
    "windows, min": windowed("min", image, source),
    "scatter max": [scattered("max")],
    "scatter min": [scattered("min")],
  };
}

function inputs(dtype: keyof typeof longest, n: number): HostTensor[] {
  const wide = makeTensor({ dtype, shape: [n, n + 1], values: { low: -3, high: 3, seed: n } });
  // Some values are equal.
  for (let i = 0; i < wide.data.length; i += 3) wide.data[i] = 1;
  for (let i = 0; i < n; i++) wide.data[i * (n + 1) + i] = Number.NaN;
  return [wide, makeTensor({ dtype, shape: [n, n], values: { low: -3, high: 3, seed: n + 100 } })];
}

describe.skipIf(missing !== undefined)("NaN in rows of every length", () => {
  const machines = instructionSets().map((isa) => ({ isa, ...nativeEvaluate(isa, 1, true) }));
  afterAll(() => {
    for (const machine of machines) machine.close();
  });

  test.each(["f32", "f64"] as const)("%s", async (dtype) => {
    for (let n = 1; n <= longest[dtype]; n++) {
      const given = inputs(dtype, n);
      const names: string[] = [];
      const specs = given.map(({ dtype, shape }, i) => ({ name: `x${i}`, type: { dtype, shape } }));
      const graph = traceGraph("nan", specs, (wide, y) =>
        Object.entries(results(wide as Node, y as Node)).flatMap(([name, nodes]) => {
          names.push(...nodes.map((_, i) => `${name} ${i}`));
          return nodes;
        }),
      );
      const expected = ops.evaluateGraph(graph, given);
      expect(expected.filter(({ data }) => [...data].some(Number.isNaN)).length).toBeGreaterThan(names.length / 2);
      for (const { isa, evaluate } of machines) {
        const got = await evaluate(graph, given);
        for (const [i, name] of names.entries()) {
          const text = difference((got[i] as HostTensor).data, (expected[i] as HostTensor).data, 1e-5);
          if (text !== undefined) expect.fail(`${name} of ${n} on ${isa}: ${text}`);
        }
      }
    }
  });
});
