/** @module Elementwise ops whose operands have several dtypes: isFinite, select, cast. */

import { type DType, dtypes, isFloat, isHalf, isLong, roundTo, wideDType } from "../ir/dtype.ts";
import { costPerOutput, pointwiseEquation } from "../ir/leaf.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { castLong, longOf } from "./int64.ts";
import { checkOperands, map } from "./scalar-ops.ts";

defineOp({
  name: "isFinite",
  doc: "Whether x is neither infinite nor NaN; bool. Of floats only.",
  example: {
    inputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(1, Infinity, Number.NaN) }],
    attrs: {},
    outputs: [{ dtype: "bool", shape: [3], data: Uint8Array.of(1, 0, 0) }],
  },
  infer: (inputs) => {
    const first = checkOperands("isFinite", inputs, 1);
    if (!isFloat(first.dtype))
      throw new HeddleError("dtype", `isFinite: not defined for ${first.dtype} (${formatType(first)})`);
    return { dtype: "bool", shape: first.shape };
  },
  equation: pointwiseEquation,
  linear: [],
  gradient: () => [undefined],
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: costPerOutput(1),
  reference: ([x], _attrs, [type]) => [
    map(type as TensorType, (x as HostTensor).data.length, (i) => Number(Number.isFinite(x?.data[i]))),
  ],
  form: {
    kind: "pointwise",
    instruction: (_attrs, inputs) => ({ name: "isFinite", dtype: (inputs[0] as TensorType).dtype }),
  },
});

defineOp({
  name: "select",
  doc: "Elementwise `condition ? onTrue : onFalse`; the condition is bool.",
  example: {
    inputs: [
      { dtype: "bool", shape: [2], data: Uint8Array.of(1, 0) },
      { dtype: "f32", shape: [2], data: Float32Array.of(1, 2) },
      { dtype: "f32", shape: [2], data: Float32Array.of(3, 4) },
    ],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, 4) }],
  },
  infer: (inputs) => {
    checkOperands("select", inputs, 3);
    const [condition, onTrue, onFalse] = inputs as [TensorType, TensorType, TensorType];
    if (condition.dtype !== "bool")
      throw new HeddleError("dtype", `select: the condition must be bool, got ${formatType(condition)}`);
    if (onTrue.dtype !== onFalse.dtype)
      throw new HeddleError("dtype", `select: dtypes differ: ${formatType(onTrue)}, ${formatType(onFalse)}`);
    return onTrue;
  },
  equation: pointwiseEquation,
  linear: [[1, 2]],
  gradient: ({ node, cotangents }) => {
    const condition = node.inputs[0] as Node;
    const dy = cotangents[0] as Node;
    return [undefined, emit.select(condition, dy, 0), emit.select(condition, 0, dy)];
  },
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: costPerOutput(1),
  reference: ([condition, x, y], _attrs, [type]) => [
    map(
      type as TensorType,
      (x as HostTensor).data.length,
      (i) => (condition?.data[i] === 0 ? y?.data[i] : x?.data[i]) as number,
    ),
  ],
  form: { kind: "pointwise", instruction: (_attrs, _inputs, output) => ({ name: "select", dtype: output.dtype }) },
});

function castValue(value: number, from: DType, to: DType): number {
  if (isLong(from)) return castLong(value as unknown as bigint, to);
  if (isLong(to)) return longOf(value, from, to) as unknown as number;
  if (to === "bool") return value !== 0 ? 1 : 0;
  if (!isFloat(from) || isFloat(to)) return roundTo(to, value);
  if (Number.isNaN(value)) return 0;
  return Math.min(Math.max(Math.trunc(value), dtypes[to].lowest), dtypes[to].highest);
}

defineOp<{ dtype: DType }>({
  name: "cast",
  doc: "Converts to another dtype. Floats to integers truncate and saturate, NaN gives 0; integers among each other wrap.",
  example: {
    inputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(1.5, -2.7, 1e20) }],
    attrs: { dtype: "i32" },
    outputs: [{ dtype: "i32", shape: [3], data: Int32Array.of(1, -2, 2147483647) }],
  },
  infer: (inputs, attrs) => ({ dtype: attrs.dtype, shape: checkOperands("cast", inputs, 1).shape }),
  equation: pointwiseEquation,
  // So that 16-bit gradients are summed over the devices in f32.
  linear: ({ dtype }, [x]) => (x !== undefined && isHalf(x.dtype) && dtype === wideDType(x.dtype) ? [[0]] : []),
  gradient: ({ node, cotangents }) => {
    const from = (node.inputs[0] as Node).dtype;
    return [isFloat(from) && isFloat(node.dtype) ? emit.cast(cotangents[0] as Node, from) : undefined];
  },
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: costPerOutput(1),
  reference: ([x], attrs, [type]) => [
    map(type as TensorType, (x as HostTensor).data.length, (i) =>
      castValue(x?.data[i] as number, (x as HostTensor).dtype, attrs.dtype),
    ),
  ],
  form: { kind: "pointwise", instruction: (attrs) => ({ name: "cast", dtype: attrs.dtype }) },
});
