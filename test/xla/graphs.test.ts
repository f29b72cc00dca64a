import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { gradients } from "../../src/autodiff/index.ts";
import { runPasses } from "../../src/compile/index.ts";
import { type DType, type Graph, type HostTensor, type Node, traceGraph } from "../../src/ir/index.ts";
import { touchedRows } from "../../src/passes/touched-rows.ts";
import { mesh, parseLayout, planGraph } from "../../src/plan/index.ts";
import { splitGraph } from "../../src/program/index.ts";
import { attentionStep, inputsFor } from "../lower/graphs.ts";
import { mlpStep } from "../plan/networks.ts";
import { leNetGradient, smallLeNet } from "../support/lenet.ts";
import { evaluateGraph, gather, mean, mul, softmaxCrossEntropy, sub, sum } from "../support/nodes.ts";
import { choices, graphFrom, inputsFor as specialInputs } from "../support/random-graph.ts";
import { difference } from "../support/tensors.ts";
import { sameInXla } from "./differences.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

const tolerance: { readonly [dtype: string]: number } = { f32: 1e-5, f64: 1e-11 };

/** XLA reads them as 0, and a sign or a quotient then differs by more than rounding. */
const withoutSubnormals = (tensor: HostTensor): HostTensor => ({
  ...tensor,
  data: tensor.data.map((value) => (Math.abs(value) < 2 ** -126 ? 0 : value)),
});

async function compare(graph: Graph, inputs: readonly HostTensor[]): Promise<void> {
  const expected = evaluateGraph(graph, inputs);
  const actual = await oracle.evaluate(graph, inputs);
  expect(actual.map(({ dtype, shape }) => ({ dtype, shape }))).toEqual(
    expected.map(({ dtype, shape }) => ({ dtype, shape })),
  );
  actual.forEach(({ data, dtype }, index) => {
    const text = difference(data, expected[index]?.data ?? [], tolerance[dtype] ?? 0);
    expect(text, `${graph.name}: result ${index}`).toBeUndefined();
  });
}

describe("whole graphs in XLA", () => {
  test.each<DType>(["f32", "f64"])("LeNet and its gradient, %s", async (dtype) => {
    const graph = leNetGradient({ ...smallLeNet, dtype });
    await compare(graph, inputsFor(graph));
    await compare(runPasses(graph), inputsFor(graph));
  });

  test("attention and its update", async () => {
    const { graph } = attentionStep();
    await compare(graph, inputsFor(graph));
  });

  test("softmax cross-entropy, its gradient and the gradient of that", async () => {
    const specs = [
      { name: "logits", type: { dtype: "f64" as const, shape: [4, 3] } },
      { name: "labels", type: { dtype: "i32" as const, shape: [4] } },
    ];
    const graph = traceGraph("entropy", specs, (logits, labels) => {
      const loss = mean(softmaxCrossEntropy(logits as Node, labels as Node));
      const [first] = gradients(loss, [logits as Node]) as [Node];
      const [second] = gradients(sum(first), [logits as Node]) as [Node];
      return [loss, first, second];
    });
    await compare(graph, inputsFor(graph));
  });

  test("an update of a table by the rows that were looked up", async () => {
    const specs = [
      { name: "table", type: { dtype: "f32" as const, shape: [64, 3] } },
      { name: "ids", type: { dtype: "i32" as const, shape: [5] } },
    ];
    const whole = traceGraph("rows", specs, (table, ids) => {
      const found = gather(table as Node, ids as Node, 0);
      const [gradient] = gradients(sum(mul(found, found)), [table as Node]) as [Node];
      return [sub(table as Node, mul(gradient, 0.1)), sum(mul(gradient, gradient))];
    });
    const rows = touchedRows(whole, { fewer: 4, idBytes: 0, leastBytes: 0 });
    expect(rows).not.toBe(whole);
    const [table] = inputsFor(whole) as [HostTensor];
    await compare(rows, [table, { dtype: "i32", shape: [5], data: Int32Array.of(7, 63, 7, 2, 7) }]);
  });

  test("graphs drawn at random, with NaN, infinities and -0", async () => {
    const drawn = fc.sample(choices, { numRuns: 25, seed: 7 });
    for (const [seed, list] of drawn.entries()) {
      const graph = graphFrom(list);
      const inputs = specialInputs(graph, seed).map(withoutSubnormals);
      const expected = evaluateGraph(graph, inputs);
      const actual = await oracle.evaluate(graph, inputs);
      const wrong = expected.flatMap(({ data, dtype }, output) =>
        Array.from(data).filter((value, index) => {
          const got = actual[output]?.data[index] as number;
          return !sameInXla(got, value, dtype, 1e-5) && Math.abs(got - value) > 1e-6;
        }),
      );
      expect(wrong, `graph ${seed}`).toEqual([]);
    }
  }, 120_000);
});

describe("the regions of a planned program in XLA", () => {
  const grid = mesh({ data: 2 });
  const graph = mlpStep();
  const split = parseLayout("S(0)");
  const plan = planGraph(graph, grid, { inputs: [split, split] });
  const steps = splitGraph(plan.local, grid.axes).steps.filter((step) => step.kind === "run");

  test("there are several", () => {
    expect(steps.length).toBeGreaterThan(1);
  });

  test.each(steps.map(({ region }, index) => [index, region] as const))("region %i", async (_index, region) => {
    const inputs = inputsFor(region);
    const expected = evaluateGraph(region, inputs);
    const [actual] = await oracle.onMesh(region, grid.axes, [inputs, inputs]);
    expected.forEach(({ data, dtype }, index) => {
      expect(difference(actual?.[index]?.data ?? [], data, tolerance[dtype] ?? 0)).toBeUndefined();
    });
  });
});
