import { describe, expect, test } from "vitest";
import { gradients } from "../../src/autodiff/index.ts";
import { runPasses } from "../../src/compile/index.ts";
import { type Graph, type HostTensor, type Node, printGraph, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";
import { type Mesh, mesh, type Plan, parseLayout, parsePlan, planGraph, printPlan } from "../../src/plan/index.ts";
import { executors } from "../support/executors.ts";
import { difference, randomFrom } from "../support/tensors.ts";
import { expectAnswers, runPlan } from "./run.ts";

const [height, width, inner] = [40, 36, 3];
// The last two are filled up to the capacity.
const rows = [0, 0, 3, 7, 7, 7, 20, 21, 39, 39, 0, 0];
const columns = [5, 35, 0, 1, 2, 2, 17, 30, 35, 4, 0, 0];

function given(): HostTensor[] {
  const random = randomFrom(9);
  const ints = (data: number[]): HostTensor => ({ dtype: "i32", shape: [data.length], data: Int32Array.from(data) });
  const dense = Float64Array.from({ length: width * inner }, () => random() * 2 - 1);
  const values = Float64Array.from(rows, (_row, index) => (index < 10 ? random() * 2 - 1 : 0));
  return [
    { dtype: "f64", shape: [rows.length], data: values },
    ints(rows),
    ints(columns),
    { dtype: "f64", shape: [width, inner], data: dense },
  ];
}

/** A product, a loss of it, and the gradients by the stored values and by the dense matrix. */
function graph(product: (matrix: Node, dense: Node) => Node): Graph {
  const specs = given().map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  return traceGraph("sparse", specs, (values, where, at, dense) => {
    const matrix = ops.sparse(values as Node, where as Node, at as Node, [height, width]);
    const y = product(matrix, dense as Node);
    return [y, ...(gradients(ops.sum(ops.mul(y, ops.tanh(y))), [values as Node, dense as Node]) as Node[])];
  });
}

const forms = {
  "A B": (a: Node, b: Node) => ops.matmul(a, b),
  "B^T A^T": (a: Node, b: Node) => ops.matmul(ops.transpose(b, [1, 0]), ops.transpose(a, [1, 0])),
  "sum over the first dim of A^T": (a: Node, b: Node) =>
    ops.dotGeneral(b, a, { xBatch: [], yBatch: [], xContract: [0], yContract: [1] }),
};

/** The dense matrix, by loops. */
function byHand([values, , , dense]: readonly HostTensor[]): number[] {
  const y = new Array<number>(height * inner).fill(0);
  rows.forEach((row, index) => {
    for (let j = 0; j < inner; j++)
      (y[row * inner + j] as number) +=
        (values?.data[index] as number) * (dense?.data[(columns[index] as number) * inner + j] as number);
  });
  return y;
}

describe.each(executors)("a sparse matrix, $name", ({ make }) => {
  const splits: readonly (readonly [string, Mesh, readonly string[]])[] = [
    ["one device", mesh({}), ["", "", "", ""]],
    ["entries split over two devices", mesh({ a: 2 }), ["S(0)", "S(0)", "S(0)", "R"]],
    ["entries unequally", mesh({ a: 2 }), ["S(0:7+5)", "S(0:7+5)", "S(0:7+5)", "R"]],
    ["rows of the dense matrix on another axis", mesh({ a: 2, b: 2 }), ["S(0) R", "S(0) R", "S(0) R", "R S(0)"]],
  ];
  test.each(splits)("%s", async (_what, axes, layouts) => {
    for (const [form, product] of Object.entries(forms)) {
      const whole = graph(product);
      const expected = ops.evaluateGraph(whole, given());
      const plan = planGraph(runPasses(whole), axes, { inputs: layouts.map(parseLayout) });
      const results = await runPlan(plan, given(), make);
      expectAnswers(results, expected, `${form}, `);
      if (form === "A B") expect(difference((results[0] as HostTensor).data, byHand(given()), 1e-12)).toBeUndefined();
    }
  });
});

test.each(Object.entries(forms))("%s and its gradients never make the dense matrix", (_form, product) => {
  const plan = planGraph(runPasses(graph(product)), mesh({}));
  const made = printGraph(plan.local);
  expect(made).not.toMatch(/f64\[(40,36|36,40|1440)\]/);
});

test("an op without a rule gets the dense matrix", () => {
  const specs = given().map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  const dense = traceGraph("dense", specs, (values, where, at) => [
    ops.tanh(ops.sparse(values as Node, where as Node, at as Node, [height, width])),
  ]);
  const plan = planGraph(runPasses(dense), mesh({}), {});
  expect(printPlan(plan)).toMatch(/tanh .* : f64\[40,36\]/);
});

/** A product with a matrix of so many entries, and the gradients by its values and by the dense one. */
function source(capacity: number, inner: number, [height, width]: readonly [number, number]): Graph {
  const ints = { dtype: "i32", shape: [capacity] } as const;
  const specs = [
    { name: "values", type: { dtype: "f32", shape: [capacity] } },
    { name: "rows", type: ints },
    { name: "columns", type: ints },
    { name: "dense", type: { dtype: "f32", shape: [width, inner] } },
  ] as const;
  return traceGraph("product", specs, (...nodes) => {
    const [values, where, at, dense] = nodes as [Node, Node, Node, Node];
    const y = ops.matmul(ops.sparse(values, where, at, [height, width]), dense);
    return [y, ...(gradients(ops.sum(ops.mul(y, y)), [values, dense]) as Node[])];
  });
}

const planned = (capacity: number, inner: number, shape: readonly [number, number] = [400, 300]): Plan =>
  planGraph(runPasses(source(capacity, inner, shape)), mesh({ a: 2 }), {
    inputs: ["S(0)", "S(0)", "S(0)", "R"].map(parseLayout),
  });

describe("the format", () => {
  test.each([
    [100, 8, "entries"],
    [3000, 8, "entries"],
    [60_000, 8, "entries"],
    [120_000, 8, "dense"],
    // Of a wide product every entry costs a row, an element of which takes as long as eight of a dense product.
    [100, 512, "entries"],
    [3000, 512, "entries"],
    [60_000, 512, "dense"],
  ] as const)("of 400 x 300 with %i entries times %i columns: %s", (capacity, inner, format) => {
    const plan = planned(capacity, inner);
    const type = (shape: number[]) => ({ dtype: "f32", shape });
    for (const each of plan.formats) expect(each).toMatchObject({ capacity, format });
    expect(plan.formats.map((each) => each.type)).toContainEqual(type([400, 300]));
    const text = printPlan(plan);
    expect(text).toContain(`format f32[400,300] of ${capacity} entries: ${format}\n`);
    expect(printPlan(parsePlan(text))).toBe(text);
    // Whole, or as it is filled.
    expect(/f32\[(400,300|300,400|120000)\]/.test(printGraph(plan.local))).toBe(format === "dense");
  });

  test.each([
    [4, 3, "entries"],
    [60, 64, "dense"],
  ] as const)(
    "with %i entries in 6 x 5 times %i columns (%s) the values are those of the dense matrix",
    async (capacity, inner, format) => {
      const random = randomFrom(capacity);
      const [height, width] = [6, 5] as const;
      const whole = planned(capacity, inner, [height, width]);
      expect(new Set(whole.formats.map((each) => each.format))).toEqual(new Set([format]));
      const places = (most: number): HostTensor => ({
        dtype: "i32",
        shape: [capacity],
        data: Int32Array.from({ length: capacity }, () => Math.floor(random() * most)),
      });
      const floats = (...shape: number[]): HostTensor => ({
        dtype: "f32",
        shape,
        data: Float32Array.from({ length: shape.reduce((all, size) => all * size, 1) }, () => random() * 2 - 1),
      });
      const inputs = [floats(capacity), places(height), places(width), floats(width, inner)];
      const expected = ops.evaluateGraph(source(capacity, inner, [height, width]), inputs);
      for (const { make } of executors)
        (await runPlan(whole, inputs, make)).forEach((result, index) => {
          expect(difference(result.data, (expected[index] as HostTensor).data, 1e-5)).toBeUndefined();
        });
    },
  );
});
