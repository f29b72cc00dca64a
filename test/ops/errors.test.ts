import { describe, expect, it } from "vitest";
import { softmaxCrossEntropy } from "../../src/functions/index.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { HostTensor, Node } from "../../src/ir/node.ts";
import * as ops from "../../src/ops/index.ts";
import { Tensor } from "../../src/tensor/tensor.ts";
import { HeddleError } from "../../src/util/errors.ts";

const { call } = ops;

interface Values {
  readonly f23: Node;
  readonly f34: Node;
  readonly f2: Node;
  readonly f1: Node;
  readonly d23: Node;
  readonly i23: Node;
  readonly i2: Node;
  readonly u2: Node;
  readonly i: Node;
  readonly b23: Node;
  readonly image: Node;
  readonly kernel: Node;
  readonly empty: Node;
}

const types = {
  f23: ["f32", 2, 3],
  f34: ["f32", 3, 4],
  f2: ["f32", 2],
  f1: ["f32"],
  d23: ["f64", 2, 3],
  i23: ["i32", 2, 3],
  i2: ["i32", 2],
  u2: ["u32", 2],
  i: ["i32"],
  b23: ["bool", 2, 3],
  image: ["f32", 2, 3, 8, 8],
  kernel: ["f32", 4, 3, 3, 3],
  empty: ["f32", 2, 0],
} as const;

function errorOf(body: (values: Values) => Node): HeddleError {
  const names = Object.keys(types) as (keyof typeof types)[];
  const specs = names.map((name) => {
    const [dtype, ...shape] = types[name];
    return { name, type: { dtype, shape } };
  });
  try {
    traceGraph("g", specs, (...nodes) => [
      body(Object.fromEntries(names.map((name, index) => [name, nodes[index]])) as unknown as Values),
    ]);
  } catch (error) {
    if (error instanceof HeddleError) return error;
    throw error;
  }
  throw new Error("no error");
}

const attrs = {
  layout: "bf01,oi01->bf01",
  strides: [1, 1],
  padding: [
    [0, 0],
    [0, 0],
  ],
  inputDilation: [1, 1],
  kernelDilation: [1, 1],
};
const window = {
  op: "max",
  window: [2, 2],
  strides: [1, 1],
  padding: [
    [0, 0],
    [0, 0],
  ],
};
const dims = { xBatch: [], yBatch: [], xContract: [1], yContract: [0] };

const cases: readonly (readonly [what: string, body: (values: Values) => Node, code: string, message: RegExp])[] = [
  [
    "shapes that do not broadcast",
    ({ f23, f34 }) => ops.add(f23, f34),
    "shape",
    /add: shapes do not broadcast: f32\[2,3\], f32\[3,4\]/,
  ],
  [
    "dtypes that have none in common",
    ({ i23 }) => ops.mul(i23, ops.cast(i23, "u64")),
    "dtype",
    /mul: no dtype holds both: i32\[2,3\], u64\[2,3\].*hint: cast/s,
  ],
  ["a fraction for an integer", ({ i23 }) => ops.add(i23, 0.5), "dtype", /add: 0.5 is not a value of i32.*hint: cast/s],
  ["a negative number for an unsigned", ({ u2 }) => ops.add(u2, -1), "dtype", /add: -1 is not a value of u32/],
  [
    "shapes that differ",
    ({ f23, f34 }) => call("add", [f23, f34]),
    "shape",
    /add: shapes differ: f32\[2,3\], f32\[3,4\]/,
  ],
  ["the wrong number of inputs", ({ f23 }) => call("add", [f23]), "op", /add: takes 2 inputs, got 1/],
  ["floats for bits", ({ f23 }) => ops.not(f23), "dtype", /not: not defined for f32 \(f32\[2,3\]\)/],
  ["integers for floats", ({ i23 }) => ops.exp(i23), "dtype", /exp: not defined for i32 \(i32\[2,3\]\)/],
  ["truth values for numbers", ({ b23 }) => ops.add(b23, b23), "dtype", /add: not defined for bool \(bool\[2,3\]\)/],
  [
    "a condition that is none",
    ({ f23 }) => ops.select(f23, f23, f23),
    "dtype",
    /select: the condition must be bool, got f32\[2,3\]/,
  ],
  [
    "branches that differ",
    ({ b23, f23, d23 }) => call("select", [b23, f23, d23]),
    "dtype",
    /select: dtypes differ: f32\[2,3\], f64\[2,3\]/,
  ],
  [
    "a broadcast that does not fit",
    ({ f2 }) => ops.broadcastTo(f2, [2, 3]),
    "shape",
    /broadcast: f32\[2\] does not go to \[2,3\] by dims \[1\]/,
  ],
  [
    "a reshape of another size",
    ({ f23 }) => ops.reshape(f23, [4]),
    "shape",
    /reshape: f32\[2,3\] has 6 elements, \[4\] needs 4/,
  ],
  [
    "a reshape that does not fill",
    ({ f23 }) => ops.reshape(f23, [4, -1]),
    "shape",
    /reshape: f32\[2,3\] does not fill \[4,-1\]/,
  ],
  [
    "an order that is none",
    ({ f23 }) => ops.transpose(f23, [0, 0]),
    "shape",
    /transpose: \[0,0\] is not an order of the 2 dims of f32\[2,3\]/,
  ],
  ["a dim that does not exist", ({ f23 }) => ops.sum(f23, 2), "shape", /sum: dim 2 is not in \[-2, 1\]/],
  ["dims that repeat", ({ f23 }) => ops.sum(f23, [0, -2]), "shape", /sum: dims \[0,-2\] repeat/],
  [
    "max of nothing",
    ({ empty }) => ops.max(empty, 1),
    "shape",
    /reduce max: the max of no elements is not defined \(f32\[2,0\], dims \[1\]\)/,
  ],
  ["argMax of nothing", ({ empty }) => ops.argMax(empty), "shape", /argMax: dim 1 of f32\[2,0\] has no elements/],
  [
    "a cumsum along no dim",
    ({ f23 }) => ops.call("cumulative", [f23], { kind: "sum", dim: 2 }),
    "shape",
    /cumulative sum: there is no dim 2 in f32\[2,3\]/,
  ],
  [
    "a cumsum of truth values",
    ({ b23 }) => ops.call("cumulative", [b23], { kind: "sum", dim: 1 }),
    "dtype",
    /cumulative sum: not defined for bool\[2,3\]/,
  ],
  [
    "a sum of truth values",
    ({ b23 }) => ops.call("reduce", [b23], { op: "sum", dims: [0] }),
    "dtype",
    /reduce sum: not defined for bool\[2,3\]/,
  ],
  [
    "a slice outside",
    ({ f23 }) => ops.slice(f23, [0, 1], [2, 4]),
    "shape",
    /slice: \[1, 4\) by 1 is not inside dim 1 of f32\[2,3\]/,
  ],
  [
    "a slice of too few dims",
    ({ f23 }) => ops.slice(f23, [0], [2]),
    "shape",
    /slice: needs one whole number per dim \(2\), got \[0\], \[2\], \[1\]/,
  ],
  [
    "a pad that cuts off too much",
    ({ f2, f1 }) => ops.pad(f2, f1, [-3], [0]),
    "shape",
    /pad: low -3, high 0, interior 0 do not fit dim 0 of f32\[2\]/,
  ],
  [
    "a pad value that is no scalar",
    ({ f2 }) => ops.pad(f2, f2, [1], [0]),
    "shape",
    /pad: needs a tensor and a scalar of its dtype, got f32\[2\], f32\[2\]/,
  ],
  [
    "parts that do not join",
    ({ f23, f34 }) => ops.concat([f23, f34], 0),
    "shape",
    /concat: inputs differ outside dim 0: f32\[2,3\], f32\[3,4\]/,
  ],
  [
    "reverse of a dim that does not exist",
    ({ f2 }) => ops.call("reverse", [f2], { dims: [1] }),
    "shape",
    /reverse: dims \[1\] are not in f32\[2\]/,
  ],
  [
    "matrices that do not fit",
    ({ f23 }) => ops.matmul(f23, f23),
    "shape",
    /matmul: f32\[2,3\] times f32\[2,3\]: inner sizes 3 and 2 differ/,
  ],
  [
    "matmul with a scalar",
    ({ f23, f1 }) => ops.matmul(f23, f1),
    "shape",
    /matmul: scalars are not matrices: f32\[2,3\], f32\[\]/,
  ],
  [
    "contracted sizes that differ",
    ({ f23 }) => ops.dotGeneral(f23, f23, dims),
    "shape",
    /dot: dim 1 of f32\[2,3\] \(3\) and dim 0 of f32\[2,3\] \(2\) are contracted but differ/,
  ],
  [
    "dot of truth values",
    ({ b23 }) => ops.dotGeneral(b23, b23, dims),
    "dtype",
    /dot: needs two numbers of one dtype, got bool\[2,3\], bool\[2,3\]/,
  ],
  [
    "an integer to a negative number",
    ({ i23 }) => ops.pow(i23, -1),
    "dtype",
    /pow: i32\[2,3\] to the -1: integers have no negative powers/,
  ],
  [
    "dot of dims that do not exist",
    ({ f23, f34 }) => ops.dotGeneral(f23, f34, { ...dims, xContract: [2] }),
    "shape",
    /dot: dims .* do not pair the dims of f32\[2,3\] and f32\[3,4\]/,
  ],
  [
    "features that differ",
    ({ image, kernel }) => call("conv", [image, kernel], { ...attrs, layout: "bf01,io01->bf01" }),
    "shape",
    /conv bf01,io01->bf01 of f32\[2,3,8,8\] by f32\[4,3,3,3\]: the input has 3 features, the kernel takes 4/,
  ],
  [
    "a window larger than the image",
    ({ image, kernel }) => call("conv", [kernel, image], attrs),
    "shape",
    /conv .*a window of 8 does not fit 3 padded elements of spatial dim 0/,
  ],
  [
    "too few strides",
    ({ image, kernel }) => call("conv", [image, kernel], { ...attrs, strides: [1] }),
    "shape",
    /conv .*need one entry per spatial dim \(2\)/,
  ],
  [
    "a layout that is none",
    ({ image, kernel }) => call("conv", [image, kernel], { ...attrs, layout: "bf01" }),
    "op",
    /conv: 'bf01' is not a layout/,
  ],
  [
    "a layout with letters that no dim has",
    ({ image, kernel }) => call("conv", [image, kernel], { ...attrs, layout: "bf01,oi01->bfxy" }),
    "op",
    /conv: 'bf01,oi01->bfxy' is not a layout/,
  ],
  [
    "a layout that repeats a letter",
    ({ image, kernel }) => call("conv", [image, kernel], { ...attrs, layout: "bb01,oi01->bf01" }),
    "op",
    /conv: 'bb01,oi01->bf01' is not a layout/,
  ],
  [
    "a dilation of 0",
    ({ image, kernel }) => call("conv", [image, kernel], { ...attrs, kernelDilation: [0, 1] }),
    "shape",
    /conv .*strides and dilations are 1 or more/,
  ],
  [
    "a window that does not fit",
    ({ f2 }) => call("reduceWindow", [f2], { ...window, window: [3], strides: [1], padding: [[0, 0]] }),
    "shape",
    /reduceWindow: window 3 does not fit into the 2 elements, along dim 0 of f32\[2\]/,
  ],
  [
    "windows of too few dims",
    ({ f2 }) => call("reduceWindow", [f2], window),
    "shape",
    /reduceWindow: window, strides and padding need one entry per dim of f32\[2\]/,
  ],
  [
    "values for other windows",
    ({ f23 }) => call("selectAndScatter", [f23, f23], window),
    "shape",
    /selectAndScatter: for f32\[2,3\] the second input must be f32\[1,2\], got f32\[2,3\]/,
  ],
  [
    "indices that are floats",
    ({ f23, f2 }) => ops.gather(f23, f2),
    "dtype",
    /gather: indices must be i32, got f32\[2\]/,
  ],
  [
    "batches that differ",
    ({ f34, i2 }) => ops.gather(f34, i2, 1),
    "shape",
    /gather: the first 1 dims of f32\[3,4\] and of the indices i32\[2\] must agree/,
  ],
  [
    "updates of another shape",
    ({ f34, i2 }) => ops.scatterAdd(f34, i2, 3),
    "shape",
    /scatterAdd: updates f32\[3,4\] must start with the dims of the i32 indices, got i32\[2\]/,
  ],
  [
    "too few starts",
    ({ f23, i }) => call("dynamicSlice", [f23, i], { sizes: [1, 1] }),
    "shape",
    /dynamicSlice: needs one i32 scalar per dim \(2\), got i32\[\]/,
  ],
  [
    "a dynamic slice too large",
    ({ f23, i }) => call("dynamicSlice", [f23, i, i], { sizes: [3, 1] }),
    "shape",
    /dynamicSlice: \[3,1\] does not fit into f32\[2,3\]/,
  ],
  [
    "an update too large",
    ({ f23, f34, i }) => call("dynamicUpdateSlice", [f23, f34, i, i]),
    "shape",
    /dynamicUpdateSlice: f32\[3,4\] does not fit into f32\[2,3\]/,
  ],
  [
    "a key that is none",
    ({ i2 }) => ops.randomBits(i2, [4]),
    "shape",
    /randomBits: the key must be u32\[2\], got i32\[2\]/,
  ],
  [
    "labels that are floats",
    ({ f23, f2 }) => softmaxCrossEntropy(Tensor.ofNode(f23), Tensor.ofNode(f2)).node,
    "shape",
    /softmaxCrossEntropy: needs float logits .* got f32\[2,3\], f32\[2\]/,
  ],
  [
    "a constant that is no value of its dtype",
    () => call("constant", [], { dtype: "i32", value: 0.5 }),
    "dtype",
    /constant: 0.5 is not a value of i32/,
  ],
  [
    "counting along a dim that does not exist",
    () => ops.iota("i32", [2], 1),
    "shape",
    /iota: cannot count along dim 1 of i32\[2\]/,
  ],
  ["no tensor at all", () => ops.add(1, 2), "op", /add: at least one operand must be a tensor/],
  ["a shape too large", ({ f1 }) => ops.broadcastTo(f1, [2 ** 30, 2 ** 30]), "shape", /too large/],
  ["an op that does not exist", ({ f1 }) => call("nothing", [f1]), "op", /there is no op 'nothing'/],
];

describe("mistakes are named with op, shapes, dtypes", () => {
  it.each(cases)("%s", (_what, body, code, message) => {
    const error = errorOf(body);
    expect(error.message).toMatch(message);
    expect(error.code).toBe(code);
  });
});

describe("mistakes are named with the user's line", () => {
  // Errors of the op itself; those of the spellings are thrown on the user's own stack.
  const own = cases.filter(
    ([what]) => !["a layout that is none", "no tensor at all", "an op that does not exist"].includes(what),
  );
  it.each(own)("%s", (_what, body) => {
    const error = errorOf(body);
    const place = error.where ?? error.stack ?? "";
    expect(place).toMatch(/errors\.test\.ts:\d+:\d+/);
  });

  it("as file, line and column, before the hint", () => {
    const error = errorOf(({ f23, f34 }) => call("add", [f23, f34]));
    expect(error.where).toMatch(/\/test\/ops\/errors\.test\.ts:\d+:\d+$/);
    expect(error.message).toMatch(/\n {2}at \/.*errors\.test\.ts:\d+:\d+$/);
  });
});

describe("arguments of a run", () => {
  const graph = traceGraph("loss", [{ name: "weight", type: { dtype: "f32", shape: [2] } }], (x) => [ops.sum(x)]);
  const tensor = (dtype: "f32" | "f64", shape: number[]): HostTensor => ({
    dtype,
    shape,
    data: new Float32Array(shape.reduce((a, b) => a * b, 1)),
  });

  it("of another type are refused by name", () => {
    expect(() => ops.evaluateGraph(graph, [tensor("f32", [3])])).toThrow(
      "graph 'loss': parameter 'weight' f32[2] got f32[3]",
    );
    expect(() => ops.evaluateGraph(graph, [tensor("f64", [2])])).toThrow(
      "graph 'loss': parameter 'weight' f32[2] got f64[2]",
    );
    expect(() => ops.evaluateGraph(graph, [])).toThrow("graph 'loss' takes 1 inputs, got 0");
  });
});
