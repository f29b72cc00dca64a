/** @module Shows values that users passed, in a few words, for messages. */

import { listed } from "./text.ts";

/** A value as messages show it. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return `the function ${value.name || "()"}`;
  if (Array.isArray(value)) return `[${value.length > 6 ? `… ${value.length} items` : value.map(shown).join(",")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const name = Object.getPrototypeOf(value)?.constructor?.name as string | undefined;
  if (name !== undefined && name !== "Object") return name === "Tensor" ? String(value) : `a ${name}`;
  return `{ ${listed(Object.keys(value))} }`;
}
