/** @module How sorting, writes at indices, slices at computed positions and transforms are spelled in ONNX. */
import { dtypes, isFloat, range, type Shape, type TensorType } from "../../ir/index.ts";
import type { GraphWriter } from "./graph-writer.ts";
import {
  castTo,
  filled,
  reshaped,
  reversed,
  type Spelled,
  type Spelling,
  sliced,
  toInt64,
  typeOfInput,
} from "./spelled.ts";

/**
 * The `count` largest or smallest elements of the last dim and their int64 indices; of equal elements the lowest index
 * comes first.
 */
function ranked({ node, inputs, writer }: Spelled, count: number, largest: boolean): [string, string] {
  const [x] = inputs as [string];
  const { dtype } = typeOfInput(node);
  const plain = isFloat(dtype) || dtype === "i32";
  const key = plain ? x : toInt64(writer, x);
  const attributes = { axis: -1, largest: Number(largest), sorted: 1 };
  const [values, indices] = writer.addAll("TopK", [key, writer.list([count])], 2, attributes) as [string, string];
  return [plain ? values : writer.add("GatherElements", [x, indices], { axis: -1 }), indices];
}

/** All inputs in the order of the first one. */
function sort(spelled: Spelled): string[] {
  const { node, inputs, writer } = spelled;
  const count = typeOfInput(node).shape.at(-1) as number;
  const [values, indices] = ranked(spelled, count, node.attrs["descending"] as boolean);
  return [values, ...inputs.slice(1).map((x) => writer.add("GatherElements", [x, indices], { axis: -1 }))];
}

function topK(spelled: Spelled): string[] {
  const [values, indices] = ranked(spelled, spelled.node.attrs["k"] as number, true);
  return [values, castTo(spelled.writer, indices, "i32")];
}

/** Positions along `dim` as int64, repeated along all other dims. */
function placesOf(writer: GraphWriter, shape: Shape, dim: number): string {
  const size = shape[dim] as number;
  const sizes = shape.map((_size, each) => (each === dim ? size : 1));
  return writer.add("Expand", [reshaped(writer, writer.list(range(size)), sizes), writer.list(shape)]);
}

/** Indices of the dim behind the batch as those of ScatterND, which name the batch's dims too. */
function nested(writer: GraphWriter, indices: string, shape: Shape, batchDims: number): string {
  const deep = [...shape, 1];
  const positions = reshaped(writer, toInt64(writer, indices), deep);
  const lead = range(batchDims).map((dim) => placesOf(writer, deep, dim));
  return lead.length === 0 ? positions : writer.add("Concat", [...lead, positions], { axis: deep.length - 1 });
}

const reductions: { readonly [op: string]: string } = {
  sum: "add",
  prod: "mul",
  max: "max",
  min: "min",
  replace: "none",
};

function scatter({ node, inputs, writer }: Spelled): string {
  const { op, batchDims } = node.attrs as { op: string; batchDims: number };
  const [x, indices, updates] = inputs as [string, string, string];
  const at = nested(writer, indices, typeOfInput(node, 1).shape, batchDims);
  return writer.add("ScatterND", [x, at, updates], { reduction: reductions[op] as string });
}

function scatterAdd({ node, inputs, writer }: Spelled): string {
  const [updates, indices] = inputs as [string, string];
  const at = nested(writer, indices, typeOfInput(node, 1).shape, node.attrs["batchDims"] as number);
  return writer.add("ScatterND", [filled(writer, node, 0), at, updates], { reduction: "add" });
}

/** Starts, one scalar per dim, as a vector, moved so that the slice fits. */
function startsOf(writer: GraphWriter, starts: readonly string[], whole: Shape, sizes: Shape): string {
  const each = starts.map((start) => reshaped(writer, toInt64(writer, start), [1]));
  const vector = writer.add("Concat", each, { axis: 0 });
  const most = writer.list(whole.map((size, dim) => size - (sizes[dim] as number)));
  return writer.add("Max", [writer.add("Min", [vector, most]), writer.list(whole.map(() => 0))]);
}

/** Indices of all positions of a block that starts there, for GatherND and ScatterND: their shapes are known, as Slice's is not. */
function blockAt(writer: GraphWriter, starts: readonly string[], whole: Shape, sizes: Shape): string {
  const deep = [...sizes, 1];
  const positions = range(sizes.length).map((dim) => placesOf(writer, deep, dim));
  const offsets = writer.add("Concat", positions, { axis: sizes.length });
  return writer.add("Add", [offsets, startsOf(writer, starts, whole, sizes)]);
}

function dynamicSlice({ node, inputs, writer }: Spelled): string {
  const [x, ...starts] = inputs as [string, ...string[]];
  if (node.shape.length === 0) return writer.add("Identity", [x]);
  return writer.add("GatherND", [x, blockAt(writer, starts, typeOfInput(node).shape, node.shape)]);
}

function dynamicUpdateSlice({ node, inputs, writer }: Spelled): string {
  const [x, update, ...starts] = inputs as [string, string, ...string[]];
  if (node.shape.length === 0) return writer.add("Identity", [update]);
  const at = blockAt(writer, starts, node.shape, typeOfInput(node, 1).shape);
  return writer.add("ScatterND", [x, at, update]);
}

type Kind = "forward" | "inverse" | "fromReal" | "toReal";

/** A DFT of one dim after another; the second half of the spectrum of real numbers is the mirror image of the first. */
function fft({ node, inputs, writer }: Spelled): string {
  const { kind, length } = node.attrs as { kind: Kind; length: readonly number[] };
  const [x] = inputs as [string];
  const type = typeOfInput(node);
  const last = type.shape.length - (kind === "fromReal" ? 1 : 2);
  const outer = range(length.length - 1).map((dim) => last - 1 - dim);
  const dft = (name: string, axis: number, inverse: boolean, onesided = false): string =>
    writer.add("DFT", [name], { axis, inverse: Number(inverse), onesided: Number(onesided) });
  const over = (name: string, axes: readonly number[], inverse: boolean): string =>
    axes.reduce((result, axis) => dft(result, axis, inverse), name);
  if (kind === "fromReal") return over(dft(reshaped(writer, x, [...type.shape, 1]), last, false, true), outer, false);
  if (kind !== "toReal") return over(x, [last, ...outer], kind === "inverse");
  const points = length.at(-1) as number;
  const complex = dft(mirrored(writer, over(x, outer, true), type, points), last, true);
  const limit = [...type.shape.slice(0, -2), points, 1];
  const real = sliced(
    writer,
    complex,
    limit.map(() => 0),
    limit,
  );
  return reshaped(writer, real, node.shape);
}

/** A spectrum `[…, length / 2 + 1, 2]` with its mirror image, whose imaginary parts are negative. */
function mirrored(writer: GraphWriter, half: string, { dtype, shape }: TensorType, length: number): string {
  const dim = shape.length - 2;
  const rest = length - (shape[dim] as number);
  if (rest <= 0) return half;
  const tail = sliced(
    writer,
    half,
    shape.map((_size, each) => (each === dim ? 1 : 0)),
    shape.map((size, each) => (each === dim ? 1 + rest : size)),
  );
  const signs = writer.constant("conjugate", { dtype, shape: [2], data: dtypes[dtype].create([1, -1]) });
  return writer.add("Concat", [half, writer.add("Mul", [reversed(writer, tail, [dim]), signs])], { axis: dim });
}

export const orderSpellings: { readonly [op: string]: Spelling } = {
  sort,
  topK,
  scatter,
  scatterAdd,
  dynamicSlice,
  dynamicUpdateSlice,
  fft,
};
