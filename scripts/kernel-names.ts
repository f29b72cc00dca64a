/** @module The names of the fields and structs of kernels in the native core. */
import type { Kernel } from "../src/kernels/index.ts";
import type { Form } from "../src/kernels/schema.ts";

/** The name with its first letter in upper case. */
export const pascal = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Name of a field in Rust: `in` becomes `input` or `inputs`, because Rust reserves the word. */
export function fieldName(name: string, { is }: Form): string {
  const many = is === "records" || is === "addresses";
  if (name === "in") return many ? "inputs" : "input";
  return name === "out" && many ? "outputs" : snake(name);
}

/** Name of the Rust struct that holds a call of a kernel. */
export const structName = ({ struct, name }: Kernel): string => `${struct ?? pascal(name)}Json`;
