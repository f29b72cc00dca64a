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

/** Kernels by name, in the order of names: that of exports is another where a bundler has them. */
export const kernels: ReadonlyMap<string, Kernel> = new Map(
  Object.values(families)
    .flatMap((kernel) => ("accesses" in kernel && kernel !== end ? [[kernel.name, kernel as Kernel] as const] : []))
    .sort(([one], [other]) => (one < other ? -1 : 1)),
);

/** The kernel of a call. @throws HeddleError `lower` for an unknown name. */
export function descriptionOf({ k }: KernelCall): Kernel {
  const found = kernels.get(k) ?? (k === end.name ? end : undefined);
  if (found === undefined) throw new HeddleError("lower", `there is no kernel '${k}'`);
  return found;
}

/** All memory that a call accesses. `axes` are the sizes of the mesh axes. */
export const accessesOf = (call: KernelCall, axes: readonly number[] = []): readonly Access[] =>
  descriptionOf(call).accesses(call, axes);

/**
 * Checks that a call has all needed fields of its kernel and no others. `more` are fields that any call may have.
 *
 * @throws HeddleError `lower` with the field and the fields of the kernel.
 */
export function checkFields(call: KernelCall, more: readonly string[] = []): void {
  const check = (held: object, fields: Fields, extra: readonly string[], path: string): void => {
    const names = Object.keys(fields);
    const unknown = Object.keys(held).find((name) => !(name in fields) && !extra.includes(name));
    const missing = names.find((name) => fields[name]?.needed === true && !(name in held));
    if (unknown !== undefined)
      throw new HeddleError("lower", `${path}: there is no field '${unknown}', only ${names.join(", ")}`);
    if (missing !== undefined) throw new HeddleError("lower", `${path}: the field '${missing}' is missing`);
    for (const [name, value] of Object.entries(held)) {
      const form = fields[name]?.form;
      if (form?.is !== "record" && form?.is !== "records") continue;
      for (const item of [value].flat()) check(item as object, form.fields, [], `${path}.${name}`);
    }
  };
  check(call, descriptionOf(call).fields, ["k", ...more], call.k);
}
