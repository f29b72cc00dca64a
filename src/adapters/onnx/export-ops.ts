/** @module How each of Heddle's ops is spelled in ONNX (opset 18). An op that is not here is spelled by its body. */
import { type DType, dtypes, otherDims, range, type Shape, sizeOf, type TensorType } from "../../ir/index.ts";
import { controlSpellings } from "./export-control.ts";
import { orderSpellings } from "./export-order.ts";
import { windowSpellings } from "./export-windows.ts";
import type { GraphWriter } from "./graph-writer.ts";
import {
  castTo,
  placesAlong,
  refused,
  reshaped,
  reversed,
  type Spelled,
  type Spelling,
  sliced,
  toInt64,
  transposed,
  typeOfInput,
} from "./spelled.ts";

/** An ONNX op on the same inputs. */
const same =
  (op: string): Spelling =>
  ({ inputs, writer }) =>
    writer.add(op, inputs);

/** An ONNX op on the result of another spelling. */
const then =
  (op: string, inner: Spelling): Spelling =>
  (spelled) =>
    spelled.writer.add(op, [inner(spelled)].flat());

const byDType =
  (bool: string, other: string): Spelling =>
  ({ node, inputs, writer }) =>
    writer.add(typeOfInput(node).dtype === "bool" ? bool : other, inputs);

/** An integer op that ONNX has for wider dtypes only; the lowest bits of its result are the same. */
const inWider =
  (narrow: readonly DType[], wide: DType, op: string): Spelling =>
  ({ node, inputs, writer }) => {
    if (!narrow.includes(node.dtype)) return writer.add(op, inputs);
    const result = writer.add(
      op,
      inputs.map((name) => castTo(writer, name, wide)),
    );
    return castTo(writer, result, node.dtype);
  };

/** A number of the node's dtype beside an input. */
const withNumber = (op: string, value: number, inner?: string, swapped = false): Spelling => {
  return ({ node, inputs, writer }) => {
    const x = inner === undefined ? (inputs[0] as string) : writer.add(inner, inputs);
    const number = writer.scalar(typeOfInput(node).dtype, value);
    return writer.add(op, swapped ? [number, x] : [x, number]);
  };
};

/** An op on the magnitudes of numbers, whose signs are kept. */
const signed =
  (of: (writer: GraphWriter, size: string, dtype: TensorType["dtype"]) => string): Spelling =>
  ({ node, inputs, writer }) =>
    writer.add("Mul", [writer.add("Sign", inputs), of(writer, writer.add("Abs", inputs), node.dtype)]);

function shift(direction: "LEFT" | "RIGHT"): Spelling {
  return ({ node, inputs, writer }) => {
    if (dtypes[typeOfInput(node).dtype].kind !== "uint")
      throw refused(node, "shifts signed integers, which ONNX does not");
    return writer.add("BitShift", inputs, { direction });
  };
}

/** New dims of size 1 where the input has none, then repeated. */
function broadcast({ node, inputs, writer }: Spelled): string {
  const { shape, dims } = node.attrs as { shape: Shape; dims: readonly number[] };
  const sizes = shape.map((_size, dim) =>
    dims.includes(dim) ? (typeOfInput(node).shape[dims.indexOf(dim)] as number) : 1,
  );
  return writer.add("Expand", [reshaped(writer, inputs[0] as string, sizes), writer.list(shape)]);
}

function slice({ node, inputs, writer }: Spelled): string {
  const { start, limit, stride } = node.attrs as { start: number[]; limit: number[]; stride: number[] };
  const lists = [start, limit, range(start.length), stride].map((list) => writer.list(list));
  return writer.add("Slice", [inputs[0] as string, ...lists]);
}

/** Pads between the elements first: each dim gets a new dim behind it, which is padded and then merged with the dim. */
function pad({ node, inputs, writer }: Spelled): string {
  const { low, high, interior } = node.attrs as { low: number[]; high: number[]; interior: number[] };
  const value = inputs[1] as string;
  let x = inputs[0] as string;
  let shape = [...typeOfInput(node).shape];
  interior.forEach((gap, dim) => {
    const size = shape[dim] as number;
    if (gap === 0 || size === 0) return;
    const apart = [...shape.slice(0, dim + 1), 1, ...shape.slice(dim + 1)];
    const after = apart.map((_size, each) => (each === dim + 1 ? gap : 0));
    const padded = writer.add("Pad", [
      reshaped(writer, x, apart),
      writer.list([...apart.map(() => 0), ...after]),
      value,
    ]);
    const whole = shape.map((each, other) => (other === dim ? size * (gap + 1) : each));
    shape = whole.map((each, other) => (other === dim ? each - gap : each));
    x = sliced(
      writer,
      reshaped(writer, padded, whole),
      shape.map(() => 0),
      shape,
    );
  });
  return writer.add("Pad", [x, writer.list([...low, ...high]), value]);
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
  const result = writer.add(name, [x, writer.list(dims)], { keepdims: 0 });
  return bool ? castTo(writer, result, "bool") : result;
}

/** A product of matrices: batch dims first, then those of one side, then the contracted ones. */
function dot(spelled: Spelled): string {
  const { node, inputs, writer } = spelled;
  const [x, y] = [typeOfInput(node), typeOfInput(node, 1)];
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
  const sides = [
    reshaped(writer, left, [...batch, flat(x, xFree), flat(x, xContract)]),
    reshaped(writer, right, [...batch, flat(y, yContract), flat(y, yFree)]),
  ];
  const product =
    node.attrs["dtype"] === "i32"
      ? writer.add("MatMulInteger", sides)
      : node.attrs["dtype"] === undefined
        ? inWider(["i8", "u8"], "i32", "MatMul")({ ...spelled, inputs: sides })
        : writer.add(
            "MatMul",
            sides.map((side) => castTo(writer, side, node.dtype)),
          );
  return reshaped(writer, product as string, [...batch, ...sizes(x, xFree), ...sizes(y, yFree)]);
}

function gather({ node, inputs, writer }: Spelled): string {
  const batchDims = node.attrs["batchDims"] as number;
  if (batchDims === 0) return writer.add("Gather", inputs, { axis: 0 });
  const nested = reshaped(writer, toInt64(writer, inputs[1] as string), [...typeOfInput(node, 1).shape, 1]);
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
  tan: same("Tan"),
  asin: same("Asin"),
  acos: same("Acos"),
  atan: same("Atan"),
  sinh: same("Sinh"),
  cosh: same("Cosh"),
  asinh: same("Asinh"),
  acosh: same("Acosh"),
  atanh: same("Atanh"),
  exp2: withNumber("Pow", 2, undefined, true),
  log2: withNumber("Mul", Math.LOG2E, "Log"),
  cbrt: signed((writer, size, dtype) => writer.add("Pow", [size, writer.scalar(dtype, 1 / 3)])),
  erfc: withNumber("Sub", 1, "Erf", true),
  trunc: signed((writer, size) => writer.add("Floor", [size])),
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
  pow: inWider(["i8", "u8", "u32", "u64"], "i64", "Pow"),
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
  reverse: ({ node, inputs, writer }) => reversed(writer, inputs[0] as string, node.attrs["dims"] as number[]),
  iota: ({ node, writer }) => {
    const { dtype, shape, dim } = node.attrs as { dtype: TensorType["dtype"]; shape: Shape; dim: number };
    return placesAlong(writer, dtype, shape, dim);
  },
  reduce,
  argMax: ({ node, inputs, writer }) =>
    castTo(writer, writer.add("ArgMax", inputs, { axis: node.attrs["dim"] as number, keepdims: 0 }), "i32"),
  cumulative: ({ node, inputs, writer }) => {
    if (node.attrs["kind"] !== "sum") throw refused(node, "accumulates other than by sums");
    return writer.add("CumSum", [inputs[0] as string, writer.index(node.attrs["dim"] as number)]);
  },
  dot,
  gather,
  optimizationBarrier: ({ inputs, writer }) => writer.add("Identity", [inputs[0] as string]),
  ...windowSpellings,
  ...orderSpellings,
  ...controlSpellings,
};
