/** Gradients in 16 bits are summed over the devices in f32: the error does not grow with their number. */
import { describe, expect, test } from "vitest";
import { type DType, type HostTensor, type Node, roundTo, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";
import { collectivesOf, type Layout, mesh, type Placement, planGraph, replicate, shard } from "../../src/plan/index.ts";
import { runPlan } from "./run.ts";

const [rows, columns] = [256, 16];

/** The sum over the rows of x * y, computed in 16 bits and kept in f32, as the gradient of a layer's weights is. */
const graphOf = (dtype: DType) =>
  traceGraph(
    "gradient",
    ["x", "y"].map((name) => ({ name, type: { dtype: "f32" as const, shape: [rows, columns] } })),
    (x, y) => {
      const low = [x, y].map((value) => ops.cast(value as Node, dtype)) as [Node, Node];
      return [ops.mul(ops.cast(ops.matmul(ops.transpose(low[0], [1, 0]), low[1]), "f32"), 0.01)];
    },
  );

const inputs = ["x", "y"].map((_name, which): HostTensor => {
  const data = Float32Array.from(
    { length: rows * columns },
    (_unused, index) => Math.sin(index * (which + 1) * 0.37) + 0.3,
  );
  return { dtype: "f32", shape: [rows, columns], data };
});

/** In f64, of values that were rounded to 16 bits as the layer's are. */
const exact = (dtype: DType): number[] => {
  const [x, y] = inputs.map(({ data }) => Array.from(data as Float32Array, (value) => roundTo(dtype, value) as number));
  return Array.from({ length: columns * columns }, (_unused, at) => {
    let sum = 0;
    for (let row = 0; row < rows; row++)
      sum +=
        (x?.[row * columns + Math.floor(at / columns)] as number) * (y?.[row * columns + (at % columns)] as number);
    return 0.01 * sum;
  });
};

describe.each(["bf16", "f16"] as const)("%s", (dtype) => {
  test.each([
    ["whole", replicate],
    ["in parts", shard(0)],
  ] as [string, Placement][])("the sum over the devices, %s, is in f32", async (_name, wanted) => {
    const graph = graphOf(dtype);
    const expected = exact(dtype);
    const scale = Math.max(...expected.map(Math.abs));
    const errors: number[] = [];
    for (const size of [1, 2, 4, 16]) {
      const devices = mesh({ data: size });
      const layout: Layout = [shard(0)];
      const plan = planGraph(graph, devices, { inputs: [layout, layout], outputs: [[wanted]] });
      const sums = collectivesOf(plan).map(({ dtype }) => dtype);
      expect(new Set(sums)).toEqual(new Set(["f32"]));
      const [sum] = await runPlan(plan, inputs);
      errors.push(Math.max(...expected.map((value, at) => Math.abs((sum?.data[at] as number) - value))) / scale);
    }
    // Each device rounds its own contribution once.
    for (const error of errors) expect(error).toBeLessThan(dtype === "bf16" ? 2 ** -8 : 2 ** -11);
  });
});
