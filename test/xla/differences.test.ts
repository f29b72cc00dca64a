import { afterAll, describe, expect, test } from "vitest";
import "../../src/functions/composites/index.ts";
import { type Attrs, type HostTensor, type Node, traceGraph } from "../../src/ir/index.ts";
import { call, evaluateGraph, lt, mul, whileLoop } from "../../src/ops/index.ts";
import { given, makeTensor, type Source } from "../support/tensors.ts";
import { preparedPython, XlaOracle } from "./oracle.ts";

const oracle = new XlaOracle(preparedPython());
afterAll(() => oracle.close());

async function inXla(op: string, attrs: Attrs, ...sources: Source[]): Promise<number[]> {
  const inputs = sources.map(makeTensor);
  const specs = inputs.map((type, index) => ({ name: `x${index}`, type }));
  const graph = traceGraph("one", specs, (...nodes) => [call(op, nodes, attrs)]);
  return Array.from((await oracle.evaluate(graph, inputs))[0]?.data ?? []);
}

const i32 = (...values: number[]): Source => given("i32", [values.length], values);
const f32 = (...values: number[]): Source => given("f32", [values.length], values);

// What docs/stablehlo.md says of XLA where we raise an error, so that a new version of it is noticed.
describe("what XLA does where the meaning differs", () => {
  test("integer division by zero gives all bits", async () => {
    expect(await inXla("div", {}, i32(7, -7, 0), i32(0, 0, 0))).toEqual([-1, -1, -1]);
    expect(await inXla("div", {}, given("u8", [2], [7, 0]), given("u8", [2], [0, 0]))).toEqual([255, 255]);
  });

  test("integer remainder by zero gives the first operand", async () => {
    expect(await inXla("rem", {}, i32(7, -7, 0), i32(0, 0, 0))).toEqual([7, -7, 0]);
  });

  test("gather moves an index into range", async () => {
    expect(await inXla("gather", { batchDims: 0 }, f32(10, 20, 30), i32(-1, 3, 1))).toEqual([10, 30, 20]);
  });

  test("while goes on beyond its bound", async () => {
    const inputs = [f32(1)].map(makeTensor);
    const specs = [{ name: "x", type: inputs[0] as HostTensor }];
    const inner = [{ name: "i", type: { dtype: "i32" as const, shape: [] } }, ...specs];
    const condition = traceGraph("early", inner, (i) => [lt(i as Node, 5)]);
    const body = traceGraph("double", inner, (_i, x) => [mul(x as Node, 2)]);
    const graph = traceGraph("one", specs, (x) => whileLoop([x as Node], { condition, body, carries: 1, bound: 2 }));
    expect(Array.from((await oracle.evaluate(graph, inputs))[0]?.data ?? [])).toEqual([32]);
    expect(() => evaluateGraph(graph, inputs)).toThrow("whileLoop 'double' ran past maxIterations 2");
  });

  test("scatterAdd drops what is out of range", async () => {
    expect(await inXla("scatterAdd", { batchDims: 0, size: 3 }, f32(1, 2, 4), i32(-1, 3, 1))).toEqual([0, 4, 0]);
  });

  test("softmaxCrossEntropy takes the nearest label", async () => {
    const logits = given("f32", [2, 2], [0, 5, 0, 5]);
    const [low, high] = (await inXla("softmaxCrossEntropy", {}, logits, i32(-1, 2))) as [number, number];
    expect(low).toBeCloseTo(5.006715, 5);
    expect(high).toBeCloseTo(0.006715, 5);
  });

  test("subnormal results and operands are 0", async () => {
    expect(await inXla("mul", {}, f32(1e-30), f32(1e-10))).toEqual([0]);
    expect(await inXla("add", {}, f32(1e-40), f32(0))).toEqual([0]);
    expect(await inXla("exp", {}, f32(-88))).toEqual([0]);
  });
});
