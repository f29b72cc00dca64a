/** Gathers of values that are only used in 16 bits: where casts come first, where they must not, and that the bits stay. */
import { expect, test } from "vitest";
import { type DType, type Graph, type HostTensor, type Node, traceGraph } from "../../src/ir/index.ts";
import { topological } from "../../src/ir/walk.ts";
import * as ops from "../../src/ops/index.ts";
import { type Layout, mesh, planGraph, replicate, shard } from "../../src/plan/index.ts";
import { arrangeGathers } from "../../src/prefetch/narrow.ts";
import { runPlan } from "./run.ts";

const types = {
  w: { dtype: "f32", shape: [8, 6] },
  x: { dtype: "f32", shape: [4, 8] },
} as const;

type Body = (w: Node, x: Node) => Node[];

const graphOf = (body: Body): Graph =>
  traceGraph(
    "narrow",
    [
      { name: "w", type: types.w },
      { name: "x", type: types.x },
    ],
    (w, x) => body(w as Node, x as Node),
  );

const product = (w: Node, x: Node, dtype: DType): Node =>
  ops.cast(ops.matmul(ops.cast(x, dtype), ops.cast(w, dtype)), "f32");

const inputs = Object.values(types).map(({ shape }, which): HostTensor => {
  const data = Float32Array.from(
    { length: shape[0] * shape[1] },
    (_unused, index) => Math.sin(index * (which + 1) * 0.7) + 0.1,
  );
  return { dtype: "f32", shape, data };
});

/** The dtypes of the gathers of a plan whose first input is stored in parts, with the pass and without. */
async function gathered(body: Body, size: number, stored: Layout) {
  const plan = (pass: (graph: Graph) => Graph) =>
    planGraph(graphOf(body), mesh({ data: size }), {
      inputs: [stored, [replicate]],
      uses: [[replicate], undefined],
      outputs: graphOf(body).outputs.map(() => [replicate]),
      finish: pass,
    });
  const [before, after] = [plan((local) => local), plan(arrangeGathers)];
  const values = [await runPlan(before, inputs), await runPlan(after, inputs)];
  expect(values[1]?.map((value) => value?.data)).toEqual(values[0]?.map((value) => value?.data));
  return topological(after.local.outputs)
    .filter(({ op }) => op.name === "allGather")
    .map(({ dtype }) => dtype)
    .sort();
}

test.each<[string, Body, string[]]>([
  ["a cast alone", (w, x) => [product(w, x, "bf16")], ["bf16"]],
  ["to f16", (w, x) => [product(w, x, "f16")], ["f16"]],
  // Each use has a gather of its own; those that follow each other share it.
  [
    "two uses of a cast",
    (w, x) => {
      const low = ops.cast(w, "bf16");
      const y = ops.matmul(ops.cast(x, "bf16"), low);
      return [ops.cast(ops.matmul(y, ops.transpose(low, [1, 0])), "f32")];
    },
    ["bf16"],
  ],
  ["a cast to a wider dtype", (w, x) => [product(w, x, "f64")], ["f32"]],
  // One gather serves both.
  ["a use in f32, too,", (w, x) => [product(w, x, "bf16"), ops.matmul(ops.exp(ops.exp(ops.exp(x))), w)], ["f32"]],
  // Two gathers, of which one is only cast.
  ["a value that is an output, too,", (w, x) => [product(w, x, "bf16"), w], ["bf16", "f32"]],
])("%s is gathered", async (_what, body, expected) => {
  for (const size of [2, 4]) expect(await gathered(body, size, [shard(0)])).toEqual(expected);
});

test("parts of unequal sizes travel as they are", async () => {
  expect(await gathered((w, x) => [product(w, x, "bf16")], 2, [shard(0, [5, 3])])).toEqual([]);
});
