/** @module The ops that the graph machinery itself needs: parameters, constants, picking one of several results. */
import { HeddleError } from "../util/errors.ts";
import { type DType, dtypes, roundTo } from "./dtype.ts";
import { equationOf, letters } from "./equation.ts";
import { absent, type OpDef } from "./node.ts";
import { defineOp } from "./op.ts";
import { type Shape, sizeOf, type TensorType } from "./shape.ts";

const madeFromNothing = absent("has no inputs");

/** An input of a graph. */
export const parameterOp: OpDef<{ index: number; name: string; dtype: DType; shape: Shape }> = defineOp<{
  index: number;
  name: string;
  dtype: DType;
  shape: Shape;
}>({
  name: "parameter",
  doc: "An input of the graph: its position, name and type.",
  example: absent("an executor binds it to an argument"),
  infer: (_inputs, attrs) => ({ dtype: attrs.dtype, shape: attrs.shape }),
  equation: absent("its layout is given, not derived"),
  linear: [],
  gradient: madeFromNothing,
  batch: absent("stands for an argument, batched or not"),
  localize: absent("the planner makes local parameters itself"),
  cost: () => 0,
  reference: absent("an executor binds it to an argument"),
  form: absent("an executor binds it to an argument"),
});

/** A scalar known when the graph is made. */
export const constantOp: OpDef<{ dtype: DType; value: number }> = defineOp<{ dtype: DType; value: number }>({
  name: "constant",
  doc: "A scalar known when the graph is made. Larger constants are broadcast from it, or are inputs of the graph.",
  example: {
    inputs: [],
    attrs: { dtype: "f32", value: 2.5 },
    outputs: [{ dtype: "f32", shape: [], data: Float32Array.of(2.5) }],
  },
  infer: (_inputs, attrs) => {
    if (!Object.is(roundTo(attrs.dtype, attrs.value), attrs.value)) {
      throw new HeddleError("dtype", `constant: ${attrs.value} is not a value of ${attrs.dtype}`);
    }
    return { dtype: attrs.dtype, shape: [] };
  },
  equation: () => equationOf([], [[]]),
  linear: [],
  gradient: madeFromNothing,
  batch: madeFromNothing,
  localize: absent("attributes hold no sizes"),
  cost: () => 0,
  reference: (_inputs, attrs) => [dtypes[attrs.dtype].create([attrs.value])],
  form: { kind: "pointwise", instruction: (attrs) => ({ name: "const", dtype: attrs.dtype, literal: attrs.value }) },
});

/** One result of a node that has several. */
export const elementOp: OpDef<{ index: number }> = defineOp<{ index: number }>({
  name: "element",
  doc: "Result `index` of a node with several results.",
  example: absent("needs a node with several results"),
  infer: (inputs, attrs) => {
    const type = inputs[attrs.index];
    if (type === undefined)
      throw new HeddleError("op", `element: there is no result ${attrs.index} of ${inputs.length}`);
    return type;
  },
  equation: absent("the planner follows it to the node"),
  linear: [[0]],
  gradient: absent("autodiff collects the cotangents of a node's results itself"),
  batch: absent("batching follows it to the node"),
  localize: absent("attributes hold no sizes"),
  cost: () => 0,
  reference: (inputs, attrs) => [(inputs[attrs.index] as { data: Float32Array }).data],
  form: { kind: "element", index: (attrs) => attrs.index },
});

/** Equation of an op whose operands all have one shape. */
export const pointwiseEquation = (inputs: readonly TensorType[]): ReturnType<typeof equationOf> => {
  const dims = letters(inputs[0]?.shape.length ?? 0);
  return equationOf(
    inputs.map(() => dims),
    [dims],
  );
};

/** Cost of an op that does `perElement` operations for each output element. */
export const costPerOutput =
  (perElement: number) =>
  (_inputs: readonly TensorType[], outputs: readonly TensorType[]): number =>
    outputs.reduce((total, type) => total + sizeOf(type.shape) * perElement, 0);
