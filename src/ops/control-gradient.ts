/** @module Gradients of loops and branches: loops and branches over the pullbacks of their graphs. */
import { isFloat } from "../ir/dtype.ts";
import { inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import type { GradientContext, Graph, Node, Pullback } from "../ir/node.ts";
import { range, type TensorType } from "../ir/shape.ts";
import { type ScanAttrs, scanWithSums } from "./control-stacks.ts";
import * as emit from "./emit.ts";
import { resultsOf as results } from "./results.ts";

export type CondAttrs = { onTrue: Graph; onFalse: Graph };

export const typeOf = (node: Node): TensorType => node.types[0] as TensorType;
const zeros = ({ dtype, shape }: TensorType): Node => emit.full(dtype, shape, 0);
const floats = (nodes: readonly Node[]): number[] =>
  nodes.flatMap(({ dtype }, index) => (isFloat(dtype) ? [index] : []));
const pick = <T>(list: readonly T[], indices: readonly number[]): T[] => indices.map((index) => list[index] as T);

/** The carries before each iteration, stacked: results of the node if it has them, else of a scan that adds them. */
function stackedCarries(node: Node<ScanAttrs>): Node[] {
  const { body, carries } = node.attrs;
  const before = body.inputs.slice(1, carries + 1);
  const indices = before.map((input) => body.outputs.indexOf(input, carries));
  if (!indices.includes(-1)) return pick(results(node), indices);
  const stacking = emit.call("scan", node.inputs, {
    ...node.attrs,
    body: { ...body, outputs: [...body.outputs, ...before] },
  });
  return results(stacking).slice(body.outputs.length);
}

/**
 * The gradient of scan is a scan in the other direction. An iteration computes the body again from its stacked carries and
 * pulls the cotangents back through it; cotangents of the constants add up in further carries.
 */
export function scanGradient({ node, cotangents, pullback }: GradientContext<ScanAttrs>): (Node | undefined)[] {
  const { attrs, inputs } = node;
  return scanBackward({ attrs, inputs, cotangents, pullback, stacks: () => stackedCarries(node) });
}

/** A loop with the values of its carries before each iteration. */
export interface StackedLoop {
  readonly attrs: ScanAttrs;
  readonly inputs: readonly Node[];
  /** The cotangents of the carries, then those of the stacks of the body's other outputs. */
  readonly cotangents: readonly (Node | undefined)[];
  readonly pullback: Pullback;
  /** The carries before each iteration, stacked along dim 0. */
  readonly stacks: () => readonly Node[];
  /** The number of iterations that took place, an i32 scalar. Default: all. */
  readonly count?: Node;
}

/** Cotangents of a loop's inputs. */
export function scanBackward({ attrs, inputs, ...context }: StackedLoop): (Node | undefined)[] {
  const { carries, slices } = attrs;
  const [start, xs] = [inputs.slice(0, carries), inputs.slice(carries, carries + slices)];
  const constants = inputs.slice(carries + slices);
  const by = { start: floats(start), xs: floats(xs), constants: floats(constants) };
  const stackIds = range(context.cotangents.length - carries).filter((index) => context.cotangents[carries + index]);
  const whole = backwardBody(attrs, inputs, by, stackIds, context.pullback);
  const first = [
    ...by.start.map((index) => context.cotangents[index] ?? zeros(typeOf(start[index] as Node))),
    ...by.constants.map((index) => zeros(typeOf(constants[index] as Node))),
  ];
  // A loop over integers only has no cotangents.
  if (whole.outputs.length === 0) return inputs.map(() => undefined);
  const flowing = stackIds.map((index) => context.cotangents[carries + index] as Node);
  const stacked = [...context.stacks(), ...xs, ...flowing];
  const counts = context.count === undefined ? [] : [context.count];
  const loop: ScanAttrs = {
    body: context.count === undefined ? whole : onlyBelow(whole, first.length),
    length: attrs.length,
    carries: first.length,
    slices: stacked.length,
    reverse: !attrs.reverse,
  };
  const outputs = scanWithSums([...first, ...stacked, ...constants, ...counts], loop, by.start.length);
  const indices = [
    ...by.start,
    ...by.constants.map((index) => carries + slices + index),
    ...by.xs.map((index) => carries + index),
  ];
  return inputs.map((_input, index) => outputs[indices.indexOf(index)]);
}

/**
 * A backward body that also takes the number of iterations and leaves the carries unchanged in iterations that did not take
 * place. A branch skips those: from the zeros of a stack, the body could compute NaN.
 */
function onlyBelow(body: Graph, carries: number): Graph {
  const specs = inputSpecs(body);
  const [onTrue, onFalse] = [body, { ...body, outputs: body.inputs.slice(1, carries + 1) }];
  const count = { name: "iterations", type: { dtype: "i32", shape: [] } as TensorType };
  return traceGraph(body.name, [...specs, count], (...nodes) => {
    const operands = nodes.slice(0, specs.length);
    const took = emit.lt(nodes[0] as Node, nodes[specs.length] as Node);
    return results(emit.call("cond", [took, ...operands], { onTrue, onFalse }));
  });
}

interface Places {
  readonly start: readonly number[];
  readonly xs: readonly number[];
  readonly constants: readonly number[];
}

/** (i, cotangents of carries, sums, carries, slices, cotangents of stacks, constants) → (cotangents, sums, cotangents of slices). */
function backwardBody(
  { body, carries, slices }: ScanAttrs,
  inputs: readonly Node[],
  by: Places,
  stackIds: readonly number[],
  pullback: Pullback,
): Graph {
  const specs = inputSpecs(body);
  const after = (offset: number, indices: readonly number[], prefix: string): typeof specs =>
    pick(specs.slice(offset), indices).map(({ name, type }) => ({ name: `${prefix} ${name}`, type }));
  const valueSpecs = specs.slice(1);
  const parts = {
    carry: after(1, by.start, "gradient of"),
    sums: after(1 + carries + slices, by.constants, "gradient of"),
    values: valueSpecs.slice(0, carries + slices),
    flowing: stackIds.map((index) => ({
      name: `gradient of y${index}`,
      type: typeOf(body.outputs[carries + index] as Node),
    })),
    constants: valueSpecs.slice(carries + slices, inputs.length),
  };
  const all = [specs[0] as (typeof specs)[number], ...Object.values(parts).flat()];
  return traceGraph(`gradient-of-${body.name}`, all, (index, ...rest) => {
    let at = 0;
    const next = (part: readonly unknown[]): Node[] => {
      at += part.length;
      return rest.slice(at - part.length, at) as Node[];
    };
    const [carry = [], sums = [], values = [], flowing = [], constants = []] = Object.values(parts).map(next);
    const outputs = inlineGraph(body, [index as Node, ...values, ...constants]);
    const cotangents = outputs.map((_output, position) =>
      position < carries ? carry[by.start.indexOf(position)] : flowing[stackIds.indexOf(position - carries)],
    );
    const wrt = [...pick(values, by.start), ...pick(constants, by.constants), ...pick(values.slice(carries), by.xs)];
    const pulled = pullback(outputs, cotangents, wrt).map((value, order) => value ?? zeros(typeOf(wrt[order] as Node)));
    return pulled.map((value, order) => {
      const sum = sums[order - carry.length];
      return sum === undefined ? value : emit.add(sum, value);
    });
  });
}

/** The gradient of a branch is a branch over the pullbacks of both. */
export function branchGradient(context: GradientContext<CondAttrs>): (Node | undefined)[] {
  const { attrs, inputs } = context.node as Node<CondAttrs>;
  const operands = inputs.slice(1);
  const by = floats(operands);
  const resultIndices = floats(context.node.types as unknown as Node[]).filter((index) => context.cotangents[index]);
  if (by.length === 0) return inputs.map(() => undefined);
  const branch = (graph: Graph): Graph => {
    const specs = [
      ...inputSpecs(graph),
      ...resultIndices.map((index) => ({ name: `gradient of y${index}`, type: typeOf(graph.outputs[index] as Node) })),
    ];
    return traceGraph(`gradient-of-${graph.name}`, specs, (...nodes) => {
      const values = nodes.slice(0, operands.length);
      const outputs = inlineGraph(graph, values);
      const flowing = nodes.slice(operands.length);
      const cotangents = outputs.map((_output, index) => flowing[resultIndices.indexOf(index)]);
      const wrt = pick(values, by);
      return context
        .pullback(outputs, cotangents, wrt)
        .map((value, order) => value ?? zeros(typeOf(wrt[order] as Node)));
    });
  };
  const flowing = resultIndices.map((index) => context.cotangents[index] as Node);
  const outputs = results(
    emit.call("cond", [...inputs, ...flowing], { onTrue: branch(attrs.onTrue), onFalse: branch(attrs.onFalse) }),
  );
  return inputs.map((_input, index) => outputs[by.indexOf(index - 1)]);
}
