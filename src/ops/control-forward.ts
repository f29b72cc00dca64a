/**
 * @module Forward mode through loops and branches: one loop or branch computes both values and tangents. Nothing is kept for a
 * backward pass, so the number of iterations need not be known.
 */

import { type InputSpec, inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import type { Attrs, Dual, ForwardContext, Graph, Node } from "../ir/node.ts";
import type { CondAttrs } from "./control-gradient.ts";
import { type ScanAttrs, withStackedCarries } from "./control-stacks.ts";
import { emitWhile, plainWhile, type WhileAttrs } from "./control-while.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

type Forward = ForwardContext<Attrs>["forward"];

/** Values in groups (carries, slices, constants); each group is followed by the tangents of its values that have one. */
class Groups {
  private readonly sizes: readonly number[];
  readonly active: readonly boolean[];
  constructor(sizes: readonly number[], active: readonly boolean[]) {
    this.sizes = sizes;
    this.active = active;
  }

  /** Values and tangents in the order in which the joint graph takes them. */
  join<T>(values: readonly T[], tangents: readonly T[]): T[] {
    let at = 0;
    return this.sizes.flatMap((size) => {
      const indices = values.slice(at, at + size).map((_value, index) => at + index);
      at += size;
      const moving = indices.filter((index) => this.active[index]);
      return [...indices.map((index) => values[index] as T), ...moving.map((index) => tangents[index] as T)];
    });
  }

  /** The inverse of {@link join}. */
  split(joined: readonly Node[]): Dual[] {
    let [at, first] = [0, 0];
    return this.sizes.flatMap((size) => {
      const values = joined.slice(at, at + size);
      let next = at + size;
      const duals = values.map((node, index): Dual => {
        const moves = this.active[first + index] === true;
        return { node, tangent: moves ? joined[next++] : undefined };
      });
      [at, first] = [next, first + size];
      return duals;
    });
  }
}

const tangentOr0 = ({ node, tangent }: Dual): Node => tangent ?? emit.zerosLike(node);
const moves = ({ tangent }: Dual): boolean => tangent !== undefined;
const tangentSpecs = (specs: readonly InputSpec[]): InputSpec[] =>
  specs.map(({ name, type }) => ({ name: `tangent of ${name}`, type }));

/** A graph over values and tangents, and which of its results have tangents. */
interface Joint {
  readonly graph: Graph;
  readonly groups: Groups;
  readonly results: readonly boolean[];
}

/**
 * A body that also takes and gives tangents. A carry that gets a tangent in one iteration has one in all, so the set of
 * carries with tangents grows until nothing changes.
 */
function jointBody(
  { body, carries, slices }: { body: Graph; carries: number; slices: number },
  inputs: readonly Dual[],
  forward: Forward,
): Joint {
  const [count, ...specs] = inputSpecs(body) as [InputSpec, ...InputSpec[]];
  let active = inputs.map(moves);
  for (;;) {
    const groups = new Groups([carries, slices, inputs.length - carries - slices], active);
    let results: boolean[] = [];
    const joined = [count, ...groups.join(specs, tangentSpecs(specs))];
    const graph = traceGraph(`forward-of-${body.name}`, joined, (index, ...operands) => {
      const duals = forward(body, [{ node: index as Node, tangent: undefined }, ...groups.split(operands)]);
      results = duals.map((dual, position) => moves(dual) || (position < carries && active[position] === true));
      return new Groups([carries, duals.length - carries], results).join(
        duals.map(({ node }) => node),
        duals.map(tangentOr0),
      );
    });
    const grown = active.map((flag, index) => flag || (index < carries && results[index] === true));
    if (grown.every((flag, index) => flag === active[index])) return { graph, groups, results };
    active = grown;
  }
}

const operandsOf = (groups: Groups, inputs: readonly Dual[]): Node[] =>
  groups.join(
    inputs.map(({ node }) => node),
    inputs.map((input, index) => (groups.active[index] ? tangentOr0(input) : input.node)),
  );

const count = (flags: readonly boolean[]): number => flags.filter((flag) => flag).length;

export function forwardScan({ node, inputs, forward }: ForwardContext<ScanAttrs>): Dual[] {
  const { body, carries, slices } = node.attrs;
  const { graph, groups, results } = jointBody(node.attrs, inputs, forward);
  const all = {
    carries: carries + count(groups.active.slice(0, carries)),
    slices: slices + count(groups.active.slice(carries, carries + slices)),
  };
  const attrs = { ...node.attrs, ...all, body: withStackedCarries(graph, all.carries) };
  const outputs = resultsOf(emit.call("scan", operandsOf(groups, inputs), attrs));
  return new Groups([carries, body.outputs.length - carries], results).split(outputs);
}

export function forwardWhile(context: ForwardContext<WhileAttrs>): Dual[] {
  const { attrs, inputs: indices } = plainWhile(context.node);
  const inputs = indices.map((index) => context.inputs[index] as Dual);
  const { body, condition, carries } = attrs;
  const { graph, groups, results } = jointBody({ body, carries, slices: 0 }, inputs, context.forward);
  // The condition takes the body's operands and reads only the values.
  const test = traceGraph(condition.name, inputSpecs(graph), (index, ...operands) =>
    inlineGraph(condition, [index as Node, ...groups.split(operands).map((dual) => dual.node)]),
  );
  const all = carries + count(groups.active.slice(0, carries));
  const outputs = emitWhile(operandsOf(groups, inputs), { ...attrs, condition: test, body: graph, carries: all });
  const split = (from: readonly Node[]): Dual[] => new Groups([carries], results).split(from);
  // The stack of a carry's tangents is the tangent of its stack.
  const iterations = outputs[all];
  if (iterations === undefined) return split(outputs);
  return [...split(outputs.slice(0, all)), { node: iterations, tangent: undefined }, ...split(outputs.slice(all + 1))];
}

export function forwardBranch({ node, inputs, forward }: ForwardContext<CondAttrs>): Dual[] {
  const [test, ...operands] = inputs as [Dual, ...Dual[]];
  const groups = new Groups([operands.length], operands.map(moves));
  const branch = (graph: Graph, wanted: readonly boolean[]): Joint => {
    const specs = inputSpecs(graph);
    let results: boolean[] = [];
    const joined = groups.join(specs, tangentSpecs(specs));
    const joint = traceGraph(`forward-of-${graph.name}`, joined, (...operands) => {
      const duals = forward(graph, groups.split(operands));
      results = duals.map((dual, index) => moves(dual) || wanted[index] === true);
      return new Groups([duals.length], results).join(
        duals.map((dual) => dual.node),
        duals.map(tangentOr0),
      );
    });
    return { graph: joint, groups, results };
  };
  const onFalse = branch(node.attrs.onFalse, branch(node.attrs.onTrue, []).results);
  const onTrue = branch(node.attrs.onTrue, onFalse.results);
  const attrs = { onTrue: onTrue.graph, onFalse: onFalse.graph };
  const outputs = resultsOf(emit.call("cond", [test.node, ...operandsOf(groups, operands)], attrs));
  return new Groups([node.types.length], onTrue.results).split(outputs);
}
