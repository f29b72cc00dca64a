/** @module How convolutions and windows are spelled in ONNX. */
import { dtypes, isFloat, type Node, range, sizeOf } from "../../ir/index.ts";
import { type ConvAttrs, convDims, type WindowAttrs } from "../../ops/index.ts";
import type { GraphWriter } from "./graph-writer.ts";
import { refused, reshaped, reversed, type Spelled, type Spelling, transposed, typeOfInput } from "./spelled.ts";

/** Dims of an operand in ONNX's order, its groups and the features behind them as one dim. */
function arranged({ node, inputs, writer }: Spelled, index: number, letters: string, wanted: string): string {
  const order = [...wanted].map((letter) => letters.indexOf(letter));
  const turned = transposed(writer, inputs[index] as string, order);
  const group = wanted.indexOf("g");
  if (group < 0) return turned;
  const sizes = order.map((dim) => typeOfInput(node, index).shape[dim] as number);
  const features = (sizes[group] as number) * (sizes[group + 1] as number);
  return reshaped(writer, turned, [...sizes.slice(0, group), features, ...sizes.slice(group + 2)]);
}

/** The result's dims back in the order of its layout. */
function restored(writer: GraphWriter, name: string, node: Node, letters: string, wanted: string): string {
  const sizes = [...wanted].map((letter) => node.shape[letters.indexOf(letter)] as number);
  const apart = wanted.includes("g") ? reshaped(writer, name, sizes) : name;
  return transposed(
    writer,
    apart,
    [...letters].map((letter) => wanted.indexOf(letter)),
  );
}

const beforeAndAfter = (padding: readonly (readonly [number, number])[]): number[] => [
  ...padding.map(([low]) => low),
  ...padding.map(([, high]) => high),
];

/** A convolution with its dims in ONNX's order, whose result is brought back into the order of the layout. */
function conv(spelled: Spelled): string {
  const { node, writer } = spelled;
  const attrs = node.attrs as ConvAttrs;
  const { x, kernel, out, spatial, grouped } = convDims(attrs.layout);
  if (attrs.inputDilation.some((gap) => gap !== 1)) return convTranspose(spelled);
  if (attrs.padding.flat().some((amount) => amount < 0)) throw refused(node, "has negative padding");
  const [group, space] = [grouped ? "g" : "", spatial.join("")];
  const image = `b${group}f${space}`;
  const operands = [arranged(spelled, 0, x, image), arranged(spelled, 1, kernel, `${group}oi${space}`)];
  const result = writer.add("Conv", operands, {
    strides: attrs.strides,
    dilations: attrs.kernelDilation,
    pads: beforeAndAfter(attrs.padding),
    group: grouped ? (typeOfInput(node).shape[x.indexOf("g")] as number) : 1,
  });
  return restored(writer, result, node, out, image);
}

/** An input with gaps: the transpose of a convolution, whose kernel is reversed and whose features change positions. */
function convTranspose(spelled: Spelled): string {
  const { node, writer } = spelled;
  const attrs = node.attrs as ConvAttrs;
  const { x, kernel, out, spatial, grouped } = convDims(attrs.layout);
  const [group, space] = [grouped ? "g" : "", spatial.join("")];
  const image = `b${group}f${space}`;
  const weight = arranged(spelled, 1, kernel, `${group}io${space}`);
  const dims = range(spatial.length).map((dim) => dim + 2);
  const spans = spatial.map((digit, dim) => {
    const size = typeOfInput(node, 1).shape[kernel.indexOf(digit)] as number;
    return (size - 1) * (attrs.kernelDilation[dim] as number);
  });
  const low = attrs.padding.map(([before], dim) => (spans[dim] as number) - before);
  const high = attrs.padding.map(([, after], dim) => (spans[dim] as number) - after);
  if (low.some((amount) => amount < 0)) throw refused(node, "pads more than its kernel spans");
  const result = writer.add("ConvTranspose", [arranged(spelled, 0, x, image), reversed(writer, weight, dims)], {
    strides: attrs.inputDilation,
    dilations: attrs.kernelDilation,
    pads: [...low, ...high.map((amount) => Math.max(0, amount))],
    output_padding: high.map((amount) => Math.max(0, -amount)),
    group: grouped ? (typeOfInput(node).shape[x.indexOf("g")] as number) : 1,
  });
  return restored(writer, strided(spelled, result), node, out, image);
}

/** Keeps, of the results at all positions, those that the strides of the convolution stop at. */
function strided({ node, writer }: Spelled, result: string): string {
  const { strides } = node.attrs as ConvAttrs;
  if (strides.every((stride) => stride === 1)) return result;
  const dims = range(strides.length).map((dim) => dim + 2);
  const lists = [dims.map(() => 0), dims.map(() => 2 ** 31 - 1), dims, strides];
  return writer.add("Slice", [result, ...lists.map((list) => writer.list(list))]);
}

/** Windows over the last dims; all dims before them are flattened into one. */
function reduceWindow({ node, inputs, writer }: Spelled): string {
  const attrs = node.attrs as WindowAttrs;
  const { shape, dtype } = typeOfInput(node);
  const moves = shape.map(
    (_size, dim) =>
      attrs.window[dim] !== 1 || attrs.strides[dim] !== 1 || (attrs.padding[dim] ?? []).some((amount) => amount !== 0),
  );
  const from = moves.includes(true) ? moves.indexOf(true) : shape.length - 1;
  if (!isFloat(dtype) || shape.length - from > 3) throw refused(node, "has windows that ONNX does not pool");
  const dilations = shape.slice(from).map((_size, dim) => attrs.dilation?.[from + dim] ?? 1);
  const kernel = attrs.window.slice(from);
  const rules = { strides: attrs.strides.slice(from), pads: beforeAndAfter(attrs.padding.slice(from)) };
  const x = reshaped(writer, inputs[0] as string, [sizeOf(shape.slice(0, from)), 1, ...shape.slice(from)]);
  const maxima = (of: string): string => writer.add("MaxPool", [of], { ...rules, kernel_shape: kernel, dilations });
  const pooled = (): string => {
    if (attrs.op === "max") return maxima(x);
    if (attrs.op === "min") return writer.add("Neg", [maxima(writer.add("Neg", [x]))]);
    if (attrs.op !== "sum") throw refused(node, "has windows that ONNX does not pool");
    // AveragePool has gaps from opset 19 on only; a convolution by ones sums, too.
    if (dilations.some((gap) => gap !== 1)) {
      const ones = dtypes[dtype].create(range(sizeOf(kernel)).map(() => 1));
      const weight = writer.constant("ones", { dtype, shape: [1, 1, ...kernel], data: ones });
      return writer.add("Conv", [x, weight], { ...rules, dilations });
    }
    const means = writer.add("AveragePool", [x], { ...rules, kernel_shape: kernel, count_include_pad: 1 });
    return writer.add("Mul", [means, writer.scalar(dtype, sizeOf(kernel))]);
  };
  return reshaped(writer, pooled(), node.shape);
}

export const windowSpellings: { readonly [op: string]: Spelling } = { conv, reduceWindow };
