/** @module Defining ops: the registry that the parser, the documentation and the tests read. */
import { HeddleError } from "../util/errors.ts";
import { type AnyOpDef, type Attrs, absent, type OpDef } from "./node.ts";

const registry = new Map<string, AnyOpDef>();

/**
 * Defines a primitive op and enters it in the registry.
 *
 * @throws HeddleError `op` when the name is taken by another definition.
 */
export function defineOp<A extends Attrs>(
  definition: Omit<OpDef<A>, "body" | "forward" | "control" | "communication">,
): OpDef<A> {
  return enter({
    ...definition,
    body: absent("a primitive"),
    forward: absent("follows from its gradient"),
    control: absent("owns no graphs"),
    communication: absent("does not communicate"),
  });
}

/** Enters an op in the registry; `defineOp`, `defineComposite`, `defineControl` and `defineCollective` call it. */
export function enter<A extends Attrs>(definition: OpDef<A>): OpDef<A> {
  if (!/^[a-z][A-Za-z0-9]*$/.test(definition.name))
    throw new HeddleError("op", `'${definition.name}' is not a name for an op`);
  if (registry.has(definition.name)) throw new HeddleError("op", `op '${definition.name}' is already defined`);
  registry.set(definition.name, definition);
  return definition;
}

/** The op of this name. @throws HeddleError `op` when there is none. */
export function opNamed(name: string): AnyOpDef {
  const op = registry.get(name);
  if (op === undefined) throw new HeddleError("op", `there is no op '${name}'`);
  return op;
}

/** All ops, in order of definition. */
export function allOps(): readonly AnyOpDef[] {
  return [...registry.values()];
}
