/** @module Ops that users define: what the library remembers of its own ops over runs does not hold for them. */
import type { AnyOpDef } from "./node.ts";
import * as op from "./op.ts";

/** Names of the ops that users have defined. */
export const userOps: Set<string> = new Set();

/** As the function that defines, and remembers the name. */
const noted = <Define extends (definition: never) => AnyOpDef>(define: Define): Define =>
  ((definition: never): AnyOpDef => {
    const made = define(definition);
    userOps.add(made.name);
    return made;
  }) as Define;

export const defineOp: typeof op.defineOp = noted(op.defineOp);
export const enter: typeof op.enter = noted(op.enter);
