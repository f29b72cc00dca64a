/** @module Questions that rules ask of a node. */
import type { DType } from "../ir/dtype.ts";
import { pointwiseEquation } from "../ir/leaf.ts";
import type { Node } from "../ir/node.ts";

export const isOp = (node: Node | undefined, name: string): node is Node => node?.op.name === name;

/** Input `index`, which the op is known to have. */
export const input = (node: Node, index = 0): Node => node.inputs[index] as Node;

/** An attribute, of the type that the op is known to give it. */
export const attr = <T>(node: Node, name: string): T => node.attrs[name] as T;

export const orderOf = (node: Node): readonly number[] => attr(node, "order");

/** Whether all operands and the result have one shape, and each element depends on those at its own place. */
export const isPointwise = (node: Node): boolean => node.op.equation === pointwiseEquation && node.inputs.length > 0;

/** The scalar node that a value repeats everywhere, when it is one or is broadcast from one. */
export function repeatedScalar(node: Node): Node | undefined {
  if (node.shape.length === 0) return node;
  return isOp(node, "broadcast") && input(node).shape.length === 0 ? input(node) : undefined;
}

/** The number that a value holds everywhere, when that is known. */
export function repeatedValue(node: Node): number | undefined {
  const scalar = repeatedScalar(node);
  return isOp(scalar, "constant") ? attr<number>(scalar, "value") : undefined;
}

/** Whether the value is `wanted` everywhere; 0 and -0 differ. */
export function isAll(node: Node, wanted: number): boolean {
  const value = repeatedValue(node);
  return value !== undefined && Object.is(value, wanted);
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

/** Whether every value of `from` is one of `to`. */
export const holds = (to: DType, from: DType): boolean => from === to || wider[from].includes(to);
