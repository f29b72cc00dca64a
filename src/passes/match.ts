/** @module Tests on nodes, for rules. */
import type { DType } from "../ir/dtype.ts";
import { pointwiseEquation } from "../ir/leaf.ts";
import type { Node } from "../ir/node.ts";

export const isOp = (node: Node | undefined, name: string): node is Node => node?.op.name === name;

/** Input `index`, which the op must have. */
export const input = (node: Node, index = 0): Node => node.inputs[index] as Node;

/** An attribute, of the type that the op declares. */
export const attr = <T>(node: Node, name: string): T => node.attrs[name] as T;

export const orderOf = (node: Node): readonly number[] => attr(node, "order");

/**
 * Whether all operands and the result have one shape, and each element depends on the operands' elements at the same position.
 */
export const isPointwise = (node: Node): boolean => node.op.equation === pointwiseEquation && node.inputs.length > 0;

/** The scalar node of a value that is a scalar or broadcasts one. */
export function repeatedScalar(node: Node): Node | undefined {
  if (node.shape.length === 0) return node;
  return isOp(node, "broadcast") && input(node).shape.length === 0 ? input(node) : undefined;
}

/** The number that all elements of a value equal, if it is known. */
export function repeatedValue(node: Node): number | undefined {
  const scalar = repeatedScalar(node);
  return isOp(scalar, "constant") ? attr<number>(scalar, "value") : undefined;
}

/** Whether all elements equal `expected`; 0 and -0 differ. */
export function isAll(node: Node, expected: number): boolean {
  const value = repeatedValue(node);
  return value !== undefined && Object.is(value, expected);
}

const wider: { readonly [D in DType]: readonly DType[] } = {
  bool: ["u8", "i8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"],
  u8: ["i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"],
  i8: ["i32", "i64", "f16", "bf16", "f32", "f64"],
  i32: ["i64", "f64"],
  u32: ["i64", "u64", "f64"],
  i64: [],
  u64: [],
  f16: ["f32", "f64"],
  bf16: ["f32", "f64"],
  f32: ["f64"],
  f64: [],
};

/** Whether every value of dtype `from` is a value of dtype `to`. */
export const holds = (to: DType, from: DType): boolean => from === to || wider[from].includes(to);
