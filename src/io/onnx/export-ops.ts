/** @module How each of Heddle's ops is spelled in ONNX (opset 18). An op that is not here is spelled by its body. */
import { dtypes, isFloat } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import { formatType, otherDims, range, type Shape, sizeOf, type TensorType } from "../../ir/shape.ts";
import { type ConvAttrs, convDims, type WindowAttrs } from "../../ops/index.ts";
import { HeddleError } from "../../util/errors.ts";
import type { GraphWriter } from "./graph-writer.ts";
import { codeOfDType } from "./tensors.ts";

/** A node to be spelled, and the names of its inputs. */
export interface Spelled {
  readonly node: Node;
  readonly inputs: readonly string[];
  readonly writer: GraphWriter;
}

type Spelling = (spelled: Spelled) => string;

/** The op of another name, on the same inputs. */
const same =
  (op: string): Spelling =>
  ({ inputs, writer }) =>
    writer.add(op, inputs);

const first = (node: Node, index = 0): TensorType => node.inputs[index] as Node;

/** Nodes on the result of another spelling. */
const then =
  (op: string, inner: Spelling): Spelling =>
  (spelled) =>
    spelled.writer.add(op, [inner(spelled)]);

const byDType =
  (bool: string, other: string): Spelling =>
  ({ node, inputs, writer }) =>
    writer.add(first(node).dtype === "bool" ? bool : other, inputs);

/** A number of the node's dtype beside an input. */
const withNumber = (op: string, value: number, inner?: string, swapped = false): Spelling => {
  return ({ node, inputs, writer }) => {
    const x = inner === undefined ? (inputs[0] as string) : writer.add(inner, inputs);
    const number = writer.scalar(first(node).dtype, value);
    return writer.add(op, swapped ? [number, x] : [x, number]);
  };
};

const refused = (node: Node, why: string): HeddleError =>
  new HeddleError("op", `exportOnnx: ${node.op.name} (${formatType(node)}) ${why}`);

function shift(direction: "LEFT" | "RIGHT"): Spelling {
  return ({ node, inputs, writer }) => {
    if (dtypes[first(node).dtype].kind !== "uint") throw refused(node, "shifts signed integers, which ONNX does not");
    return writer.add("BitShift", inputs, { direction });
  };
}

const reshaped = (writer: GraphWriter, name: string, shape: Shape): string =>
  writer.add("Reshape", [name, writer.list(shape)]);

const transposed = (writer: GraphWriter, name: string, order: readonly number[]): string =>
  order.every((dim, index) => dim === index) ? name : writer.add("Transpose", [name], { perm: order });

const castTo = (writer: GraphWriter, name: string, dtype: TensorType["dtype"]): string =>
  writer.add("Cast", [name], { to: codeOfDType(dtype) });

/** New dims of size 1 where the input has none, then repeated. */
function broadcast({ node, inputs, writer }: Spelled): string {
  const { shape, dims } = node.attrs as { shape: Shape; dims: readonly number[] };
  const sizes = shape.map((_size, dim) => (dims.includes(dim) ? (first(node).shape[dims.indexOf(dim)] as number) : 1));
  return writer.add("Expand", [reshaped(writer, inputs[0] as string, sizes), writer.list(shape)]);
}

function slice({ node, inputs, writer }: Spelled): string {
  const { start, limit, stride } = node.attrs as { start: number[]; limit: number[]; stride: number[] };
  const lists = [start, limit, range(start.length), stride].map((list) => writer.list(list));
  return writer.add("Slice", [inputs[0] as string, ...lists]);
}

function reverse({ node, inputs, writer }: Spelled): string {
  const dims = node.attrs["dims"] as number[];
  const lists = [dims.map(() => -1), dims.map(() => -(2 ** 31)), dims, dims.map(() => -1)];
  return writer.add("Slice", [inputs[0] as string, ...lists.map((list) => writer.list(list))]);
}

function pad({ node, inputs, writer }: Spelled): string {
  const { low, high, interior } = node.attrs as { low: number[]; high: number[]; interior: number[] };
  if (interior.some((gap) => gap !== 0)) throw refused(node, "pads between elements, which ONNX does not");
  return writer.add("Pad", [inputs[0] as string, writer.list([...low, ...high]), inputs[1] as string]);
}

function iota({ node, writer }: Spelled): string {
  const { dtype, shape, dim } = node.attrs as { dtype: TensorType["dtype"]; shape: Shape; dim: number };
  const size = shape[dim] as number;
  const data = dtypes[dtype].create(range(size));
  const sizes = shape.map((_size, each) => (each === dim ? size : 1));
  return writer.add("Expand", [writer.weight("iota", { dtype, shape: sizes, data }), writer.list(shape)]);
}

const reductions: { readonly [op: string]: string } = {
  sum: "ReduceSum",
  max: "ReduceMax",
  min: "ReduceMin",
  prod: "ReduceProd",
  and: "ReduceMin",
  or: "ReduceMax",
};

function reduce({ node, inputs, writer }: Spelled): string {
  const { op, dims } = node.attrs as { op: string; dims: number[] };
  const name = reductions[op];
  if (name === undefined) throw refused(node, `reduces by ${op}, which ONNX does not`);
  const bool = node.dtype === "bool";
  const x = bool ? castTo(writer, inputs[0] as string, "i32") : (inputs[0] as string);
  const made = writer.add(name, [x, writer.list(dims)], { keepdims: 0 });
  return bool ? castTo(writer, made, "bool") : made;
}

/** A product of matrices: batch dims first, then those of one side, then the contracted ones. */
function dot({ node, inputs, writer }: Spelled): string {
  const [x, y] = [first(node), first(node, 1)];
  const { xBatch, yBatch, xContract, yContract } = node.attrs as { [name: string]: number[] } & {
    xBatch: number[];
    yBatch: number[];
    xContract: number[];
    yContract: number[];
  };
  const xFree = otherDims(x.shape.length, [...xBatch, ...xContract]);
  const yFree = otherDims(y.shape.length, [...yBatch, ...yContract]);
  const sizes = (type: TensorType, dims: readonly number[]): number[] => dims.map((dim) => type.shape[dim] as number);
  const flat = (type: TensorType, dims: readonly number[]): number => sizeOf(sizes(type, dims));
  const left = transposed(writer, inputs[0] as string, [...xBatch, ...xFree, ...xContract]);
  const right = transposed(writer, inputs[1] as string, [...yBatch, ...yContract, ...yFree]);
  const batch = sizes(x, xBatch);
  const product = writer.add("MatMul", [
    reshaped(writer, left, [...batch, flat(x, xFree), flat(x, xContract)]),
    reshaped(writer, right, [...batch, flat(y, yContract), flat(y, yFree)]),
  ]);
  return reshaped(writer, product, [...batch, ...sizes(x, xFree), ...sizes(y, yFree)]);
}

/** Dims brought into ONNX's order and back. */
function conv({ node, inputs, writer }: Spelled): string {
  const attrs = node.attrs as ConvAttrs;
  const { x, kernel, out, spatial } = convDims(attrs.layout);
  if (x.length !== spatial.length + 2) throw refused(node, "has dims beyond batch, features and space");
  if (attrs.inputDilation.some((gap) => gap !== 1)) return convTranspose({ node, inputs, writer });
  if (attrs.padding.flat().some((amount) => amount < 0)) throw refused(node, "has negative padding");
  const order = (letters: string, wanted: readonly string[]): number[] =>
    wanted.map((letter) => letters.indexOf(letter));
  const made = writer.add(
    "Conv",
    [
      transposed(writer, inputs[0] as string, order(x, ["b", "f", ...spatial])),
      transposed(writer, inputs[1] as string, order(kernel, ["o", "i", ...spatial])),
    ],
    {
      strides: attrs.strides,
      dilations: attrs.kernelDilation,
      pads: [...attrs.padding.map(([low]) => low), ...attrs.padding.map(([, high]) => high)],
    },
  );
  const wanted = ["b", "f", ...spatial];
  return transposed(
    writer,
    made,
    [...out].map((letter) => wanted.indexOf(letter)),
  );
}

/** An input with gaps: the transpose of a convolution, whose kernel is reversed and whose features change places. */
function convTranspose({ node, inputs, writer }: Spelled): string {
  const attrs = node.attrs as ConvAttrs;
  const { x, kernel, out, spatial } = convDims(attrs.layout);
  if (attrs.strides.some((stride) => stride !== 1)) throw refused(node, "has gaps in its input and strides");
  const order = (letters: string, wanted: readonly string[]): number[] =>
    wanted.map((letter) => letters.indexOf(letter));
  const places = range(spatial.length);
  const ends = [
    places.map(() => -1),
    places.map(() => -(2 ** 31)),
    places.map((place) => place + 2),
    places.map(() => -1),
  ];
  const weight = transposed(writer, inputs[1] as string, order(kernel, ["i", "o", ...spatial]));
  const reversed = writer.add("Slice", [weight, ...ends.map((list) => writer.list(list))]);
  const spans = spatial.map((digit, dim) => {
    const size = first(node, 1).shape[kernel.indexOf(digit)] as number;
    return (size - 1) * (attrs.kernelDilation[dim] as number);
  });
  const low = attrs.padding.map(([before], dim) => (spans[dim] as number) - before);
  const high = attrs.padding.map(([, after], dim) => (spans[dim] as number) - after);
  const extra = high.map((amount) => Math.max(0, -amount));
  if (low.some((amount) => amount < 0)) throw refused(node, "pads more than its kernel spans");
  const made = writer.add(
    "ConvTranspose",
    [transposed(writer, inputs[0] as string, order(x, ["b", "f", ...spatial])), reversed],
    {
      strides: attrs.inputDilation,
      dilations: attrs.kernelDilation,
      pads: [...low, ...high.map((amount) => Math.max(0, amount))],
      output_padding: extra,
    },
  );
  const wanted = ["b", "f", ...spatial];
  return transposed(
    writer,
    made,
    [...out].map((letter) => wanted.indexOf(letter)),
  );
}

/** Windows over the last dims, all before them taken together. */
function reduceWindow({ node, inputs, writer }: Spelled): string {
  const attrs = node.attrs as WindowAttrs;
  const { shape, dtype } = first(node);
  const moves = shape.map(
    (_size, dim) =>
      attrs.window[dim] !== 1 || attrs.strides[dim] !== 1 || (attrs.padding[dim] ?? []).some((amount) => amount !== 0),
  );
  const at = Math.max(0, Math.min(moves.indexOf(true), shape.length - 1));
  const from = moves.includes(true) ? at : shape.length - 1;
  if (!isFloat(dtype) || shape.length - from > 3) throw refused(node, "has windows that ONNX does not pool");
  const gaps = node.attrs["dilation"];
  if (Array.isArray(gaps) && gaps.some((gap) => gap !== 1)) throw refused(node, "has windows with gaps");
  const lead = sizeOf(shape.slice(0, from));
  const padding = attrs.padding.slice(from);
  const given = {
    kernel_shape: attrs.window.slice(from),
    strides: attrs.strides.slice(from),
    pads: [...padding.map(([low]) => low), ...padding.map(([, high]) => high)],
  };
  const x = reshaped(writer, inputs[0] as string, [1, lead, ...shape.slice(from)]);
  const pooled = (): string => {
    if (attrs.op === "max") return writer.add("MaxPool", [x], given);
    if (attrs.op === "min") return writer.add("Neg", [writer.add("MaxPool", [writer.add("Neg", [x])], given)]);
    if (attrs.op !== "sum") throw refused(node, "has windows that ONNX does not pool");
    const means = writer.add("AveragePool", [x], { ...given, count_include_pad: 1 });
    return writer.add("Mul", [means, writer.scalar(dtype, sizeOf(attrs.window.slice(from)))]);
  };
  return reshaped(writer, pooled(), node.shape);
}

function gather({ node, inputs, writer }: Spelled): string {
  const batchDims = node.attrs["batchDims"] as number;
  if (batchDims === 0) return writer.add("Gather", inputs, { axis: 0 });
  const indices = writer.add("Cast", [inputs[1] as string], { to: 7 });
  const nested = reshaped(writer, indices, [...first(node, 1).shape, 1]);
  return writer.add("GatherND", [inputs[0] as string, nested], { batch_dims: batchDims });
}

export const spellings: { readonly [op: string]: Spelling } = {
  neg: same("Neg"),
  abs: same("Abs"),
  sign: same("Sign"),
  exp: same("Exp"),
  expm1: withNumber("Sub", 1, "Exp"),
  log: same("Log"),
  log1p: then("Log", withNumber("Add", 1)),
  sqrt: same("Sqrt"),
  rsqrt: then("Reciprocal", same("Sqrt")),
  tanh: same("Tanh"),
  logistic: same("Sigmoid"),
  softplus: same("Softplus"),
  erf: same("Erf"),
  sin: same("Sin"),
  cos: same("Cos"),
  floor: same("Floor"),
  ceil: same("Ceil"),
  round: same("Round"),
  not: byDType("Not", "BitwiseNot"),
  isFinite: ({ inputs, writer }) =>
    writer.add("Not", [writer.add("Or", [writer.add("IsNaN", inputs), writer.add("IsInf", inputs)])]),
  add: same("Add"),
  sub: same("Sub"),
  mul: same("Mul"),
  div: same("Div"),
  rem: ({ inputs, writer }) => writer.add("Mod", inputs, { fmod: 1 }),
  pow: same("Pow"),
  max: same("Max"),
  min: same("Min"),
  and: byDType("And", "BitwiseAnd"),
  or: byDType("Or", "BitwiseOr"),
  xor: byDType("Xor", "BitwiseXor"),
  shiftLeft: shift("LEFT"),
  shiftRight: shift("RIGHT"),
  eq: same("Equal"),
  ne: then("Not", same("Equal")),
  lt: same("Less"),
  le: same("LessOrEqual"),
  gt: same("Greater"),
  ge: same("GreaterOrEqual"),
  select: same("Where"),
  cast: ({ node, inputs, writer }) => castTo(writer, inputs[0] as string, node.dtype),
  constant: ({ node, writer }) => writer.scalar(node.dtype, node.attrs["value"] as number),
  broadcast,
  reshape: ({ node, inputs, writer }) => reshaped(writer, inputs[0] as string, node.shape),
  transpose: ({ node, inputs, writer }) => transposed(writer, inputs[0] as string, node.attrs["order"] as number[]),
  slice,
  pad,
  concat: ({ node, inputs, writer }) => writer.add("Concat", inputs, { axis: node.attrs["dim"] as number }),
  reverse,
  iota,
  reduce,
  argMax: ({ node, inputs, writer }) =>
    castTo(writer, writer.add("ArgMax", inputs, { axis: node.attrs["dim"] as number, keepdims: 0 }), "i32"),
  cumulative: ({ node, inputs, writer }) => {
    if (node.attrs["kind"] !== "sum") throw refused(node, "accumulates otherwise than by sums");
    return writer.add("CumSum", [inputs[0] as string, writer.index(node.attrs["dim"] as number)]);
  },
  dot,
  conv,
  reduceWindow,
  gather,
};
