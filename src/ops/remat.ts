/**
 * @module Rematerialisation: a graph whose values are computed again for its gradient instead of being kept (gradient
 * checkpointing; Griewank and Walther, 2000). The graph is one node until the passes inline it.
 */
import { inlineGraph, inputSpecs, interpretGraph, traceGraph } from "../ir/graph.ts";
import { parameterOp } from "../ir/leaf.ts";
import {
  absent,
  type BatchContext,
  type Batched,
  type Dual,
  type ForwardContext,
  type GradientContext,
  type Graph,
  type Node,
  type Pullback,
} from "../ir/node.ts";
import { apply } from "../ir/trace.ts";
import { batchedGraph, isBatched } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";
import { f32 } from "./movement.ts";
import { resultsOf } from "./results.ts";

/** The last `saved` results of the body are values within it that are kept for the gradient. */
export type RematAttrs = { body: Graph; saved: number };

const twice: Graph = traceGraph("twice", [{ name: "x", type: { dtype: "f32", shape: [] } }], (x) => [
  emit.add(x as Node, x as Node),
]);

export const rematOp = defineComposite<RematAttrs>({
  name: "remat",
  doc: "The results of a graph. For the gradient, values within the graph are computed again from its inputs and the saved values.",
  example: { inputs: [f32([], [3])], attrs: { body: twice, saved: 0 }, outputs: [f32([], [6])] },
  body: (inputs, { body }) => inlineGraph(body, inputs),
  equation: absent("the planner sees its body"),
  linear: [],
  gradient: rematGradient,
  batch: batchRemat,
  forward: forwardRemat,
  form: absent("the passes put its body in its place"),
});

/** The gradient is a remat node too, so that a second derivative computes its values again as well. */
function rematGradient({ node, cotangents, pullback }: GradientContext<RematAttrs>): (Node | undefined)[] {
  const { body, saved } = node.attrs as RematAttrs;
  const results = resultsOf(node);
  const savedResults = saved === 0 ? [] : results.slice(-saved);
  const flowingPlaces = [...cotangents.keys()].filter((index) => cotangents[index] !== undefined);
  const flowing = flowingPlaces.map((index) => cotangents[index] as Node);
  const specs = [
    ...inputSpecs(body),
    ...savedResults.map(({ dtype, shape }, index) => ({ name: `saved${index}`, type: { dtype, shape } })),
    ...flowing.map(({ dtype, shape }, index) => ({ name: `cotangent${index}`, type: { dtype, shape } })),
  ];
  let flows: boolean[] = [];
  const backward = traceGraph(`gradient-of-${body.name}`, specs, (...nodes) => {
    const [inputs, rest] = [nodes.slice(0, node.inputs.length), nodes.slice(node.inputs.length)];
    const slots = new Array<Node | undefined>(results.length).fill(undefined);
    flowingPlaces.forEach((index, order) => {
      slots[index] = rest[saved + order];
    });
    const pulled = pulledThrough(body, { inputs, saved: rest.slice(0, saved), cotangents: slots, pullback });
    flows = pulled.map((value) => value !== undefined);
    return pulled.filter((value) => value !== undefined);
  });
  if (backward.outputs.length === 0) return node.inputs.map(() => undefined);
  // Behind barriers, no node is shared with the forward pass, and none runs before the cotangents are computed.
  const again = [...node.inputs, ...savedResults].map((value) => emit.barrier(value, flowing));
  const inputCotangents = [...resultsOf(emit.call("remat", [...again, ...flowing], { body: backward, saved: 0 }))];
  return flows.map((flow) => (flow ? inputCotangents.shift() : undefined));
}

interface Cut {
  readonly inputs: readonly Node[];
  readonly saved: readonly Node[];
  readonly cotangents: readonly (Node | undefined)[];
  readonly pullback: Pullback;
}

/** Cotangents of the inputs. Goes from the last saved value to the first; all values in between are computed again. */
function pulledThrough(body: Graph, { inputs, saved, cotangents, pullback }: Cut): (Node | undefined)[] {
  const savedNodes = saved.length === 0 ? [] : body.outputs.slice(-saved.length);
  const indices = new Map(
    savedNodes.flatMap((node, index) => (node.op === parameterOp ? [] : [[node, index] as const])),
  );
  const recomputed = new Map<number, Node>();
  const outputs = interpretGraph(body, inputs, (node, operands) => {
    const value = apply(node.op, operands, node.attrs);
    const index = indices.get(node);
    if (index === undefined) return value;
    recomputed.set(index, value);
    return saved[index] as Node;
  });
  const totals: (Node | undefined)[] = inputs.map(() => undefined);
  const flowing: (Node | undefined)[] = saved.map(() => undefined);
  const sum = (list: (Node | undefined)[], index: number, value: Node | undefined): void => {
    const held = list[index];
    if (value !== undefined) list[index] = held === undefined ? value : emit.add(held, value);
  };
  const pull = (from: readonly Node[], seeds: readonly (Node | undefined)[]): void => {
    const pulled = pullback(from, seeds, [...inputs, ...saved]);
    for (const [index, value] of pulled.entries())
      if (index < inputs.length) sum(totals, index, value);
      else sum(flowing, index - inputs.length, value);
  };
  pull(outputs, cotangents);
  const latestFirst = [...recomputed.keys()].sort(
    (left, right) => (savedNodes[right] as Node).id - (savedNodes[left] as Node).id,
  );
  for (const index of latestFirst) {
    const cotangent = flowing[index];
    if (cotangent !== undefined) pull([recomputed.get(index) as Node], [cotangent]);
  }
  return totals;
}

function batchRemat({ node, inputs, size, batch }: BatchContext<RematAttrs>): Batched[] {
  const { body, saved } = node.attrs as RematAttrs;
  const { graph, results } = batchedGraph(body, inputs.map(isBatched), size, batch, (found) => found);
  const remat = emit.call(
    "remat",
    inputs.map((input) => input.node),
    { body: graph, saved },
  );
  return resultsOf(remat).map((result, index) => ({ node: result, batched: results[index] === true }));
}

/** Values and tangents together, in one remat node. */
function forwardRemat({ node, inputs, forward }: ForwardContext<RematAttrs>): Dual[] {
  const { body, saved } = node.attrs as RematAttrs;
  const resultCount = body.outputs.length - saved;
  const moving = [...inputs.keys()].filter((index) => inputs[index]?.tangent !== undefined);
  const specs = inputSpecs(body);
  const tangentSpecs = moving.map((index) => {
    const { name, type } = specs[index] as (typeof specs)[number];
    return { name: `tangent of ${name}`, type };
  });
  let moves: boolean[] = [];
  const joint = traceGraph(`forward-of-${body.name}`, [...specs, ...tangentSpecs], (...nodes) => {
    const tangents = nodes.slice(specs.length);
    const duals = forward(
      body,
      specs.map((_spec, index): Dual => {
        const at = moving.indexOf(index);
        return { node: nodes[index] as Node, tangent: at < 0 ? undefined : tangents[at] };
      }),
    );
    moves = duals.map(({ tangent }) => tangent !== undefined);
    return [duals.slice(0, resultCount), duals.slice(resultCount)].flatMap((part) => [
      ...part.map((dual) => dual.node),
      ...part.flatMap(({ tangent }) => (tangent === undefined ? [] : [tangent])),
    ]);
  });
  const count = (from: number, to?: number): number => moves.slice(from, to).filter(Boolean).length;
  const operands = [...inputs.map((input) => input.node), ...moving.map((index) => inputs[index]?.tangent as Node)];
  const outputs = resultsOf(emit.call("remat", operands, { body: joint, saved: saved + count(resultCount) }));
  const [values, savedValues] = [
    outputs.slice(0, resultCount + count(0, resultCount)),
    outputs.slice(resultCount + count(0, resultCount)),
  ];
  const duals = (part: readonly Node[], flags: readonly boolean[]): Dual[] => {
    let next = flags.length;
    return flags.map((moving, index) => ({ node: part[index] as Node, tangent: moving ? part[next++] : undefined }));
  };
  return [...duals(values, moves.slice(0, resultCount)), ...duals(savedValues, moves.slice(resultCount))];
}
