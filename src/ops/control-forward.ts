/**
 * @module Forward mode through loops and branches: each computes its values and their tangents together, in one loop or
 * branch. Nothing is kept for a way back, so it works where the number of iterations is not known.
 */
import { type InputSpec, inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import type { Attrs, Dual, ForwardContext, Graph, Node } from "../ir/node.ts";
import { withStackedCarries } from "./control-gradient.ts";
import { emitWhile, plainWhile, type WhileAttrs } from "./control-while.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

type ScanLike = { body: Graph; length: number; carries: number; slices: number; reverse: boolean };
type CondLike = { onTrue: Graph; onFalse: Graph };
type Forward = ForwardContext<Attrs>["forward"];

/** Values in groups (carries, slices, constants), each followed by the tangents that it has. */
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
      const places = values.slice(at, at + size).map((_value, place) => at + place);
      at += size;
      const moving = places.filter((place) => this.active[place]);
      return [...places.map((place) => values[place] as T), ...moving.map((place) => tangents[place] as T)];
    });
  }

  /** The inverse of {@link join}. */
  split(joined: readonly Node[]): Dual[] {
    let [at, first] = [0, 0];
    return this.sizes.flatMap((size) => {
      const values = joined.slice(at, at + size);
      let next = at + size;
      const duals = values.map((node, place): Dual => {
        const moves = this.active[first + place] === true;
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

/** Whether results have tangents, when inputs have; the first `carries` of them follow each other. */
interface Joint {
  readonly graph: Graph;
  readonly groups: Groups;
  readonly results: readonly boolean[];
}

/**
 * A body that also takes and gives tangents. A carry has one from the second iteration on at the latest, so it has one in
 * all: what has tangents grows until nothing changes.
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
    const graph = traceGraph(`forward-of-${body.name}`, joined, (index, ...given) => {
      const made = forward(body, [{ node: index as Node, tangent: undefined }, ...groups.split(given)]);
      results = made.map((dual, place) => moves(dual) || (place < carries && active[place] === true));
      return new Groups([carries, made.length - carries], results).join(
        made.map(({ node }) => node),
        made.map(tangentOr0),
      );
    });
    const grown = active.map((is, place) => is || (place < carries && results[place] === true));
    if (grown.every((is, place) => is === active[place])) return { graph, groups, results };
    active = grown;
  }
}

const operandsOf = (groups: Groups, inputs: readonly Dual[]): Node[] =>
  groups.join(
    inputs.map(({ node }) => node),
    inputs.map((input, place) => (groups.active[place] ? tangentOr0(input) : input.node)),
  );

const count = (flags: readonly boolean[]): number => flags.filter((flag) => flag).length;

export function forwardScan({ node, inputs, forward }: ForwardContext<ScanLike>): Dual[] {
  const { body, carries, slices } = node.attrs;
  const { graph, groups, results } = jointBody(node.attrs, inputs, forward);
  const all = {
    carries: carries + count(groups.active.slice(0, carries)),
    slices: slices + count(groups.active.slice(carries, carries + slices)),
  };
  const attrs = { ...node.attrs, ...all, body: withStackedCarries(graph, all.carries) };
  const made = resultsOf(emit.call("scan", operandsOf(groups, inputs), attrs));
  return new Groups([carries, body.outputs.length - carries], results).split(made);
}

export function forwardWhile(context: ForwardContext<WhileAttrs>): Dual[] {
  const { attrs, inputs: places } = plainWhile(context.node);
  const inputs = places.map((place) => context.inputs[place] as Dual);
  const { body, condition, carries } = attrs;
  const { graph, groups, results } = jointBody({ body, carries, slices: 0 }, inputs, context.forward);
  // The condition takes what the body takes, and looks at the values alone.
  const test = traceGraph(condition.name, inputSpecs(graph), (index, ...given) =>
    inlineGraph(condition, [index as Node, ...groups.split(given).map((dual) => dual.node)]),
  );
  const all = carries + count(groups.active.slice(0, carries));
  const made = emitWhile(operandsOf(groups, inputs), { ...attrs, condition: test, body: graph, carries: all });
  const split = (from: readonly Node[]): Dual[] => new Groups([carries], results).split(from);
  // The stacks of tangents are the tangents of stacks.
  const iterations = made[all];
  if (iterations === undefined) return split(made);
  return [...split(made.slice(0, all)), { node: iterations, tangent: undefined }, ...split(made.slice(all + 1))];
}

export function forwardBranch({ node, inputs, forward }: ForwardContext<CondLike>): Dual[] {
  const [test, ...operands] = inputs as [Dual, ...Dual[]];
  const groups = new Groups([operands.length], operands.map(moves));
  const branch = (graph: Graph, wanted: readonly boolean[]): Joint => {
    const specs = inputSpecs(graph);
    let results: boolean[] = [];
    const joined = groups.join(specs, tangentSpecs(specs));
    const made = traceGraph(`forward-of-${graph.name}`, joined, (...given) => {
      const duals = forward(graph, groups.split(given));
      results = duals.map((dual, place) => moves(dual) || wanted[place] === true);
      return new Groups([duals.length], results).join(
        duals.map((dual) => dual.node),
        duals.map(tangentOr0),
      );
    });
    return { graph: made, groups, results };
  };
  const onFalse = branch(node.attrs.onFalse, branch(node.attrs.onTrue, []).results);
  const onTrue = branch(node.attrs.onTrue, onFalse.results);
  const attrs = { onTrue: onTrue.graph, onFalse: onFalse.graph };
  const made = resultsOf(emit.call("cond", [test.node, ...operandsOf(groups, operands)], attrs));
  return new Groups([node.types.length], onTrue.results).split(made);
}
