/** @module The elementwise ops: one for each row of the table of scalar functions. */

import { type DType, dtypes, isFloat, isInteger, isLong, isSigned, roundTo, type TypedArray } from "../ir/dtype.ts";
import { costPerOutput, pointwiseEquation } from "../ir/leaf.ts";
import { type AnyOpDef, absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, sameShape, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import { longFunction } from "./int64.ts";
import { binaryRows, compareRows, type ScalarGradient, type ScalarRow, unaryRows } from "./scalar.ts";

const accepts: { readonly [K in ScalarRow["dtypes"]]: (dtype: DType) => boolean } = {
  float: isFloat,
  number: (dtype) => dtype !== "bool",
  signed: (dtype) => isFloat(dtype) || isSigned(dtype),
  integer: isInteger,
  bits: (dtype) => isInteger(dtype) || dtype === "bool",
  any: () => true,
};

/** Elements of a type, by index. */
export function map(type: TensorType, count: number, at: (index: number) => number): TypedArray {
  const out = dtypes[type.dtype].create(count);
  for (let index = 0; index < count; index++) out[index] = at(index);
  return out;
}

/** Checks number and shapes of the inputs of an elementwise op; returns the first type. */
export function checkOperands(name: string, inputs: readonly TensorType[], arity: number): TensorType {
  const first = inputs[0];
  if (inputs.length !== arity || first === undefined)
    throw new HeddleError("op", `${name}: takes ${arity} inputs, got ${inputs.length}`);
  for (const input of inputs) {
    if (!sameShape(input.shape, first.shape))
      throw new HeddleError("shape", `${name}: shapes differ: ${inputs.map(formatType).join(", ")}`);
  }
  return first;
}

const exampleValues: { readonly [kind: string]: readonly number[] } = { float: [0.5, 0.25, 0.75], bits: [1, 0, 1] };

function defineRow(name: string, row: ScalarRow, arity: 1 | 2): AnyOpDef {
  const exampleDtype: DType = row.dtypes === "bits" ? "bool" : row.dtypes === "integer" ? "u32" : "f32";
  const values =
    row.dtypes === "integer"
      ? [8, 4, 2]
      : (exampleValues[row.dtypes === "bits" ? "bits" : "float"] as readonly number[]);
  const other = row.dtypes === "integer" ? [1, 2, 3] : row.dtypes === "bits" ? [1, 1, 0] : [2, 4, 0.5];
  const example = (list: readonly number[]): HostTensor => ({
    dtype: exampleDtype,
    shape: [3],
    data: dtypes[exampleDtype].create([...list]),
  });
  const result = values.map((x, index) => roundTo(exampleDtype, row.value(x, other[index] as number, exampleDtype)));
  return defineOp({
    name,
    doc: row.doc,
    example: {
      inputs: arity === 1 ? [example(values)] : [example(values), example(other)],
      attrs: {},
      outputs: [example(result)],
    },
    infer: (inputs) => {
      const first = checkOperands(name, inputs, arity);
      if (inputs.some((input) => input.dtype !== first.dtype))
        throw new HeddleError("dtype", `${name}: dtypes differ: ${inputs.map(formatType).join(", ")}`);
      if (!accepts[row.dtypes](first.dtype))
        throw new HeddleError("dtype", `${name}: not defined for ${first.dtype} (${formatType(first)})`);
      return first;
    },
    equation: pointwiseEquation,
    linear: row.linear,
    gradient: "absent" in row.gradient ? row.gradient : scalarGradient(row.gradient),
    batch: batchByEquation(),
    localize: absent("attributes hold no sizes"),
    cost: costPerOutput(row.cost),
    reference: (inputs, _attrs, [type]) => {
      const [x, y] = inputs.map((input) => input.data);
      const { dtype } = type as TensorType;
      const value = isLong(dtype)
        ? longFunction(name, dtype)
        : (a: number, b: number | undefined): number => roundTo(dtype, row.value(a, b ?? 0, dtype));
      return [map(type as TensorType, (x as TypedArray).length, (i) => value(x?.[i] as number, y?.[i]))];
    },
    form: { kind: "pointwise", instruction: (_attrs, _inputs, output) => ({ name, dtype: output.dtype }) },
  });
}

function scalarGradient(rules: readonly (ScalarGradient | undefined)[]) {
  return ({ node, cotangents }: { node: Node; cotangents: readonly (Node | undefined)[] }): (Node | undefined)[] => {
    const [x, y] = node.inputs as [Node, Node];
    const dy = cotangents[0] as Node;
    return rules.map((rule) => rule?.(dy, x, y, node));
  };
}

for (const [name, row] of Object.entries(unaryRows)) defineRow(name, row, 1);
for (const [name, row] of Object.entries(binaryRows)) defineRow(name, row, 2);

for (const [name, { doc, value }] of Object.entries(compareRows)) {
  const result = [value(1, 2), value(2, 2), value(3, 2)].map(Number);
  defineOp({
    name,
    doc,
    example: {
      inputs: [
        { dtype: "f32", shape: [3], data: Float32Array.of(1, 2, 3) },
        { dtype: "f32", shape: [3], data: Float32Array.of(2, 2, 2) },
      ],
      attrs: {},
      outputs: [{ dtype: "bool", shape: [3], data: Uint8Array.from(result) }],
    },
    infer: (inputs) => {
      const first = checkOperands(name, inputs, 2);
      if (inputs[1]?.dtype !== first.dtype)
        throw new HeddleError("dtype", `${name}: dtypes differ: ${inputs.map(formatType).join(", ")}`);
      return { dtype: "bool", shape: first.shape };
    },
    equation: pointwiseEquation,
    linear: [],
    // A comparison is constant almost everywhere.
    gradient: () => [undefined, undefined],
    batch: batchByEquation(),
    localize: absent("attributes hold no sizes"),
    cost: costPerOutput(1),
    reference: ([x, y], _attrs, [type]) => [
      map(type as TensorType, (x as HostTensor).data.length, (i) =>
        Number(value(x?.data[i] as number, y?.data[i] as number)),
      ),
    ],
    form: { kind: "pointwise", instruction: (_attrs, inputs) => ({ name, dtype: (inputs[0] as TensorType).dtype }) },
  });
}
