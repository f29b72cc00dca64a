/** @module What fields and structs of kernels are called in the native core. */
import type { Kernel } from "../src/kernels/index.ts";
import type { Form } from "../src/kernels/schema.ts";

/** A name with a capital. */
export const pascal = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Name of a field in Rust: `in` is a word of the language. */
export function fieldName(name: string, { is }: Form): string {
  const many = is === "records" || is === "addresses";
  if (name === "in") return many ? "inputs" : "input";
  return name === "out" && many ? "outputs" : snake(name);
}

/** Name of the struct that holds a kernel's call. */
export const structName = ({ struct, name }: Kernel): string => `${struct ?? pascal(name)}Json`;
