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
      if (Object.is(value, found) || Math.abs(value - found) <= tolerance * Math.max(1, Math.abs(value))) return;
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
      const graph = traceGraph(op.name, specs, (...nodes) => [ops.call(op.name, nodes, example.attrs)]);
      compare({ graph }, 1e-6, { inputs: [...example.inputs] });
    });
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
