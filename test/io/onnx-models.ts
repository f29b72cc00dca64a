/** @module Small ONNX models by the names of their parts, for tests. */
import {
  type AttributeProto,
  type GraphProto,
  type ModelProto,
  type NodeProto,
  type TensorProto,
  type ValueInfo,
  writeModel,
} from "../../src/adapters/onnx/messages.ts";

export const node = (
  opType: string,
  input: string[],
  output: string[],
  attribute: AttributeProto[] = [],
  name = "n",
): NodeProto => ({
  opType,
  input,
  output,
  attribute,
  name,
});

export const ints = (name: string, values: number[]): TensorProto => ({
  name,
  dims: [values.length],
  dataType: 7,
  int64Data: values.map(BigInt),
});

export const floats = (name: string, values: number[]): TensorProto => ({
  name,
  dims: [values.length],
  dataType: 1,
  floatData: values,
});

export const port = (name: string, elemType: number, ...dims: (number | string)[]): ValueInfo => ({
  name,
  type: {
    tensorType: {
      elemType,
      shape: { dim: dims.map((dim) => (typeof dim === "string" ? { dimParam: dim } : { dimValue: dim })) },
    },
  },
});

/** A model of an input "x" `[n, 4]` and an output "y", where the graph says nothing else. */
export const model = (graph: Partial<GraphProto>, version = 18, rest: Partial<ModelProto> = {}): Uint8Array =>
  writeModel({
    irVersion: 8,
    opsetImport: [{ version }],
    graph: {
      node: [],
      name: "g",
      initializer: [],
      input: [port("x", 1, "n", 4)],
      output: [{ ...port("y", 1) }],
      ...graph,
    },
    ...rest,
  });
