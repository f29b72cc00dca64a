/** @module What the transform knows around a node, and what stands around what a node becomes. */
import type { Construct } from "./syntax.ts";

/** What is known around a node. */
export interface Context {
  /** Whether the directive holds. */
  readonly on: boolean;
  /** Whether this is a piece of a function that was made a function of its own: jumps are results. */
  readonly piece: boolean;
  /** Whether `break` and `continue` mean a statement of JavaScript within the piece. */
  readonly plainBreak: boolean;
  readonly plainContinue: boolean;
}

/** The context within a piece that was made a function. */
export const pieceOf = (context: Context): Context => ({
  ...context,
  piece: true,
  plainBreak: false,
  plainContinue: false,
});

/** The block around a `for` with its own variables. */
export const closing = (node: Construct): string => (node.type === "ForStatement" ? " }" : "");
