import fc from "fast-check";
import {
  allOps,
  type Graph,
  type HostTensor,
  isAbsent,
  type Node,
  type Shape,
  type TensorType,
  traceGraph,
} from "heddle/ir";
import { checkLowered, type KernelChoice, lowerProgram } from "heddle/lower";
import * as ops from "heddle/ops";
import { splitGraph, verifyProgram } from "heddle/program";
import { describe, expect, test } from "vitest";
import { withOpenLoops } from "../support/loops.ts";
import { attentionStep, inputsFor, lenetStep, mlpStep, type TestGraph } from "./graphs.ts";
import { simulate } from "./simulate.ts";

/** Lowers a graph, checks the result, runs it, and compares with the graph itself. */
function compare(
  step: Pick<TestGraph, "graph"> & Partial<TestGraph>,
  tolerance: number,
  options: { inputs?: HostTensor[]; kernels?: KernelChoice } = {},
): void {
  const program = splitGraph(step.graph, [], step);
  verifyProgram(program);
  const lowered = lowerProgram(program, { slots: 2, kernels: options.kernels ?? "all" });
  checkLowered(lowered);
  const inputs = options.inputs ?? inputsFor(step.graph);
  const expected = ops.evaluateGraph(step.graph, inputs);
  expectClose(simulate(lowered, inputs), expected, tolerance);
}

function expectClose(got: readonly HostTensor[], expected: readonly HostTensor[], tolerance: number): void {
  expect(got.map(({ dtype, shape }) => ({ dtype, shape }))).toEqual(
    expected.map(({ dtype, shape }) => ({ dtype, shape })),
  );
  expected.forEach((tensor, index) => {
    tensor.data.forEach((value, place) => {
      const found = got[index]?.data[place] as number;
      if (Object.is(value, found)) return;
      if (Number.isFinite(value) && Math.abs(value - found) <= tolerance * Math.max(1, Math.abs(value))) return;
      expect.fail(`output ${index} at ${place}: ${found}, expected ${value}`);
    });
  });
}

describe("lowered programs compute what their graphs say", () => {
  const steps: { readonly [name: string]: TestGraph } = {
    "mlp step": mlpStep("f64", [4, 6, 5, 3]),
    "lenet step": lenetStep("f64", 2, 12, [2, 3, 5]),
    "lenet step whose kernels are larger than its images": lenetStep("f64", 3, 8, [2, 3, 5]),
    "attention step": attentionStep(),
  };
  for (const [name, step] of Object.entries(steps)) {
    test(name, () => compare(step, 1e-12));
    test(`${name}, composites by their bodies`, () => compare(step, 1e-12, { kernels: "none" }));
  }

  for (const op of allOps()) {
    const { example } = op;
    if (isAbsent(example)) continue;
    test(`example of ${op.name}`, () => {
      const specs = example.inputs.map((type, index) => ({ name: `x${index}`, type }));
      const graph = traceGraph(op.name, specs, (...nodes) => ops.resultsOf(ops.call(op.name, nodes, example.attrs)));
      compare({ graph: withOpenLoops(graph) }, 1e-6, { inputs: [...example.inputs] });
    });
  }
});

const matrix = [
  { name: "x", type: { dtype: "f64", shape: [3, 4] } as TensorType },
  { name: "w", type: { dtype: "f64", shape: [4, 4] } as TensorType },
];
const image = [
  { name: "x", type: { dtype: "f64", shape: [2, 3, 4, 5] } as TensorType },
  { name: "w", type: { dtype: "f64", shape: [6, 3, 3, 3] } as TensorType },
];
const conv = (x: Node, w: Node): Node =>
  ops.call("conv", [x, w], {
    layout: "bf01,oi01->bf01",
    strides: [1, 1],
    padding: [
      [1, 1],
      [1, 1],
    ],
    inputDilation: [1, 1],
    kernelDilation: [1, 1],
  });

describe("hard cases", () => {
  const cases: {
    readonly [name: string]: readonly [specs: typeof matrix, body: (...inputs: Node[]) => readonly Node[]];
  } = {
    "counts through views": [
      matrix,
      (x) => {
        const count = ops.iota("f64", [3, 4], 1);
        const last = ops.slice(ops.iota("f64", [3, 6], 1), [0, 2], [3, 6]);
        const every = ops.slice(ops.iota("f64", [3, 8], 1), [0, 0], [3, 8], [1, 2]);
        const turned = ops.transpose(ops.iota("f64", [4, 3], 0));
        const spread = ops.broadcastTo(ops.iota("f64", [4], 0), [3, 4]);
        const rows = ops.reshape(ops.iota("f64", [3, 2, 2], 0), [3, 4]);
        const mixed = ops.reshape(ops.iota("f64", [12], 0), [3, 4]);
        const same = ops.broadcastTo(ops.slice(ops.iota("f64", [5], 0), [3], [4]), [3, 4]);
        return [count, last, every, turned, spread, rows, mixed, same, ops.reverse(count, [1])].map((one) =>
          ops.mul(x as Node, one),
        );
      },
    ],
    "a value updated in part that is still needed": [
      matrix,
      (x, w) => {
        const y = ops.matmul(x as Node, w as Node);
        const zero = ops.constant("i32", 0);
        const updated = ops.call("dynamicUpdateSlice", [
          y,
          ops.slice(x as Node, [0, 0], [2, 2]),
          zero,
          ops.constant("i32", 1),
        ]);
        return [ops.matmul(updated, w as Node), ops.mul(y, ops.broadcastTo(ops.sum(updated), y.shape))];
      },
    ],
    "a value that a kernel and a later group read": [
      matrix,
      (x, w) => {
        const y = ops.tanh(ops.matmul(x as Node, w as Node));
        const slope = ops.sub(1, ops.mul(y, y));
        return [ops.mul(ops.matmul(slope, w as Node), slope), ops.matmul(y, w as Node)];
      },
    ],
    "elementwise work and counts on channels-last results": [
      image,
      (x, w) => {
        const y = conv(x as Node, w as Node);
        const counted = ops.add(y, ops.iota("f64", y.shape, 1));
        const z = ops.mul(counted, ops.broadcastTo(ops.sum(counted, [2, 3], { keepDims: true }), y.shape));
        return [ops.sum(z, [0, 2, 3]), ops.transpose(ops.exp(ops.mul(z, 1e-3)), [0, 2, 3, 1])];
      },
    ],
    "channels-last and row-major results together": [
      image,
      (x, w) => {
        const y = conv(x as Node, w as Node);
        const flat = ops.reshape(ops.tanh(y), [12, 20]);
        const z = ops.add(y, ops.reshape(ops.sum(flat, 1), [2, 6, 1, 1]));
        return [
          ops.sub(z, ops.reshape(flat, y.shape)),
          ops.call("concat", [z, y], { dim: 1 }),
          ops.argMax(z, 1),
          ops.max(z, [1]),
        ];
      },
    ],
    "no elements": [
      [{ name: "x", type: { dtype: "f64", shape: [0, 4] } }, matrix[1] as (typeof matrix)[0]],
      (x, w) => [
        ops.matmul(ops.add(x as Node, 1), w as Node),
        ops.sum(ops.exp(x as Node), 0),
        ops.reshape(ops.transpose(x as Node), [0, 2]),
      ],
    ],
    "a single element": [
      [{ name: "x", type: { dtype: "f64", shape: [] } }],
      (x) => [ops.exp(ops.neg(ops.add(x as Node, -0))), ops.add(x as Node, Number.NaN), ops.mul(x as Node, -Infinity)],
    ],
  };
  for (const [name, [specs, body]] of Object.entries(cases)) {
    test(name, () => compare({ graph: traceGraph("case", specs, body) }, 1e-12));
  }
});

const unary = [ops.neg, ops.abs, ops.tanh, ops.exp, ops.logistic, ops.floor];
const binary = [ops.add, ops.sub, ops.mul, ops.maximum, ops.minimum];

/** A random graph: each step applies one op to earlier values. Few names of dims, so that values meet. */
function randomGraph(choices: readonly (readonly [kind: number, first: number, second: number])[]): Graph {
  const shape: Shape = [2, 3, 4];
  const specs = [shape, shape, [3, 4], [4]].map((sizes, index) => ({
    name: `x${index}`,
    type: { dtype: "f64", shape: sizes } as TensorType,
  }));
  return traceGraph("random", specs, (...inputs) => {
    const full = inputs.slice(0, 2);
    const pick = <T>(list: readonly T[], index: number): T => list[index % list.length] as T;
    const made: Node[] = [];
    const other = (index: number): Node => ops.broadcastTo(pick(inputs, index), shape);
    for (const [kind, first, second] of choices) {
      const all = [...full, ...made];
      const x = pick(all, first);
      const y = pick(all, second);
      const rules: readonly (() => Node)[] = [
        () => pick(unary, second)(x),
        () => pick(binary, first + second)(x, y),
        () => pick(binary, second)(x, other(first)),
        () => ops.select(ops.gt(x, y), x, 0.5),
        () => ops.reshape(ops.transpose(ops.reshape(x, [2, 12]), [1, 0]), shape),
        () => ops.broadcastTo(ops.sum(x, 1, { keepDims: true }), shape),
        () => ops.reverse(ops.add(x, ops.iota("f64", shape, second % 3)), [first % 3]),
        () => ops.broadcastTo(ops.slice(x, [0, first % 3, 0], [2, (first % 3) + 1, 4]), shape),
        () => ops.matmul(ops.matmul(x, ops.transpose(y, [0, 2, 1])), ops.mul(y, 0.1)),
        () => ops.mul(x, ops.cast(ops.le(ops.iota("i32", shape, first % 3), ops.constant("i32", 1)), "f64")),
      ];
      made.push(pick(rules, kind)());
    }
    return made.length === 0 ? [full[0] as Node] : [...made.slice(-2), made[0] as Node];
  });
}

test("random graphs of elementwise ops, views and reductions", () => {
  const choice = fc.tuple(fc.nat(9), fc.nat(30), fc.nat(30));
  fc.assert(
    fc.property(fc.array(choice, { maxLength: 25 }), (choices) => {
      compare({ graph: randomGraph(choices) }, 1e-12);
    }),
    { numRuns: 150 },
  );
});

test("random graphs, small groups", () => {
  const choice = fc.tuple(fc.nat(9), fc.nat(30), fc.nat(30));
  fc.assert(
    fc.property(fc.array(choice, { maxLength: 15 }), (choices) => {
      const graph = randomGraph(choices);
      const inputs = inputsFor(graph);
      const lowered = lowerProgram(splitGraph(graph, []), { slots: 1, limits: { instructions: 3, inputs: 2 } });
      checkLowered(lowered);
      expectClose(simulate(lowered, inputs), ops.evaluateGraph(graph, inputs), 1e-12);
    }),
    { numRuns: 50 },
  );
});
