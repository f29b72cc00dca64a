/** @module Gathers of values that are only used in a narrower dtype: the parts are cast, and the cast parts gathered. */
import { dtypes } from "../ir/dtype.ts";
import { mapGraph } from "../ir/graph.ts";
import { parameterOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import { apply } from "../ir/trace.ts";
import { topological, usersOf } from "../ir/walk.ts";
import { shareGathers } from "./gathers.ts";

const isAllGather = ({ op, inputs }: Node): boolean => op.name === "allGather" && inputs.length === 1;

/** Whether a value is a parameter, or gathered from one over some axes. */
const isStored = (node: Node): boolean =>
  node.op === parameterOp || (isAllGather(node) && isStored(node.inputs[0] as Node));

const narrows = ({ op, inputs: [x], dtype }: Node): boolean =>
  op.name === "cast" && dtypes[dtype].bytes < dtypes[(x as Node).dtype].bytes;

/** The casts of gathered parameters whose gathers have no other use: a gather that serves others, too, would be sent twice. */
function castsOfGathers({ outputs }: Graph): Set<Node> {
  const order = topological(outputs);
  const users = usersOf(order);
  const isFree = (node: Node): boolean =>
    node.op === parameterOp ||
    (!outputs.includes(node) &&
      (users.get(node) as readonly Node[]).every((user) => narrows(user) || isAllGather(user)) &&
      isFree(node.inputs[0] as Node));
  return new Set(
    order.filter((node) => {
      const source = node.inputs[0];
      return source !== undefined && narrows(node) && isAllGather(source) && isStored(source) && isFree(source);
    }),
  );
}

/**
 * Casts before gathers: 16-bit parameters are half of the bytes of f32, with the same bits. Each use of the cast value gets a gather of its own,
 * so that no gathered value lives from the way there to the way back; where devices differ, all uses share one, whose number all know.
 */
export function gatherCasts(graph: Graph): Graph {
  const casts = castsOfGathers(graph);
  if (casts.size === 0) return graph;
  const made = new Map<Node, Node>();
  /** The gathers of a value, over a cast of its part. */
  const gathered = (node: Node, cast: Node, user: string): Node => {
    if (!isAllGather(node)) return apply(cast.op, [made.get(node) as Node], cast.attrs);
    const label = /^\d+$/.test(String(node.attrs["label"])) ? node.attrs["label"] : user;
    return apply(node.op, [gathered(node.inputs[0] as Node, cast, user)], { ...node.attrs, label });
  };
  return mapGraph(graph, (node, inputs) => {
    for (const [index, input] of node.inputs.entries()) made.set(input, inputs[index] as Node);
    if (casts.has(node)) return gathered(node.inputs[0] as Node, node, `for ${node.id}`);
    const operands = node.inputs.map((input, index) =>
      casts.has(input) ? gathered(input.inputs[0] as Node, input, `for ${node.id}`) : (inputs[index] as Node),
    );
    return apply(node.op, operands, node.attrs);
  });
}

/** The gathers of one device's graph as they are sent: of narrow values where these are all that is used, each once for uses that follow each other. */
export const arrangeGathers = (graph: Graph): Graph => shareGathers(gatherCasts(shareGathers(graph)));
