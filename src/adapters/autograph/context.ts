/** @module What the transform knows of the surroundings of a node. */
import type { Construct } from "./syntax.ts";

/** The surroundings of a node. */
export interface Context {
  /** Whether the directive holds. */
  readonly on: boolean;
  /** Whether the node is in a piece of a function that becomes a function itself, so that jumps are its results. */
  readonly piece: boolean;
  /** Whether `break` and `continue` mean a statement of JavaScript within the piece. */
  readonly plainBreak: boolean;
  readonly plainContinue: boolean;
}

/** The context inside a piece that becomes a function. */
export const pieceOf = (context: Context): Context => ({
  ...context,
  piece: true,
  plainBreak: false,
  plainContinue: false,
});

/** The closing brace of the block around a `for`, which holds the variables of its header. */
export const closing = (node: Construct): string => (node.type === "ForStatement" ? " }" : "");
