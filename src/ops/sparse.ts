/**
 * @module Sparse matrices. The meaning of `sparse` is a dense matrix. The planner decides by cost whether it becomes dense or
 * stays as entries for ops that have a rule for entries (`plan/formats.ts`, `passes/formats.ts`). Entries are in row order, as
 * in CSR, with a row per entry in place of the row starts; entries up to a static capacity are filled with zeros.
 */
import { isFloat } from "../ir/dtype.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import { formatType, type Shape, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";

const entries = absent("becomes its entries or the dense matrix before layouts are planned");

function checkEntries(name: string, [values, rows, columns]: readonly (TensorType | undefined)[]): void {
  const fits = [rows, columns].every(
    (index) => index?.dtype === "i32" && index.shape.length === 1 && index.shape[0] === rows?.shape[0],
  );
  if (!fits || (values !== undefined && (values.shape.length !== 1 || values.shape[0] !== rows?.shape[0])))
    throw new HeddleError("shape", `${name}: needs values, i32 rows and i32 columns of one length`);
}

/** The row-major position of each entry; -1, which is out of range, if its column is outside. */
function positions(rows: Node, columns: Node, width: number): Node {
  const inside = emit.and(emit.ge(columns, 0), emit.lt(columns, width));
  return emit.select(inside, emit.add(emit.mul(rows, width), columns), -1);
}

const sparseOp: OpDef<{ shape: Shape }> = defineComposite<{ shape: Shape }>({
  name: "sparse",
  doc: "The matrix of `shape` with `values` at (`rows`, `columns`) and zeros elsewhere; entries of the same position add up. An index outside the shape is an error of the run.",
  example: {
    inputs: [
      { dtype: "f32", shape: [3], data: Float32Array.of(1, 2, 3) },
      { dtype: "i32", shape: [3], data: Int32Array.of(0, 1, 1) },
      { dtype: "i32", shape: [3], data: Int32Array.of(2, 0, 1) },
    ],
    attrs: { shape: [2, 3] },
    outputs: [{ dtype: "f32", shape: [2, 3], data: Float32Array.of(0, 0, 1, 2, 3, 0) }],
  },
  check: ([values, rows, columns], { shape }) => {
    checkEntries("sparse", [values, rows, columns]);
    if (shape.length !== 2 || values === undefined || !isFloat(values.dtype))
      throw new HeddleError("shape", `sparse: needs float values and the shape of a matrix, got [${shape.join()}]`);
  },
  body: ([values, rows, columns], { shape }) => {
    const [height, width] = shape as [number, number];
    const flat = positions(rows as Node, columns as Node, width);
    return [emit.reshape(emit.scatterAdd(values as Node, flat, height * width, 0), shape)];
  },
  equation: entries,
  linear: [[0]],
  gradient: ({ node, cotangents }) => [
    sampled(cotangents[0] as Node, node.inputs[1] as Node, node.inputs[2] as Node),
    undefined,
    undefined,
  ],
  batch: absent("its body is batched"),
  form: absent("its body is lowered"),
});

const sampledOp: OpDef = defineComposite({
  name: "sampled",
  doc: "Elements of a matrix at (`rows`, `columns`): the transpose of sparse.",
  example: {
    inputs: [
      { dtype: "f32", shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) },
      { dtype: "i32", shape: [1], data: Int32Array.of(1) },
      { dtype: "i32", shape: [1], data: Int32Array.of(0) },
    ],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [1], data: Float32Array.of(3) }],
  },
  check: ([x, rows, columns]) => {
    checkEntries("sampled", [undefined, rows, columns]);
    if (x?.shape.length !== 2)
      throw new HeddleError("shape", `sampled: needs a matrix, got ${x === undefined ? "nothing" : formatType(x)}`);
  },
  body: ([x, rows, columns]) => {
    const [height, width] = (x as Node).shape as [number, number];
    return [emit.gather(emit.reshape(x as Node, [height * width]), positions(rows as Node, columns as Node, width), 0)];
  },
  equation: entries,
  linear: [[0]],
  gradient: ({ node, cotangents }) => [
    sparse(cotangents[0] as Node, node.inputs[1] as Node, node.inputs[2] as Node, (node.inputs[0] as Node).shape),
    undefined,
    undefined,
  ],
  batch: absent("its body is batched"),
  form: absent("its body is lowered"),
});

/** A matrix of `shape` given by its entries. */
export const sparse = (values: Node, rows: Node, columns: Node, shape: Shape): Node =>
  apply(sparseOp, [values, rows, columns], { shape });

/** Elements of a matrix by row and column. */
export const sampled = (x: Node, rows: Node, columns: Node): Node => apply(sampledOp, [x, rows, columns], {});
