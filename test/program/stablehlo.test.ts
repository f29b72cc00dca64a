import { gradients } from "heddle/autodiff";
import { hloLiteral, stablehloText } from "heddle/hlo";
import { type Graph, type Node, traceGraph } from "heddle/ir";
import { describe, expect, test } from "vitest";
import { rowGraph, rows } from "../ops/table.ts";
import * as ops from "../support/nodes.ts";
import { chain } from "./graphs.ts";

const f32 = (name: string, ...shape: number[]) => ({ name, type: { dtype: "f32" as const, shape } });

const perceptron = (): Graph =>
  traceGraph("perceptron", [f32("x", 4, 3), f32("w", 3, 2), f32("b", 2)], (x, w, b) => {
    const y = ops.tanh(ops.add(ops.matmul(x as Node, w as Node), b as Node));
    return [y, ops.argMax(y)];
  });

const entropy = (): Graph =>
  traceGraph("entropy", [f32("logits", 4, 3), { name: "labels", type: { dtype: "i32", shape: [4] } }], (x, labels) => {
    const loss = ops.mean(ops.softmaxCrossEntropy(ops.relu(x as Node), labels as Node));
    return [loss, ...gradients(loss, [x as Node])];
  });

// A change of these texts may be refused by a backend that took them before: `npm run test:xla` tells for XLA.
describe("the text of small graphs", () => {
  test("matrix product, broadcast, a reduction of pairs", async () => {
    await expect(stablehloText(perceptron())).toMatchFileSnapshot("golden/perceptron.mlir");
  });

  test("composites are functions", async () => {
    await expect(stablehloText(entropy())).toMatchFileSnapshot("golden/entropy.mlir");
  });

  test("collectives over two axes", async () => {
    const axes = [
      { name: "data", size: 2 },
      { name: "model", size: 2 },
    ];
    await expect(stablehloText(chain(2), { axes })).toMatchFileSnapshot("golden/collectives.mlir");
  });
});

test("every row of the table has a text, in which no name is missing", () => {
  for (const row of rows) {
    const text = stablehloText(rowGraph(row));
    expect(text, row.title).not.toMatch(/undefined|NaN|\[object/);
  }
});

test("a composite that is used twice is one function", () => {
  const text = stablehloText(
    traceGraph("twice", [f32("x", 2), f32("y", 2), f32("z", 3)], (x, y, z) =>
      [x, y, z].map((one) => ops.relu(one as Node)),
    ),
  );
  expect(text.match(/func\.func private @\w+/g)).toEqual(["func.func private @relu", "func.func private @relu_1"]);
  expect(text.match(/callee = @relu}/g)?.length).toBe(2);
});

test("the axes of collectives must be given", () => {
  expect(() => stablehloText(chain(2))).toThrow("the text has no mesh axis 'data'");
});

test("names that MLIR would not take are changed", () => {
  const graph = traceGraph("2nd step/x", [], () => [ops.constant("f32", 1)]);
  expect(stablehloText(graph)).toMatch(/^module @_2nd_step_x \{/);
});

test("numbers keep their bits", () => {
  const literal = (dtype: "f32" | "f64" | "u32" | "bool", value: number): string => hloLiteral(dtype, value);
  expect(literal("f32", 2)).toBe("2.0");
  expect(literal("f64", -0)).toBe("-0.0");
  expect(literal("f64", 1e-300)).toBe("1.0e-300");
  expect(literal("f32", -Infinity)).toBe("0xFF800000");
  expect(literal("f64", Number.NaN)).toBe("0x7FF8000000000000");
  expect(literal("u32", 4294967295)).toBe("4294967295");
  expect(literal("bool", 1)).toBe("true");
});
