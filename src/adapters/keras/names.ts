/** @module Losses, optimizers and metrics by name, spelt as one likes: `"adamW"`, `"adam_w"` and `"AdamW"` are one. */
import { HeddleError, nearest, shown } from "../../extend/index.ts";

const plain = (name: string): string => name.toLowerCase().replaceAll(/[_\s-]/g, "");

/**
 * The entry of a table that a name stands for.
 *
 * @throws HeddleError `option` for a name that is not there, with the nearest that is.
 */
export function named<Value>(what: string, name: unknown, table: { readonly [name: string]: Value }): Value {
  const names = Object.keys(table);
  if (typeof name !== "string")
    throw new HeddleError("option", `compile: ${what} must be a name or a function, got ${shown(name)}`, {
      hint: `names are ${names.join(", ")}`,
    });
  const found = names.find((other) => plain(other) === plain(name));
  if (found !== undefined) return table[found] as Value;
  const near = nearest(plain(name), names.map(plain));
  const right = names.find((other) => plain(other) === near);
  throw new HeddleError("option", `compile: there is no ${what} '${name}'`, {
    hint: right === undefined ? `names are ${names.join(", ")}` : `did you mean '${right}'?`,
  });
}
