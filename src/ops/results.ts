/** @module The results of a node, one node each. */
import { elementOp } from "../ir/leaf.ts";
import type { Node } from "../ir/node.ts";
import { apply } from "../ir/trace.ts";

/** The results of a node, one node each. */
export const resultsOf = (node: Node): Node[] =>
  node.types.length === 1 ? [node] : node.types.map((_type, index) => apply(elementOp, [node], { index }));
