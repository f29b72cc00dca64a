/**
 * @module Loops and branches: the ops scan, while and cond, which own graphs. `control` declares which graph runs when, so
 * the planner, the program and the executors handle all three alike.
 */
import type { Control, LoopControl } from "../ir/control.ts";
import { dtypes } from "../ir/dtype.ts";
import { type Attrs, absent, type Graph, type HostTensor, type Node, type OpDef } from "../ir/node.ts";
import { enter } from "../ir/op.ts";
import { formatType, sameType, sizeOf, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { flopsTo } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";
import { batchBranch, batchScan, batchWhile } from "./control-batch.ts";
import { forwardBranch, forwardScan, forwardWhile } from "./control-forward.ts";
import { branchGradient, type CondAttrs, scanGradient, typeOf } from "./control-gradient.ts";
import { type ScanAttrs, withStackedCarries } from "./control-stacks.ts";
import { checkedWhile, emitWhile, type WhileAttrs, whileGradient } from "./control-while.ts";
import { sliceOf } from "./host-arrays.ts";
import { resultsOf } from "./results.ts";

export type { CondAttrs } from "./control-gradient.ts";
export { type ScanAttrs, stackLimit } from "./control-stacks.ts";
export type { WhileAttrs } from "./control-while.ts";

const planned = absent("the planner plans its graphs");
const program = absent("becomes a program of its own, not a kernel");

/** Defines an op that owns graphs. */
function defineControl<A extends Attrs>(
  definition: Omit<
    OpDef<A>,
    "body" | "equation" | "linear" | "localize" | "form" | "lower" | "example" | "control" | "communication"
  > & {
    readonly control: (attrs: A) => Control;
  },
): OpDef<A> {
  return enter({
    ...definition,
    example: absent("owns graphs; the rows of the op table show it"),
    body: absent("a primitive"),
    communication: absent("its graphs may"),
    equation: planned,
    linear: [],
    localize: absent("its graphs are made local, its attributes hold no sizes"),
    form: program,
  });
}

const nameOf = (input: Node): string => String(input.attrs["name"]);
const index: TensorType = { dtype: "i32", shape: [] };

/** Refuses inputs that a graph does not take. */
function checkInputs(op: string, graph: Graph, types: readonly TensorType[]): void {
  if (graph.inputs.length !== types.length)
    throw new HeddleError("op", `${op}: '${graph.name}' takes ${graph.inputs.length} values, gets ${types.length}`);
  graph.inputs.forEach((input, position) => {
    const type = types[position] as TensorType;
    if (!sameType(typeOf(input), type))
      throw new HeddleError(
        "op",
        `${op}: '${nameOf(input)}' is ${formatType(typeOf(input))}, gets ${formatType(type)}`,
      );
  });
}

/** Refuses a body that gives a carry another type than it takes. */
function checkCarries(op: string, body: Graph, carries: number): void {
  for (let carry = 0; carry < carries; carry++) {
    const [before, after] = [body.inputs[carry + 1] as Node, body.outputs[carry]];
    if (after === undefined) throw new HeddleError("op", `${op}: the body gives no carry '${nameOf(before)}'`);
    if (!sameType(typeOf(before), typeOf(after))) {
      throw new HeddleError(
        "shape",
        `${op}: carry '${nameOf(before)}' is ${formatType(before)} before an iteration and ${formatType(after)} after it`,
        { hint: "a carry keeps its shape and dtype; cast or reshape it in the body, or start from another value" },
      );
    }
  }
}

function checkTest(op: string, what: string, type: TensorType | undefined): void {
  if (type?.dtype !== "bool" || type.shape.length !== 0)
    throw new HeddleError(
      "dtype",
      `${op}: ${what} must be a bool scalar, got ${type === undefined ? "nothing" : formatType(type)}`,
    );
}

const scalarIndex = (value: number): HostTensor => ({ ...index, data: Int32Array.of(value) });

const scanControl = (attrs: ScanAttrs): LoopControl => ({
  ...attrs,
  kind: "loop",
  condition: undefined,
  withBody: (body, slices) => ({ ...attrs, body, slices }),
});

export const scanOp: OpDef<ScanAttrs> = defineControl<ScanAttrs>({
  name: "scan",
  doc: "Runs a body `length` times: inputs are the first carries, values of which iteration i gets slice i of dim 0, and constants; the body takes (i, carries, slices, constants) and gives the next carries and values that are stacked along a new dim 0. Results are the last carries and the stacks; `reverse` runs from the last slice to the first.",
  control: scanControl,
  infer: (inputs, { body, length, carries, slices }) => {
    if (!Number.isInteger(length) || length < 0) throw new HeddleError("op", `scan: the length cannot be ${length}`);
    const operandTypes = inputs.map((type, position): TensorType => {
      if (position < carries || position >= carries + slices) return type;
      if (type.shape[0] !== length)
        throw new HeddleError("shape", `scan: ${formatType(type)} has no ${length} slices along dim 0`);
      return { dtype: type.dtype, shape: type.shape.slice(1) };
    });
    checkInputs("scan", body, [index, ...operandTypes]);
    checkCarries("scan", body, carries);
    return body.outputs.map(({ dtype, shape }, position) => ({
      dtype,
      shape: position < carries ? shape : [length, ...shape],
    }));
  },
  gradient: scanGradient,
  batch: batchScan,
  forward: forwardScan,
  cost: (_inputs, _outputs, { body, length }) => length * flopsTo(body.outputs),
  reference: (inputs, { body, length, carries, slices, reverse }, outputs, context) => {
    let state = inputs.slice(0, carries);
    const stacks = outputs.slice(carries).map(({ dtype, shape }) => dtypes[dtype].create(sizeOf(shape)));
    for (let step = 0; step < length; step++) {
      const at = reverse ? length - 1 - step : step;
      const xs = inputs.slice(carries, carries + slices).map((input) => sliceOf(input, at));
      const results = context.evaluate(body, [scalarIndex(at), ...state, ...xs, ...inputs.slice(carries + slices)]);
      state = results.slice(0, carries);
      stacks.forEach((stack, position) => {
        const { data } = results[carries + position] as HostTensor;
        stack.set(data, at * data.length);
      });
    }
    return [...state.map(({ data }) => data), ...stacks];
  },
});

export const whileOp: OpDef<WhileAttrs> = defineControl<WhileAttrs>({
  name: "while",
  doc: "Runs a body as long as a condition holds: inputs are the first carries and constants; condition and body take (number of the iteration, carries, constants) and give a bool scalar and the next carries. Results are the last carries. With `bound`, the most iterations it may take, it has a gradient.",
  control: ({ condition, body, carries }) => ({
    kind: "loop",
    body,
    condition,
    length: undefined,
    reverse: false,
    carries,
    slices: 0,
  }),
  infer: (inputs, { condition, body, carries }) => {
    checkInputs("while", body, [index, ...inputs]);
    checkInputs("while", condition, [index, ...inputs]);
    checkCarries("while", body, carries);
    if (body.outputs.length !== carries || carries === 0)
      throw new HeddleError("op", `while: the body gives ${body.outputs.length} values for ${carries} carries`);
    checkTest("while", "the condition", condition.outputs[0]);
    return inputs.slice(0, carries);
  },
  gradient: whileGradient,
  batch: batchWhile,
  forward: forwardWhile,
  // The number of iterations is not known; this is the cost of one.
  cost: (_inputs, _outputs, { condition, body }) => flopsTo([...condition.outputs, ...body.outputs]),
  reference: (inputs, { condition, body, carries }, _outputs, context) => {
    let state = inputs.slice(0, carries);
    for (let step = 0; ; step++) {
      const operands = [scalarIndex(step), ...state, ...inputs.slice(carries)];
      if (context.evaluate(condition, operands)[0]?.data[0] === 0) return state.map(({ data }) => data);
      state = context.evaluate(body, operands);
    }
  },
});

export const condOp: OpDef<CondAttrs> = defineControl<CondAttrs>({
  name: "cond",
  doc: "Runs one of two graphs on the inputs after the first: `onTrue` where the first, a bool scalar, is true. Both give values of the same types.",
  control: ({ onTrue, onFalse }) => ({ kind: "branch", branches: [onTrue, onFalse] }),
  infer: ([test, ...operands], { onTrue, onFalse }) => {
    checkTest("cond", "the predicate", test);
    checkInputs("cond", onTrue, operands);
    checkInputs("cond", onFalse, operands);
    const [left, right] = [onTrue, onFalse].map(({ outputs }) => outputs.map(typeOf)) as [TensorType[], TensorType[]];
    if (left.length === 0 || left.length !== right.length)
      throw new HeddleError("op", `cond: the branches give ${left.length} and ${right.length} values`);
    left.forEach((type, position) => {
      if (!sameType(type, right[position] as TensorType))
        throw new HeddleError(
          "shape",
          `cond: result ${position} is ${formatType(type)} in one branch and ${formatType(right[position] as TensorType)} in the other`,
        );
    });
    return left;
  },
  gradient: branchGradient,
  batch: batchBranch,
  forward: forwardBranch,
  cost: (_inputs, _outputs, { onTrue, onFalse }) => Math.max(flopsTo(onTrue.outputs), flopsTo(onFalse.outputs)),
  reference: ([test, ...operands], { onTrue, onFalse }, _outputs, context) =>
    context.evaluate(test?.data[0] === 0 ? onFalse : onTrue, operands).map(({ data }) => data),
});

/**
 * Applies scan; returns the last carries and the stacks. The carries before each iteration are also stacked, for the
 * gradient; a pass drops stacks that are not used.
 */
export function scan(inputs: readonly Node[], attrs: ScanAttrs): Node[] {
  const { body, carries } = attrs;
  const node = apply(scanOp, inputs, { ...attrs, body: withStackedCarries(body, carries) });
  return resultsOf(node).slice(0, body.outputs.length);
}

/**
 * Applies while; returns the last carries. More iterations than the bound are an error of the run, whose count includes the
 * `done` iterations before the loop.
 */
export function whileLoop(inputs: readonly Node[], attrs: WhileAttrs, done = 0): Node[] {
  const { bound } = attrs;
  const results =
    bound === undefined ? emitWhile(inputs, attrs) : emitWhile(...checkedWhile(inputs, { ...attrs, bound }, done));
  return results.slice(0, attrs.carries);
}

/** Applies cond; returns the results of the branch taken. */
export const cond = (inputs: readonly Node[], attrs: CondAttrs): Node[] => resultsOf(apply(condOp, inputs, attrs));
