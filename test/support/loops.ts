/** @module Graphs whose composites hold loops, which are steps of a program of their own and so stand in no kernel. */
import type { Graph, Node } from "../../src/ir/node.ts";
import { isAbsent } from "../../src/ir/node.ts";
import { typeOf } from "../../src/ir/shape.ts";
import { nodesWithin } from "../../src/ir/walk.ts";
import { bodyGraph } from "../../src/ops/index.ts";
import { expand } from "../../src/passes/expand.ts";

const hidesLoop = ({ op, inputs, attrs }: Node): boolean =>
  !isAbsent(op.body) &&
  nodesWithin(bodyGraph(op, inputs.map(typeOf), attrs)).some((node) => !isAbsent(node.op.control) || hidesLoop(node));

/** The graph with its composites expanded where one of them holds a loop, as the passes do it. */
export const withOpenLoops = (graph: Graph): Graph => (nodesWithin(graph).some(hidesLoop) ? expand(graph) : graph);
