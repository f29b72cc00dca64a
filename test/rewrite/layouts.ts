/** @module Graphs around convolutions of any layout: what a row of the op table or a network meets when layouts are changed. */
import { gradients } from "../../src/autodiff/index.ts";
import { traceGraph } from "../../src/ir/graph.ts";
import type { Graph, Node } from "../../src/ir/node.ts";
import { type Shape, sizeOf, type TensorType } from "../../src/ir/shape.ts";
import * as ops from "../../src/ops/index.ts";
import { type Row, rowGraph } from "../ops/table.ts";

/** All orders of these letters. */
const ordersOf = (letters: string): string[] =>
  letters.length < 2
    ? [letters]
    : [...letters].flatMap((first) => ordersOf(letters.replace(first, "")).map((rest) => first + rest));

/** All orders of the dims of an image and of a kernel, of so many spatial dims: as many of either. */
export function layoutOrders(spatial: number): { images: readonly string[]; kernels: readonly string[] } {
  const dims = "012".slice(0, spatial);
  return { images: ordersOf(`bf${dims}`), kernels: ordersOf(`oi${dims}`) };
}

/** Layouts of a convolution of so many spatial dims: all of them, or `count` spread evenly over them. */
export function layouts(spatial: number, count = Number.POSITIVE_INFINITY): string[] {
  const { images, kernels } = layoutOrders(spatial);
  const total = images.length ** 3;
  // A step that shares no factor with the number of orders comes by all of them, in all three places.
  const step = count >= total ? 1 : Math.floor(total / count) | 1;
  const at = (list: readonly string[], index: number): string => list[index % list.length] as string;
  return Array.from({ length: Math.min(count, total) }, (_unused, index) => index * step).map(
    (index) =>
      `${at(images, index)},${at(kernels, Math.floor(index / images.length))}->${at(images, Math.floor(index / images.length ** 2))}`,
  );
}

/** A convolution of this layout with all else plain. */
export function convolve(x: Node, kernel: Node, layout: string): Node {
  const spatial = layout.indexOf(",") - 2;
  const list = <T>(value: T): T[] => Array.from({ length: spatial }, () => value);
  return ops.call("conv", [x, kernel], {
    layout,
    strides: list(1),
    inputDilation: list(1),
    kernelDilation: list(1),
    padding: list([0, 0]),
  });
}

const lettersOf = (layout: string): [string, string, string] => layout.split(/,|->/) as [string, string, string];
const isConvolved = ({ dtype, shape }: TensorType): boolean =>
  (dtype === "f32" || dtype === "f64") && !shape.includes(0);

/** Sizes by letter of an image whose dims have these letters: the shape's and then ones, or all of it in the channels where it has too many dims. */
function sizesOf(letters: string, shape: Shape): (letters: string) => number[] {
  const own =
    shape.length > letters.length
      ? [...letters].map((letter) => (letter === "f" ? sizeOf(shape) : 1))
      : [...letters].map((_letter, dim) => shape[dim] ?? 1);
  const channels = own[letters.indexOf("f")] as number;
  return (wanted) =>
    [...wanted].map((letter) => ("oi".includes(letter) ? channels : (own[letters.indexOf(letter)] as number)));
}

/** The shape of a kernel of one tap. */
const tapOf = (letters: string, sizes: (letters: string) => number[]): number[] =>
  sizes(letters.replace(/[0-9]/g, "o")).map((size, at) => (/[0-9]/.test(letters[at] as string) ? 1 : size));

/**
 * A row with each of its floats made by a convolution in this layout, of kernels of one tap, and reshaped where it has other dims. With `into`, each float result goes through a convolution in that layout in the same way.
 */
export function amongConvolutions(row: Row, layout: string, into?: string): Graph {
  const [image, kernel, out] = lettersOf(layout);
  const plain = rowGraph(row);
  const made = plain.inputs.map(({ dtype, shape }): TensorType[] => {
    if (!isConvolved({ dtype, shape })) return [{ dtype, shape }];
    const sizes = sizesOf(out, shape);
    return [
      { dtype, shape: sizes(image) },
      { dtype, shape: tapOf(kernel, sizes) },
    ];
  });
  const [nextImage, nextKernel] = lettersOf(into ?? layout);
  const after = plain.outputs.map((type): TensorType[] =>
    into === undefined || !isConvolved(type)
      ? []
      : [{ dtype: type.dtype, shape: tapOf(nextKernel, sizesOf(nextImage, type.shape)) }],
  );
  const specs = [...made, ...after].flat().map((type, index) => ({ name: `x${index}`, type }));
  return traceGraph(row.op, specs, (...nodes) => {
    const left = [...nodes];
    const inputs = made.map(({ length }, index) => {
      const [x, weights] = left.splice(0, length) as [Node, Node?];
      return weights === undefined
        ? x
        : ops.reshape(convolve(x, weights, layout), plain.inputs[index]?.shape as number[]);
    });
    const results = row.build?.(...inputs) ?? [ops.call(row.op, inputs, row.attrs)];
    return results.map((result, index) => {
      const [weights] = left.splice(0, after[index]?.length);
      if (weights === undefined || into === undefined) return result;
      return convolve(ops.reshape(result, sizesOf(nextImage, result.shape)(nextImage)), weights, into);
    });
  });
}

/** What a network does around a convolution: the image and a shared value come in, in the user's layout. */
export function network(layout: string): Graph {
  const [image, kernel, out] = lettersOf(layout);
  const size: { readonly [letter: string]: number } = { b: 2, f: 3, o: 3, i: 3, 0: 4, 1: 3, 2: 2 };
  const shapeOf = (letters: string): number[] => [...letters].map((letter) => size[letter] as number);
  const named = { x: image, kernel, c: out, twice: out };
  const specs = Object.entries(named).map(([name, letters]) => ({
    name,
    type: { dtype: "f64" as const, shape: name === "kernel" ? tapOf(kernel, shapeOf) : shapeOf(letters) },
  }));
  return traceGraph("network", specs, (x, w, c, d) => {
    const y = convolve(x as Node, w as Node, layout);
    const joined = ops.add(ops.mul(ops.relu(y), c as Node), ops.mul(d as Node, ops.exp(c as Node)));
    const loss = ops.sum(ops.mul(joined, joined));
    return [joined, ...gradients(loss, [x as Node, w as Node, c as Node])];
  });
}
