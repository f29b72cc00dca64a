import {
  allOps,
  type DType,
  dtypes,
  type Graph,
  type HostTensor,
  isAbsent,
  type Node,
  sizeOf,
  traceGraph,
} from "heddle/ir";
import { type KernelChoice, type LoweredProgram, lowerProgram } from "heddle/lower";
import { splitGraph } from "heddle/program";
import { describe, expect, test } from "vitest";
import { loadNative, type NativeBinding } from "../../src/executors/native/binding.ts";
import { withOpenLoops } from "../support/loops.ts";
import * as ops from "../support/nodes.ts";
import { attentionStep, inputsFor, lenetStep, mlpStep, type TestGraph } from "./graphs.ts";

const native = loadNative();
const reason = "error" in native ? `the native addon is not built: ${native.error}` : "";

/** Runs a lowered program on a native device. */
function run(
  binding: NativeBinding,
  lowered: LoweredProgram,
  inputs: readonly HostTensor[],
  threads: number,
): HostTensor[] {
  const program = new binding.NativeProgram(lowered.text);
  const device = new binding.NativeDevice({ threads });
  const buffers = lowered.arguments.map((argument) => {
    const buffer = new binding.NativeBuffer(argument.bytes);
    const data = argument.input === undefined ? undefined : inputs[argument.input]?.data;
    if (data !== undefined) buffer.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return buffer;
  });
  try {
    device.runSync(program, buffers);
    const outputs: HostTensor[] = [];
    lowered.arguments.forEach(({ output, type, bytes }, index) => {
      if (output === undefined) return;
      const data = new Uint8Array(bytes);
      buffers[index]?.read(data);
      outputs[output] = { ...type, data: dtypes[type.dtype].view(data.buffer, 0, sizeOf(type.shape)) };
    });
    return outputs;
  } finally {
    device.close();
    for (const buffer of buffers) buffer.dispose();
  }
}

function compare(
  step: { readonly graph: Graph } & Partial<TestGraph>,
  tolerance: number,
  inputs = inputsFor(step.graph),
  kernels: KernelChoice = "all",
): void {
  if ("error" in native) throw new Error(reason);
  const lowered = lowerProgram(splitGraph(step.graph, [], step), { slots: 2, kernels });
  expect(lowered.workBytes).toBe(new native.NativeProgram(lowered.text).arenaBytes);
  const expected = ops.evaluateGraph(step.graph, inputs);
  for (const threads of [1, 2]) {
    const got = run(native, lowered, inputs, threads);
    expected.forEach((tensor, index) => {
      const norm = Math.hypot(...[...tensor.data].filter(Number.isFinite));
      tensor.data.forEach((value, place) => {
        const found = got[index]?.data[place] as number;
        if (Object.is(value, found) || Math.abs(value - found) <= tolerance * Math.max(1, norm)) return;
        expect.fail(`output ${index} at ${place} with ${threads} threads: ${found}, expected ${value}`);
      });
    });
  }
}

describe.skipIf("error" in native)(`lowered programs on native code ${reason}`, () => {
  const steps: { readonly [name: string]: readonly [TestGraph, number] } = {
    "mlp step": [mlpStep("f64", [8, 16, 12, 10]), 1e-12],
    "mlp step, f32": [mlpStep("f32", [8, 16, 12, 10]), 1e-5],
    "lenet step": [lenetStep("f64", 4, 12, [4, 6, 16]), 1e-12],
    "lenet step, f32": [lenetStep("f32", 8, 28, [8, 16, 32]), 1e-5],
    "attention step": [attentionStep(), 1e-12],
  };
  for (const [name, [step, tolerance]] of Object.entries(steps)) {
    test(name, () => compare(step, tolerance));
    test(`${name}, composites by their bodies`, () => compare(step, tolerance, undefined, "none"));
  }

  const centred = (x: Node): Node => ops.sub(x, ops.mean(x, -1, { keepDims: true }));
  const folds: { readonly [name: string]: (x: Node, y: Node) => readonly Node[] } = {
    softmax: (x) => [ops.softmax(x)],
    "log-softmax of a sum": (x, y) => [ops.logSoftmax(ops.add(x, y))],
    "layer norm": (x, y) => {
      const c = centred(x);
      return [ops.mul(ops.mul(c, ops.rsqrt(ops.add(ops.mean(ops.mul(c, c), -1, { keepDims: true }), 1e-5))), y)];
    },
    "sums and the values that are summed": (x, y) => {
      const z = ops.mul(ops.tanh(x), y);
      return [z, ops.sum(z, 1), ops.max(z, 1), ops.min(z, 1)];
    },
    "sums of columns": (x, y) => {
      const z = ops.mul(x, y);
      return [ops.sum(z, 0), ops.sum(ops.mul(z, z), 0), z];
    },
    "index of the largest": (x, y) => [ops.argMax(ops.sub(x, y), 1)],
    "all of it to one": (x, y) => [ops.mean(ops.abs(ops.sub(x, y)))],
  };
  for (const [name, body] of Object.entries(folds)) {
    test(`${name}, rows of every length`, () => {
      for (const dtype of ["f32", "f64"] as const) {
        for (const length of [1, 7, 8, 10, 15, 16, 17, 31, 33, 64, 65, 130, 1000]) {
          for (const rows of [1, 3, 40]) {
            const type = { dtype, shape: [rows, length] };
            const specs = ["x", "y"].map((label) => ({ name: label, type }));
            const graph = traceGraph(name, specs, (x, y) => body(x as Node, y as Node));
            compare({ graph }, dtype === "f32" ? 2e-6 : 1e-14);
          }
        }
      }
    });
  }
  /** A sum over dims of a tensor whose dims may be in another order in memory, or a product. */
  const sum = (shape: number[], dims: number[], order = shape.map((_size, dim) => dim), dtype: DType = "f32"): Graph =>
    traceGraph("sum", [{ name: "x", type: { dtype, shape: order.map((dim) => shape[dim] as number) } }], (x) => [
      ops.sum(
        ops.transpose(
          x as Node,
          order.map((_dim, place) => order.indexOf(place)),
        ),
        dims,
      ),
    ]);
  const product = (m: number, k: number, n: number, dtype: DType = "f32"): Graph =>
    traceGraph(
      "product",
      [
        { name: "x", type: { dtype, shape: [m, k] } },
        { name: "y", type: { dtype, shape: [k, n] } },
      ],
      (x, y) => [ops.matmul(x as Node, y as Node)],
    );
  /** Sums of products and of their squares; `gain` is repeated over all dims but the last. */
  const terms = (shape: number[], dims: number[], dtype: DType = "f32"): Graph => {
    const gain = shape.slice(-1);
    const specs = [shape, gain].map((size, index) => ({ name: `x${index}`, type: { dtype, shape: size } }));
    return traceGraph("terms", specs, (x, y) => {
      const z = ops.mul(x as Node, ops.broadcastInDim(y as Node, shape, [shape.length - 1]));
      return [ops.sum(z, dims), ops.sum(ops.mul(z, z), dims)];
    });
  };
  const partials: readonly (readonly [string, Graph, boolean])[] = [
    ["all of a vector, long enough", sum([2 ** 18], [0]), true],
    ["all of a vector, too short", sum([2 ** 16], [0]), false],
    ["rows of which there are few", sum([3, 70_001], [1]), true],
    ["rows of which there are many", sum([64, 70_001], [1]), false],
    ["short rows, spread", sum([300, 2, 700], [0, 2]), true],
    ["short rows of a length that is no power of two", sum([5000, 2, 33], [0, 2], [0, 1, 2], "f64"), true],
    ["all of a transposed matrix", sum([1000, 300], [0, 1], [1, 0]), true],
    ["columns, cut", sum([4096, 32], [0]), true],
    ["columns, as many as work allows", sum([100_000, 8], [0], [0, 1], "f64"), true],
    ["columns of few rows", sum([100, 2000], [0]), false],
    ["wide columns", sum([4096, 5000], [0]), false],
    ["columns in the middle", sum([7, 3000, 24], [1]), true],
    ["columns whose terms are made", terms([3000, 33], [0]), true],
    ["columns whose terms are made, of two dims that are not one", terms([3000, 5, 64], [0], "f64"), true],
    ["columns whose terms are made from several dims", terms([50, 60, 24], [0, 1]), true],
    ["columns whose terms are made, of few rows", terms([100, 2000], [0]), false],
    ["rows whose terms are made", terms([300, 700], [1]), false],
    ["none", sum([0, 5], [0]), false],
    ["a product with a short contracted dim", product(16, 8191, 16), false],
    ["a product with a long one", product(16, 8192, 16), true],
    ["a product with a very long one", product(3, 200_000, 5, "f64"), true],
    ["a product too large to be cut so", product(256, 8192, 256), false],
    ["a product of integers, in any order", product(3, 200_000, 5, "i32"), false],
  ];
  test.each(partials)("memory for partial results is known before: %s", (_what, graph, some) => {
    if ("error" in native) throw new Error(reason);
    const lowered = lowerProgram(splitGraph(graph, [], {}), { slots: 2 });
    expect(lowered.workBytes).toBe(new native.NativeProgram(lowered.text).arenaBytes);
    expect(lowered.workBytes > Math.ceil(lowered.arenaBytes / 64) * 64).toBe(some);
  });

  const worked = (op: string, attrs: object, ...inputs: (readonly [DType, ...number[]])[]) =>
    traceGraph(
      op,
      inputs.map(([dtype, ...shape], index) => ({ name: `x${index}`, type: { dtype, shape } })),
      (...nodes) => ops.resultsOf(ops.call(op, nodes, attrs as never)),
    );
  const scratch: readonly (readonly [string, Graph])[] = [
    ["short rows to sort", worked("sort", { descending: false }, ["f32", 5000, 3])],
    ["long rows to sort, with an operand", worked("sort", { descending: true }, ["f64", 3, 1500], ["i32", 3, 1500])],
    ["the largest of long rows", worked("topK", { k: 1100 }, ["f32", 40, 2000])],
    ["the largest of one row", worked("topK", { k: 3 }, ["i32", 7])],
    ["a transform of a power of 2", worked("fft", { kind: "forward", length: [512] }, ["f32", 100, 512, 2])],
    ["of a prime, from numbers", worked("fft", { kind: "fromReal", length: [101] }, ["f64", 60, 101])],
    ["to numbers, of two dims", worked("fft", { kind: "toReal", length: [6, 10] }, ["f32", 3, 6, 6, 2])],
    [
      "of lines that get their scratch when they run",
      worked("fft", { kind: "inverse", length: [2 ** 22 + 1] }, ["f32", 2 ** 22 + 1, 2]),
    ],
    ["a tall matrix", worked("qr", {}, ["f64", 20, 9, 4])],
    ["a wide matrix", worked("qr", {}, ["f32", 3, 9])],
    [
      "a triangle and columns",
      worked("triangularSolve", { lower: true, transpose: false, unit: false }, ["f32", 4, 4], ["f32", 4, 7]),
    ],
    ["more matrices than workers", worked("cholesky", {}, ["f64", 33, 5, 5])],
    ["rows in another order", worked("lu", {}, ["f64", 3, 6, 6])],
    ["singular values", worked("svd", {}, ["f32", 2, 5, 3])],
    ["no matrix", worked("eigh", {}, ["f32", 0, 3, 3])],
  ];
  test.each(scratch)("so is that for workers: %s", (_what, graph) => {
    if ("error" in native) throw new Error(reason);
    const lowered = lowerProgram(splitGraph(graph, [], {}), { slots: 2 });
    expect(lowered.workBytes).toBe(new native.NativeProgram(lowered.text).arenaBytes);
  });

  for (const op of allOps()) {
    const { example } = op;
    if (isAbsent(example)) continue;
    test(`example of ${op.name}`, () => {
      const specs = example.inputs.map((type, index) => ({ name: `x${index}`, type }));
      const graph = traceGraph(op.name, specs, (...nodes) => ops.resultsOf(ops.call(op.name, nodes, example.attrs)));
      compare({ graph: withOpenLoops(graph) }, 1e-6, [...example.inputs]);
    });
  }
});
