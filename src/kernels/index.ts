/** @module All kernels, by name. */
import type { KernelCall } from "../ir/kernel.ts";
import { HeddleError } from "../util/errors.ts";
import type { Access } from "./access.ts";
import * as families from "./all.ts";
import { end } from "./control.ts";
import type { Fields, Kernel } from "./schema.ts";

export { type Access, coveredBytes } from "./access.ts";
export * from "./all.ts";
export { aligned, alignment } from "./room.ts";
export type { Kernel, Values } from "./schema.ts";

/** Kernels by name. */
export const kernels: ReadonlyMap<string, Kernel> = new Map(
  Object.values(families).flatMap((one) => ("accesses" in one && one !== end ? [[one.name, one as Kernel]] : [])),
);

/** The kernel of a call. @throws HeddleError `lower` when there is none of that name. */
export function descriptionOf({ k }: KernelCall): Kernel {
  const found = kernels.get(k) ?? (k === end.name ? end : undefined);
  if (found === undefined) throw new HeddleError("lower", `there is no kernel '${k}'`);
  return found;
}

/** Everything that a call touches. `axes` are the sizes of the mesh axes. */
export const accessesOf = (call: KernelCall, axes: readonly number[] = []): readonly Access[] =>
  descriptionOf(call).accesses(call, axes);

/**
 * Refuses a call with fields that its kernel has not, or without those that it needs. `more` are fields of any call.
 *
 * @throws HeddleError `lower` naming the field and those that there are.
 */
export function checkFields(call: KernelCall, more: readonly string[] = []): void {
  const check = (held: object, fields: Fields, own: readonly string[], path: string): void => {
    const names = Object.keys(fields);
    const unknown = Object.keys(held).find((name) => !(name in fields) && !own.includes(name));
    const missing = names.find((name) => fields[name]?.needed === true && !(name in held));
    if (unknown !== undefined)
      throw new HeddleError("lower", `${path}: there is no field '${unknown}', only ${names.join(", ")}`);
    if (missing !== undefined) throw new HeddleError("lower", `${path}: the field '${missing}' is missing`);
    for (const [name, value] of Object.entries(held)) {
      const form = fields[name]?.form;
      if (form?.is !== "record" && form?.is !== "records") continue;
      for (const one of [value].flat()) check(one as object, form.fields, [], `${path}.${name}`);
    }
  };
  check(call, descriptionOf(call).fields, ["k", ...more], call.k);
}
