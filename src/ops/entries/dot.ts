/**
 * @module Products with matrices that are given by entries, in one pass over the entries: their bodies, which are their meaning, write a
 * row for each entry.
 */
import { isFloat } from "../../ir/dtype.ts";
import { equationOf } from "../../ir/equation.ts";
import type { View } from "../../ir/kernel.ts";
import { absent, type HostTensor, type Node, type OpDef } from "../../ir/node.ts";
import { formatType, sizeOf, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import * as kernels from "../../kernels/index.ts";
import { HeddleError } from "../../util/errors.ts";
import type { Fault } from "../../util/faults.ts";
import { defineComposite } from "../composite.ts";
import * as emit from "../emit.ts";
import { f32 } from "../movement.ts";

function checkOperands(name: string, floats: readonly TensorType[], places: readonly TensorType[]): void {
  const [{ dtype }, [count]] = [floats[0] as TensorType, (places[0] as TensorType).shape];
  const fits =
    isFloat(dtype) &&
    floats.every((type) => type.dtype === dtype) &&
    places.every((type) => type.dtype === "i32" && type.shape.length === 1 && type.shape[0] === count);
  if (!fits)
    throw new HeddleError(
      "shape",
      `${name}: needs floats of one dtype, and i32 places, got ${[...floats, ...places].map(formatType).join(", ")}`,
    );
}

/** Operations of a multiply-add of rows that are looked up: they take as long as some eight of a dense product. */
const each = 16;

/** The first place outside of a table of `size` rows. */
function outside(by: string, { data }: HostTensor, size: number): Fault | undefined {
  const position = data.findIndex((index) => index < 0 || index >= size);
  return position < 0 ? undefined : { kind: "index", by, index: data[position] as number, position, size };
}

const i32 = (...values: number[]) => ({ dtype: "i32", shape: [values.length], data: Int32Array.from(values) }) as const;

const entriesDotOp: OpDef<{ size: number }> = defineComposite<{ size: number }>({
  name: "entriesDot",
  doc: "For each entry, its value times the row `from` of a matrix, added up in the row `to` of `size` rows: the product of a sparse matrix and a dense one. An index outside is an error of the run.",
  example: {
    inputs: [f32([3], [1, 2, 3]), i32(0, 1, 1), i32(0, 0, 1), f32([2, 1], [10, 100])],
    attrs: { size: 2 },
    outputs: [f32([2, 1], [210, 300])],
  },
  check: ([values, from, to, dense], { size }) => {
    checkOperands(
      "entriesDot",
      [values, dense] as TensorType[],
      [from, to, values && { ...values, dtype: "i32" }] as TensorType[],
    );
    if (dense?.shape.length !== 2 || !(size >= 0))
      throw new HeddleError("shape", "entriesDot: needs a matrix, and a number of rows from 0 on");
  },
  body: ([values, from, to, dense], { size }) => {
    const rows = emit.gather(dense as Node, from as Node, 0);
    return [emit.scatterAdd(emit.mul(rows, emit.broadcastInDim(values as Node, rows.shape, [0])), to as Node, size, 0)];
  },
  refuse: ([, from, to, dense], { size }) =>
    outside("entriesDot", from as HostTensor, (dense as HostTensor).shape[0] as number) ??
    outside("entriesDot", to as HostTensor, size),
  equation: () => equationOf([["e"], ["e"], ["e"], ["k", "n"]], [["m", "n"]], { whole: ["k", "m"] }),
  cost: ([values], [out]) => each * sizeOf((values as TensorType).shape) * ((out as TensorType).shape[1] as number),
  linear: [[0], [3]],
  gradient: absent("its body is differentiated"),
  batch: absent("its body is batched"),
  form: { kind: "kernel" },
  lower: {
    emit: ({ inputs, outputs, attrs: { size }, at }) => {
      const [values, from, to, dense] = inputs as [View, View, View, View];
      const [count, [rows, inner]] = [values.shape[0] as number, dense.shape as [number, number]];
      const places = { values: at(values), from: at(from), to: at(to), dense: at(dense), out: at(outputs[0] as View) };
      return [kernels.entriesDot.call({ dtype: values.dtype, count, inner, rows, size, ...places })];
    },
  },
});

const sampledDotOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "sampledDot",
  doc: "Products of a row of the first matrix and a row of the second, for each pair of `rows` and `columns`: the elements of x yᵀ there. An index outside is an error of the run.",
  example: {
    inputs: [f32([2, 2], [1, 2, 3, 4]), f32([1, 2], [10, 100]), i32(1), i32(0)],
    attrs: {},
    outputs: [f32([1], [430])],
  },
  check: ([left, right, rows, columns]) => {
    checkOperands("sampledDot", [left, right] as TensorType[], [rows, columns] as TensorType[]);
    if (left?.shape.length !== 2 || right?.shape.length !== 2 || left.shape[1] !== right.shape[1])
      throw new HeddleError("shape", "sampledDot: needs two matrices with as many columns");
  },
  body: ([left, right, rows, columns]) => [
    emit.sum(emit.mul(emit.gather(left as Node, rows as Node, 0), emit.gather(right as Node, columns as Node, 0)), 1),
  ],
  refuse: ([left, right, rows, columns]) =>
    outside("sampledDot", rows as HostTensor, (left as HostTensor).shape[0] as number) ??
    outside("sampledDot", columns as HostTensor, (right as HostTensor).shape[0] as number),
  equation: () => equationOf([["m", "k"], ["n", "k"], ["e"], ["e"]], [["e"]], { whole: ["m", "n"] }),
  cost: ([left], [out]) => each * sizeOf((out as TensorType).shape) * ((left as TensorType).shape[1] as number),
  linear: [[0], [1]],
  gradient: absent("its body is differentiated"),
  batch: absent("its body is batched"),
  form: { kind: "kernel" },
  lower: {
    emit: ({ inputs, outputs, at }) => {
      const [left, right, rows, columns] = inputs as [View, View, View, View];
      const [[m, inner], [n], [count]] = [left.shape, right.shape, rows.shape] as [
        [number, number],
        [number],
        [number],
      ];
      const places = { left: at(left), right: at(right), rows: at(rows), columns: at(columns) };
      return [
        kernels.sampledDot.call({ dtype: left.dtype, count, inner, m, n, ...places, out: at(outputs[0] as View) }),
      ];
    },
  },
});

/** The sum of a row of `dense` for each entry, times its value, in a table of `size` rows. */
export const entriesDot = (values: Node, from: Node, to: Node, dense: Node, size: number): Node =>
  apply(entriesDotOp, [values, from, to, dense], { size });

/** Products of rows of two matrices, a pair for each place. */
export const sampledDot = (left: Node, right: Node, rows: Node, columns: Node): Node =>
  apply(sampledDotOp, [left, right, rows, columns], {});
