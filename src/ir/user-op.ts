/** @module Ops that users define: what the library remembers of its own ops over runs does not hold for them. */
import type { AnyOpDef } from "./node.ts";
import * as op from "./op.ts";

/** Names of the ops that users have defined. */
export const userOps: Set<string> = new Set();

const noted = <Op extends AnyOpDef>(made: Op): Op => {
  userOps.add(made.name);
  return made;
};

/** Defines a primitive op of a user's, as the library defines its own, and remembers the name. */
export const defineOp: typeof op.defineOp = (definition) => noted(op.defineOp(definition));

/** Enters a user's op in the registry, as the library enters its own, and remembers the name. */
export const enter: typeof op.enter = (definition) => noted(op.enter(definition));
