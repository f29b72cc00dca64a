/** @module What the rows of several kinds of ONNX ops share. */
import { arange, type Tensor, tensor } from "../../functions/index.ts";
import { type DType, dtypes, type HostTensor, range, type Shape } from "../../ir/index.ts";
import { int64 } from "./tensors.ts";

/** Numbers as a known tensor of int64. */
export function hostInts(values: readonly number[], shape: Shape = [values.length]): HostTensor {
  const data = dtypes[int64].create(values);
  return { dtype: int64, shape, data };
}

/** Positions along `dim`, of size 1 in the others. */
export const positions = (size: number, dim: number, rank: number, dtype: DType = "i32"): Tensor =>
  arange(size, { dtype }).reshape(range(rank).map((each) => (each === dim ? size : 1)));

/** A vector that lies along `dim` of a tensor of `rank` dims. */
export const along = (vector: Tensor, dim: number, rank: number): Tensor =>
  vector.reshape(range(rank).map((each) => (each === dim ? (vector.shape[0] as number) : 1)));

/** i32 numbers as a tensor. */
export const indexTensor = (values: readonly number[]): Tensor =>
  tensor(Int32Array.from(values), { shape: [values.length] });

/** The order of dims that moves dim `from` to position `to`. */
export function moved(rank: number, from: number, to: number): number[] {
  const order = range(rank).filter((dim) => dim !== from);
  order.splice(to, 0, from);
  return order;
}
