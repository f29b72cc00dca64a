import { describe, expect, test } from "vitest";
import { gradients } from "../../src/autodiff/index.ts";
import { runPasses } from "../../src/compile/index.ts";
import { type Graph, type Node, range, type Shape, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";
import { type Layout, type Mesh, mesh, parseLayout, planGraph, trafficOf, verifyPlan } from "../../src/plan/index.ts";
import { executors } from "../support/executors.ts";
import { samples } from "./networks.ts";
import { expectAnswers, runPlan } from "./run.ts";

const f64 = (...shape: number[]) => ({ dtype: "f64" as const, shape });

/** A value and the gradients of its weighed sum by all inputs. */
function withGradients(shapes: readonly Shape[], build: (...inputs: Node[]) => Node): Graph {
  const specs = shapes.map((shape, index) => ({ name: `x${index}`, type: f64(...shape) }));
  return traceGraph("windows", specs, (...inputs) => {
    const y = build(...(inputs as Node[]));
    const weights = ops.sin(ops.cast(ops.iota("i32", [y.shape.reduce((size, dim) => size * dim, 1)], 0), "f64"));
    const loss = ops.sum(ops.mul(ops.mul(y, y), ops.reshape(weights, y.shape)));
    return [y, ...gradients(loss, inputs as Node[]).map((grad, index) => grad ?? ops.zerosLike(inputs[index] as Node))];
  });
}

async function check(
  graph: Graph,
  axes: Mesh,
  inputs: readonly (Layout | undefined)[],
  make: Parameters<typeof runPlan>[2],
) {
  const plan = planGraph(graph, axes, { inputs });
  verifyPlan(plan);
  const values = samples(graph);
  const expected = ops.evaluateGraph(graph, values);
  const results = await runPlan(plan, values, make);
  expectAnswers(results, expected);
  return plan;
}

interface Case {
  readonly height: number;
  readonly kernel: number;
  readonly stride: number;
  readonly padding: readonly [number, number];
  readonly dilation?: number;
}

const cases: readonly Case[] = [
  { height: 8, kernel: 3, stride: 1, padding: [1, 1] },
  { height: 8, kernel: 3, stride: 1, padding: [0, 0] },
  { height: 8, kernel: 3, stride: 2, padding: [1, 1] },
  { height: 16, kernel: 5, stride: 2, padding: [0, 0] },
  // Wider than a shard of four devices: rows come from devices further away.
  { height: 8, kernel: 7, stride: 1, padding: [3, 3] },
  { height: 12, kernel: 3, stride: 1, padding: [3, 2], dilation: 3 },
  { height: 11, kernel: 2, stride: 2, padding: [0, 1] },
];

const conv = (x: Node, w: Node, { stride, padding, dilation = 1 }: Case): Node =>
  ops.call("conv", [x, w], {
    layout: "b01f,01io->b01f",
    strides: [stride, 1],
    padding: [padding, [1, 1]],
    inputDilation: [1, 1],
    kernelDilation: [dilation, 1],
  });

const convGraph = (one: Case): Graph =>
  withGradients(
    [
      [2, one.height, 5, 3],
      [one.kernel, 3, 3, 4],
    ],
    (x, w) => conv(x, w, one),
  );

const pool =
  (op: "max" | "sum", one: Case) =>
  (x: Node): Node =>
    ops.call("reduceWindow", [x], {
      op,
      window: [1, one.kernel, 2, 1],
      strides: [1, one.stride, 2, 1],
      padding: [[0, 0], one.padding, [0, 0], [0, 0]],
    });

describe.each(executors)("$name", ({ make }) => {
  describe.each([2, 4])("height split over %i devices", (parts) => {
    const axes = mesh({ a: parts });
    const rows = parseLayout("S(1)");

    test.each(cases)(
      "convolution and its gradients: $height rows, kernel $kernel, stride $stride, $padding",
      async (one) => {
        const plan = await check(convGraph(one), axes, [rows, undefined], make);
        // Halos and the sum of the kernel's gradient; the image is never gathered.
        const names = new Set(trafficOf(plan).map(({ name }) => name));
        expect([...names].filter((name) => name !== "exchange")).toEqual(["allReduce"]);
      },
    );

    test.each(cases.filter(({ dilation, kernel }) => dilation === undefined && kernel < 6))(
      "pooling and its gradients: $height rows, window $kernel, stride $stride, $padding",
      async (one) => {
        for (const op of ["max", "sum"] as const)
          await check(withGradients([[2, one.height, 4, 3]], pool(op, one)), axes, [rows], make);
      },
    );

    test("concatenation, slices and padding along the split dim", async () => {
      const graph = withGradients(
        [
          [2, 8, 3],
          [2, 4, 3],
        ],
        (x, y) => {
          const joined = ops.concat([x, y, ops.slice(x, [0, 1, 0], [2, 7, 3], [1, 2, 1])], 1);
          return ops.pad(joined, ops.constant("f64", 0.5), [0, 2, 0], [0, -1, 0], [0, 1, 0]);
        },
      );
      await check(graph, axes, [rows, undefined], make);
      await check(graph, axes, [rows, rows], make);
    });
  });

  test("two spatial dims over two axes, corners included", async () => {
    const one: Case = { height: 8, kernel: 3, stride: 1, padding: [1, 1] };
    const graph = withGradients(
      [
        [2, 8, 6, 3],
        [3, 3, 3, 4],
      ],
      (x, w) => conv(x, w, one),
    );
    await check(graph, mesh({ a: 2, b: 2 }), [parseLayout("S(1) S(2)"), undefined], make);
  });

  test("behind the pass that changes the order of dims, over uneven shares, batch over another axis", async () => {
    const graph = withGradients(
      [
        [4, 3, 9, 5],
        [4, 3, 3, 3],
      ],
      (x, w) =>
        ops.call("conv", [x, w], {
          layout: "bf01,oi01->bf01",
          strides: [1, 1],
          padding: range(2).map(() => [1, 1]),
          inputDilation: [1, 1],
          kernelDilation: [1, 1],
        }),
    );
    const axes = mesh({ a: 2, b: 2 }, { shares: { b: [2, 1] } });
    await check(runPasses(graph), axes, [parseLayout("S(0) S(2:6+3)"), undefined], make);
  });
});

test("a halo is what a device lacks: one row to each neighbour, three programs for any number of devices", () => {
  const x = f64(2, 32, 5, 3);
  const specs = [
    { name: "x", type: x },
    { name: "w", type: f64(3, 3, 3, 4) },
  ];
  const graph = traceGraph("forward", specs, (a, w) => [
    conv(a as Node, w as Node, { height: 32, kernel: 3, stride: 1, padding: [1, 1] }),
  ]);
  const plan = planGraph(graph, mesh({ a: 8 }), { inputs: [parseLayout("S(1)"), undefined] });
  const row = 2 * 5 * 3 * 8;
  expect(range(8).map((device) => trafficOf(plan, device).reduce((sum, { sent }) => sum + sent, 0))).toEqual([
    row,
    ...range(6).map(() => 2 * row),
    row,
  ]);
  expect(plan.classes.map(({ devices }) => devices)).toEqual([[0], range(6).map((device) => device + 1), [7]]);
});
