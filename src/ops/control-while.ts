/**
 * @module While loops. A bound on the iterations says how much a gradient must keep: a loop with a bound stacks its carries
 * before each iteration in further carries of shape `[bound, ...]`, and counts the iterations. Where no gradient is asked
 * for, the first pass drops stacks and count.
 */
import { isFloat } from "../ir/dtype.ts";
import { type InputSpec, inlineGraph, inputSpecs, narrowGraph, traceGraph } from "../ir/graph.ts";
import type { GradientContext, Graph, Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { range, type TensorType } from "../ir/shape.ts";
import { positionOf, Trace } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import { describePosition } from "../util/source.ts";
import { withinBound } from "./control-bound.ts";
import { scanBackward, typeOf } from "./control-gradient.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

/**
 * `bound` is the most iterations that the loop may take. If `stacked` is set, the carries are `stacked` carries of the user's
 * loop, the number of iterations (i32), and a stack of each of those carries.
 */
export type WhileAttrs = { condition: Graph; body: Graph; carries: number; bound?: number; stacked?: number };

/** A loop without stacks and count. */
interface Plain {
  readonly attrs: WhileAttrs;
  /** Positions of its inputs among those of the whole loop. */
  readonly inputs: readonly number[];
}

const counter: TensorType = { dtype: "i32", shape: [] };
const zero = (): Node => emit.constant("i32", 0);
const stackOf = ({ dtype, shape }: TensorType, bound: number): TensorType => ({ dtype, shape: [bound, ...shape] });

/** How many carries are the user's in a loop that stacks them; undefined without stacks, and after a pass dropped a carry. */
const userCarries = ({ carries, stacked }: WhileAttrs): number | undefined =>
  stacked !== undefined && carries === 2 * stacked + 1 ? stacked : undefined;

/** The loop without its stacks and its count. */
export function plainWhile(node: Pick<Node<WhileAttrs>, "attrs" | "inputs">): Plain {
  const { condition, body, carries, bound } = node.attrs;
  const plainCarries = userCarries(node.attrs) ?? carries;
  const inputs = [...range(plainCarries), ...range(node.inputs.length - carries).map((index) => carries + index)];
  const rest = bound === undefined ? {} : { bound };
  if (plainCarries === carries) return { attrs: { condition, body, carries, ...rest }, inputs };
  const taken = [0, ...inputs.map((index) => index + 1)];
  const attrs = {
    condition: narrowGraph(condition, taken, [0]),
    body: narrowGraph(body, taken, range(plainCarries)),
    carries: plainCarries,
    ...rest,
  };
  return { attrs, inputs };
}

/** Applies while; a loop with a bound and a float carry gets stacks. */
export function emitWhile(inputs: readonly Node[], attrs: WhileAttrs): Node[] {
  const { bound, carries } = attrs;
  const start = inputs.slice(0, carries);
  if (bound === undefined || !start.some(({ dtype }) => isFloat(dtype)))
    return resultsOf(emit.call("while", inputs, attrs));
  const stacks = start.map((carry) => stackOf(typeOf(carry), bound));
  const empty = [zero(), ...stacks.map(({ dtype, shape }) => emit.full(dtype, shape, 0))];
  return resultsOf(emit.call("while", [...start, ...empty, ...inputs.slice(carries)], withStacks(attrs, stacks)));
}

function withStacks({ condition, body, carries, ...rest }: WhileAttrs, stacks: readonly TensorType[]): WhileAttrs {
  const [index, ...specs] = inputSpecs(body) as [InputSpec, ...InputSpec[]];
  const carrySpecs = specs.slice(0, carries);
  const added = [
    { name: "iterations", type: counter },
    ...stacks.map((type, position) => ({ name: `all of ${carrySpecs[position]?.name}`, type })),
  ];
  const all = [index, ...carrySpecs, ...added, ...specs.slice(carries)];
  const plain = (nodes: readonly Node[]): Node[] => [...nodes.slice(0, carries), ...nodes.slice(2 * carries + 1)];
  return {
    ...rest,
    condition: traceGraph(condition.name, all, (at, ...nodes) => inlineGraph(condition, [at as Node, ...plain(nodes)])),
    body: traceGraph(body.name, all, (at, ...nodes) => [
      ...inlineGraph(body, [at as Node, ...plain(nodes)]),
      emit.add(at as Node, 1),
      ...nodes.slice(0, carries).map((carry, position) => {
        const row = emit.reshape(carry, [1, ...carry.shape]);
        const starts = [at as Node, ...carry.shape.map(zero)];
        return emit.call("dynamicUpdateSlice", [nodes[carries + 1 + position] as Node, row, ...starts]);
      }),
    ]),
    carries: 2 * carries + 1,
    stacked: carries,
  };
}

/**
 * The loop with a condition that fails the run if it still holds after `bound` iterations: the condition looks up the
 * iteration in a table of `bound` elements.
 */
export function checkedWhile(
  inputs: readonly Node[],
  attrs: WhileAttrs & { bound: number },
  done: number,
): [Node[], WhileAttrs] {
  const { condition, body, bound } = attrs;
  const table = { name: "within", type: { dtype: "bool", shape: [bound] } as TensorType };
  const specs = [...inputSpecs(body), table];
  const taken = range(specs.length - 1);
  const withoutTable = (nodes: readonly Node[]): Node[] => taken.map((index) => nodes[index] as Node);
  const test = (...nodes: Node[]): Node[] => {
    const holds = inlineGraph(condition, withoutTable(nodes))[0] as Node;
    const at = emit.select(holds, nodes[0] as Node, 0);
    return [emit.and(holds, withinBound(nodes.at(-1) as Node, at, body.name, done))];
  };
  // The error of the run names the line where the loop is written.
  const checked = traceGraph(condition.name, specs, test, new Trace(true));
  const step = traceGraph(body.name, specs, (...nodes) => inlineGraph(body, withoutTable(nodes)));
  return [[...inputs, emit.full("bool", [bound], 1)], { ...attrs, condition: checked, body: step }];
}

/** The gradient of a loop with a bound: that of a scan over the bound, without the iterations that did not take place. */
export function whileGradient({ node, cotangents, pullback }: GradientContext<WhileAttrs>): (Node | undefined)[] {
  const { bound } = node.attrs;
  if (bound === undefined) throw noBound(node);
  const plain = plainWhile(node);
  const carries = plain.attrs.carries;
  const inputs = plain.inputs.map((index) => node.inputs[index] as Node);
  const outputs = userCarries(node.attrs) === undefined ? emitWhile(inputs, plain.attrs) : resultsOf(node as Node);
  const { body } = plain.attrs;
  const inputCotangents = scanBackward({
    attrs: {
      body: { ...body, outputs: [...body.outputs, ...body.inputs.slice(1, carries + 1)] },
      length: bound,
      carries,
      slices: 0,
      reverse: false,
    },
    inputs,
    cotangents: [
      ...cotangents.slice(0, carries),
      ...outputs.slice(carries + 1).map((_stack, index) => cotangents[carries + 1 + index]),
    ],
    pullback,
    stacks: () => outputs.slice(carries + 1),
    count: outputs[carries] as Node,
  });
  return node.inputs.map((_input, index) => inputCotangents[plain.inputs.indexOf(index)]);
}

function noBound(node: Node<WhileAttrs>): HeddleError {
  const where = describePosition(positionOf(node as Node));
  return new HeddleError(
    "gradient",
    `${describeNode(node as Node)} has no gradient: the number of iterations to keep is not known`,
    {
      hint: "give whileLoop the option maxIterations, or use scan; jvp needs neither",
      ...(where === undefined ? {} : { where }),
    },
  );
}
