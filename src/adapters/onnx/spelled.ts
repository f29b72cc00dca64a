/** @module What spellings of ops in ONNX share: a node with the names of its inputs, and moves of dims. */

import { HeddleError } from "../../extend/index.ts";
import {
  type DType,
  dtypes,
  formatType,
  type Graph,
  type Node,
  range,
  type Shape,
  type TensorType,
} from "../../ir/index.ts";
import type { GraphWriter } from "./graph-writer.ts";
import { codeOfDType, int64 } from "./tensors.ts";

/** A node to be spelled, and the names of its inputs. */
export interface Spelled {
  readonly node: Node;
  readonly inputs: readonly string[];
  readonly writer: GraphWriter;
  /** Spells a graph that the node owns, given the names of its inputs; returns those of its outputs. */
  readonly spell: (graph: Graph, inputs: readonly string[], writer: GraphWriter) => string[];
}

/** Adds nodes; returns the name of the result, or the names of several results. */
export type Spelling = (spelled: Spelled) => string | readonly string[];

export const typeOfInput = (node: Node, index = 0): TensorType => node.inputs[index] as Node;

export const refused = (node: Node, why: string): HeddleError =>
  new HeddleError("op", `exportOnnx: ${node.op.name} (${formatType(node)}) ${why}`);

export const reshaped = (writer: GraphWriter, name: string, shape: Shape): string =>
  writer.add("Reshape", [name, writer.list(shape)]);

export const transposed = (writer: GraphWriter, name: string, order: readonly number[]): string =>
  order.every((dim, index) => dim === index) ? name : writer.add("Transpose", [name], { perm: order });

export const castTo = (writer: GraphWriter, name: string, dtype: DType): string =>
  writer.add("Cast", [name], { to: codeOfDType(dtype) });

/** The values as int64, the dtype of indices. */
export const toInt64 = (writer: GraphWriter, name: string): string => castTo(writer, name, int64);

/** Part of a tensor. */
export function sliced(writer: GraphWriter, name: string, start: Shape, limit: Shape): string {
  return writer.add("Slice", [name, ...[start, limit, range(start.length)].map((list) => writer.list(list))]);
}

/** Dims in reverse. */
export function reversed(writer: GraphWriter, name: string, dims: readonly number[]): string {
  const lists = [dims.map(() => -1), dims.map(() => -(2 ** 31)), dims, dims.map(() => -1)];
  return writer.add("Slice", [name, ...lists.map((list) => writer.list(list))]);
}

/** A tensor of one number. */
export const filled = (writer: GraphWriter, { dtype, shape }: TensorType, value: number): string =>
  writer.add("Expand", [writer.scalar(dtype, value), writer.list(shape)]);

/** Positions along `dim`, repeated along all other dims. */
export function placesAlong(writer: GraphWriter, dtype: DType, shape: Shape, dim: number): string {
  const size = shape[dim] as number;
  const data = dtypes[dtype].create(range(size));
  const sizes = shape.map((_size, each) => (each === dim ? size : 1));
  return writer.add("Expand", [writer.constant("iota", { dtype, shape: sizes, data }), writer.list(shape)]);
}
