import { type DType, type Node, type Shape, traceGraph } from "heddle/ir";
import { type LoweredProgram, lowerProgram, printLowered } from "heddle/lower";
import * as ops from "heddle/ops";
import { splitGraph } from "heddle/program";
import { expect, test } from "vitest";
import { inputsFor, lenetStep } from "./graphs.ts";
import { simulate } from "./simulate.ts";

type Body = (...inputs: Node[]) => readonly Node[];

function graphOf(shapes: readonly Shape[], body: Body, dtype: DType = "f32") {
  const specs = shapes.map((shape, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  return traceGraph("test", specs, body);
}

const lines = (program: LoweredProgram): string[] => printLowered(program).trimEnd().split("\n").slice(1);

const product = ops.matmul;
const convolve = (x: Node, weight: Node): Node =>
  ops.call("conv", [x, weight], {
    layout: "b01f,01io->b01f",
    strides: [1, 1],
    padding: Array(2).fill([1, 1]),
    inputDilation: [1, 1],
    kernelDilation: [1, 1],
  });

const cases: { name: string; shapes: readonly Shape[]; body: Body; calls: readonly string[]; dtype?: DType }[] = [];
const add = (name: string, shapes: readonly Shape[], calls: readonly string[], body: Body, dtype?: DType): void => {
  cases.push({ name, shapes, body, calls, ...(dtype === undefined ? {} : { dtype }) });
};

const dense: readonly Shape[] = [[4, 6], [6, 8], [8], [4, 8]];
add("a product, bias and relu", dense, ["dot+bias+relu"], (x, y, b) => [
  ops.maximum(ops.add(product(x as Node, y as Node), b as Node), 0),
]);
add("the bias first, the bound first", dense, ["dot+bias+relu"], (x, y, b) => [
  ops.maximum(0, ops.add(b as Node, product(x as Node, y as Node))),
]);
add("a bias alone", dense, ["dot+bias"], (x, y, b) => [ops.add(product(x as Node, y as Node), b as Node)]);
add(
  "a single row twice is no bias",
  [
    [1, 6],
    [6, 8],
  ],
  ["dot", "fused"],
  (x, y) => {
    const made = product(x as Node, y as Node);
    return [ops.add(made, made)];
  },
);
add(
  "bf16, whose group casts from and to f32",
  dense,
  ["narrowDot+bias+relu"],
  (x, y, b) => [ops.maximum(ops.add(product(x as Node, y as Node), b as Node), 0)],
  "bf16",
);
add(
  "bf16 with a sum that nothing rounds",
  dense,
  ["narrowDot", "fused"],
  (x, y, b) => [ops.cast(ops.add(product(x as Node, y as Node), b as Node), "f32")],
  "bf16",
);
add("relu alone", dense, ["dot+relu"], (x, y) => [ops.maximum(product(x as Node, y as Node), 0)]);
add("a whole matrix is no bias", dense, ["dot", "fused"], (x, y, _b, z) => [
  ops.add(product(x as Node, y as Node), z as Node),
]);
add("another bound is no relu", dense, ["dot", "fused"], (x, y) => [ops.maximum(product(x as Node, y as Node), 1)]);
add("more than that stays together in its own call", dense, ["dot", "fused"], (x, y, b) => [
  ops.tanh(ops.maximum(ops.add(product(x as Node, y as Node), b as Node), 0)),
]);
add("a product that something else reads", dense, ["dot", "fused"], (x, y) => {
  const made = product(x as Node, y as Node);
  return [ops.maximum(made, 0), made];
});
add("two results of the group", dense, ["dot", "fused"], (x, y, b) => {
  const sum = ops.add(product(x as Node, y as Node), b as Node);
  return [ops.maximum(sum, 0), sum];
});
const pictures: readonly Shape[] = [[2, 4, 6, 3], [3, 3, 3, 5], [5], [2, 2, 3, 3]];
add("a convolution, bias and relu", pictures, ["conv+bias+relu"], (x, w, b) => [
  ops.maximum(ops.add(convolve(x as Node, w as Node), b as Node), 0),
]);
add(
  "a convolution of bf16",
  pictures,
  ["conv+bias+relu"],
  (x, w, b) => [ops.maximum(ops.add(convolve(x as Node, w as Node), b as Node), 0)],
  "bf16",
);
const unpooled = (x: Node, dy: Node, stride = 2): Node =>
  ops.call("selectAndScatter", [x, dy], {
    op: "max",
    window: [1, 2, 2, 1],
    strides: [1, stride, stride, 1],
    padding: Array(4).fill([0, 0]),
  });
const masked = (x: Node, dx: Node): Node => ops.select(ops.le(x, 0), 0, dx);
add("pooling's gradient and relu's", pictures, ["selectAndScatter+gate"], (x, _w, _b, dy) => [
  masked(x as Node, unpooled(x as Node, dy as Node)),
]);
add(
  "the same in bf16",
  pictures,
  ["selectAndScatter+gate"],
  (x, _w, _b, dy) => [masked(x as Node, unpooled(x as Node, dy as Node))],
  "bf16",
);
add("a gate by something else", [...pictures, [2, 4, 6, 3]], ["selectAndScatter", "fused"], (x, _w, _b, dy, z) => [
  masked(z as Node, unpooled(x as Node, dy as Node)),
]);

add("windows that overlap", [...pictures, [2, 3, 5, 3]], ["selectAndScatter", "fused"], (x, _w, _b, _dy, dy) => [
  masked(x as Node, unpooled(x as Node, dy as Node, 1)),
]);

for (const { name, shapes, body, calls, dtype } of cases) {
  test(name, () => {
    const graph = graphOf(shapes, body, dtype);
    const folded = lowerProgram(splitGraph(graph, []), { slots: 2 });
    expect(lines(folded).map((line) => line.split(" ")[1])).toEqual(calls);
    // The simulation does not round to 16 bits.
    if (dtype !== undefined) return;
    const apart = lowerProgram(splitGraph(graph, []), { slots: 2, epilogues: "apart" });
    expect(simulate(folded, inputsFor(graph))).toEqual(simulate(apart, inputsFor(graph)));
  });
}

test("a product of integers has none", () => {
  const specs = [[4, 6], [6, 8], [8]].map((shape, index) => ({
    name: `x${index}`,
    type: { dtype: "i32" as const, shape },
  }));
  const graph = traceGraph("test", specs, (x, y, b) => [
    ops.maximum(ops.add(product(x as Node, y as Node), b as Node), 0),
  ]);
  const names = lines(lowerProgram(splitGraph(graph, [], {}), { slots: 2 })).map((line) => line.split(" ")[1]);
  expect(names).toEqual(["dot", "fused"]);
});

test("a bias that is cast between a product of bf16 and its sum is cast before", () => {
  const specs = dense.map((shape, index) => ({
    name: `x${index}`,
    type: { dtype: index < 2 ? ("bf16" as const) : ("f32" as const), shape },
  }));
  const graph = traceGraph("test", specs, (x, y, b) => [
    ops.maximum(ops.add(product(x as Node, y as Node), ops.cast(b as Node, "bf16")), 0),
  ]);
  const program = splitGraph(graph, [], {});
  expect(lines(lowerProgram(program, { slots: 2 })).map((line) => line.split(" ")[1])).toEqual([
    "fused",
    "narrowDot+bias+relu",
  ]);
  const apart = lines(lowerProgram(program, { slots: 2, epilogues: "apart" })).map((line) => line.split(" ")[1]);
  expect(apart).toEqual(["narrowDot", "fused", "fused"]);
});

test("the convnet's step has its activations and their gradients in the calls before", () => {
  const step = lenetStep();
  const program = splitGraph(step.graph, [], step);
  const names = lines(lowerProgram(program, { slots: 2 })).map((line) => line.split(" ")[1]);
  expect(names.filter((name) => name?.includes("+"))).toEqual([
    "conv+bias+relu",
    "conv+bias+relu",
    "dot+bias+relu",
    "dot+bias",
    "selectAndScatter+gate",
    "selectAndScatter+gate",
  ]);
});
