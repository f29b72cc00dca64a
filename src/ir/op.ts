/** @module Defining ops: the registry that the parser, the documentation and the tests read. */
import { HeddleError } from "../util/errors.ts";
import { type Communication, communicationOf } from "./communication.ts";
import { type AnyOpDef, type Attrs, absent, isAbsent, type OpDef } from "./node.ts";

const registry = new Map<string, AnyOpDef>();

/** An op without the fields that follow from the others: `lower` is for kernels only. */
export type OpDefinition<A extends Attrs> = Omit<OpDef<A>, "lower"> & Partial<Pick<OpDef<A>, "lower">>;

/**
 * Defines a primitive op and enters it in the registry.
 *
 * @throws HeddleError `op` when the name is taken by another definition, or a kernel has no `lower`.
 */
export function defineOp<A extends Attrs>(
  definition: Omit<OpDefinition<A>, "body" | "forward" | "control" | "communication">,
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
export function enter<A extends Attrs>(definition: OpDefinition<A>): OpDef<A> {
  const { name, form, lower = isAbsent(form) ? form : absent("its form says how") } = definition;
  if (!/^[a-z][A-Za-z0-9]*$/.test(name)) throw new HeddleError("op", `'${name}' is not a name for an op`);
  if (registry.has(name)) throw new HeddleError("op", `op '${name}' is already defined`);
  const isKernel = !isAbsent(form) && form.kind === "kernel";
  if (isKernel === (definition.lower === undefined)) {
    throw new HeddleError("op", `op '${name}': its form and the field 'lower' do not fit`, {
      hint: 'form: { kind: "kernel" } has native calls in lower, or absent("the reason"); others have no lower',
    });
  }
  const op: OpDef<A> = { ...definition, lower };
  registry.set(name, op);
  return op;
}

/** The op of this name. @throws HeddleError `op` when there is none. */
export function opNamed(name: string): AnyOpDef {
  const op = registry.get(name);
  if (op === undefined) throw new HeddleError("op", `there is no op '${name}'`, { hint: 'import "heddle" first' });
  return op;
}

/** How the collective of this name communicates. @throws HeddleError `op` when there is no such collective. */
export function communicationNamed(name: string): Communication<Attrs> {
  const communication = communicationOf<Attrs>({ op: opNamed(name) });
  if (communication === undefined) throw new HeddleError("op", `'${name}' is not a collective`);
  return communication;
}

/** All ops, in order of definition. */
export function allOps(): readonly AnyOpDef[] {
  return [...registry.values()];
}
