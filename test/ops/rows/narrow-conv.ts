/** @module Rows of convolutions of bf16 and of their gradients by the weight, beside the same in f64. */
import { traceGraph } from "../../../src/ir/graph.ts";
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { add, broadcastTo, call, evaluateGraph, maximum } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import type { Source } from "../../support/tensors.ts";

type Pairs = readonly (readonly [number, number])[];

interface Conv {
  readonly title: string;
  readonly layout: string;
  readonly x: readonly number[];
  readonly kernel: readonly number[];
  readonly strides?: readonly number[];
  readonly padding?: Pairs;
  readonly inputDilation?: readonly number[];
  readonly kernelDilation?: readonly number[];
}

const seeded = (shape: readonly number[], seed: number): Source => ({
  dtype: "bf16",
  shape,
  values: { low: -2, high: 2, seed: 77_000 + seed },
});

const forward: readonly Conv[] = [
  {
    title: "one channel",
    layout: "b01f,01io->b01f",
    x: [2, 6, 7, 1],
    kernel: [5, 5, 1, 3],
    padding: [
      [2, 2],
      [2, 2],
    ],
  },
  {
    title: "read in place",
    layout: "b01f,01io->b01f",
    x: [2, 9, 14, 32],
    kernel: [3, 3, 32, 40],
    padding: [
      [1, 1],
      [1, 1],
    ],
  },
  { title: "tiles that overlap", layout: "b01f,01io->b01f", x: [1, 2, 33, 32], kernel: [1, 2, 32, 17] },
  {
    title: "channels first",
    layout: "bf01,oi01->bf01",
    x: [3, 5, 9, 8],
    kernel: [18, 5, 3, 3],
    padding: [
      [1, 1],
      [1, 1],
    ],
  },
  { title: "long", layout: "b01f,01io->b01f", x: [1, 5, 10, 64], kernel: [3, 3, 64, 5] },
  { title: "one tap", layout: "b01f,01io->b01f", x: [2, 3, 5, 40], kernel: [1, 1, 40, 6] },
  {
    title: "strides",
    layout: "b01f,01io->b01f",
    x: [2, 9, 19, 32],
    kernel: [3, 3, 32, 6],
    strides: [2, 2],
    padding: [
      [1, 1],
      [1, 0],
    ],
  },
  {
    title: "dilated kernel",
    layout: "b01f,01io->b01f",
    x: [2, 9, 12, 32],
    kernel: [3, 2, 32, 6],
    kernelDilation: [2, 3],
  },
  {
    title: "dilated input",
    layout: "b01f,01io->b01f",
    x: [2, 4, 5, 32],
    kernel: [3, 3, 32, 6],
    inputDilation: [2, 2],
    padding: [
      [1, 2],
      [2, 1],
    ],
  },
  {
    title: "far dilated input",
    layout: "b0f,0io->b0f",
    x: [2, 3, 2],
    kernel: [3, 2, 6],
    inputDilation: [40],
    padding: [[2, 2]],
  },
  {
    title: "negative padding",
    layout: "b01f,01io->b01f",
    x: [1, 7, 13, 32],
    kernel: [3, 3, 32, 4],
    padding: [
      [-1, 1],
      [1, -2],
    ],
  },
  { title: "groups", layout: "bg01f,g01io->bg01f", x: [2, 2, 5, 9, 32], kernel: [2, 3, 3, 32, 5] },
  { title: "groups read in place", layout: "b01gf,g01io->b01gf", x: [2, 5, 9, 2, 32], kernel: [2, 3, 2, 32, 5] },
  { title: "groups as lanes", layout: "b01fg,01iog->b01fg", x: [2, 5, 6, 1, 20], kernel: [3, 3, 1, 2, 20] },
  { title: "one dim", layout: "b0f,0io->b0f", x: [2, 50, 3], kernel: [4, 3, 6] },
  {
    title: "three dims",
    layout: "b012f,012io->b012f",
    x: [2, 4, 5, 6, 3],
    kernel: [2, 3, 2, 3, 5],
    padding: [
      [1, 0],
      [1, 1],
      [0, 0],
    ],
  },
  { title: "windows of all", layout: "b01f,01io->b01f", x: [5, 4, 4, 16], kernel: [4, 4, 16, 9] },
  {
    title: "a window beyond padding",
    layout: "b01f,01io->b01f",
    x: [2, 1, 1, 3],
    kernel: [7, 7, 3, 4],
    padding: [
      [3, 3],
      [3, 3],
    ],
  },
  { title: "no images", layout: "b01f,01io->b01f", x: [0, 4, 4, 3], kernel: [3, 3, 3, 4] },
  { title: "no channels", layout: "b01f,01io->b01f", x: [2, 4, 4, 0], kernel: [3, 3, 0, 4] },
];

/** The weight is the gradient of the result, whose windows are larger than what comes out. */
const filters: readonly Conv[] = [
  {
    title: "one channel",
    layout: "f01b,i01o->01bf",
    x: [3, 10, 11, 1],
    kernel: [3, 10, 11, 5],
    padding: [
      [2, 2],
      [2, 2],
    ],
  },
  {
    title: "columns in place",
    layout: "f01b,i01o->01bf",
    x: [2, 8, 9, 16],
    kernel: [2, 8, 9, 40],
    padding: [
      [1, 1],
      [1, 1],
    ],
  },
  {
    title: "many images",
    layout: "f01b,i01o->01bf",
    x: [35, 6, 6, 2],
    kernel: [35, 6, 6, 18],
    padding: [
      [1, 1],
      [1, 1],
    ],
  },
  { title: "large images", layout: "f01b,i01o->01bf", x: [1, 28, 30, 3], kernel: [1, 26, 28, 70] },
  {
    title: "strides",
    layout: "f01b,i01o->01bf",
    x: [3, 11, 13, 16],
    kernel: [3, 5, 6, 6],
    kernelDilation: [2, 2],
    padding: [
      [1, -1],
      [0, 0],
    ],
  },
  { title: "dilated kernel", layout: "f01b,i01o->01bf", x: [2, 9, 12, 5], kernel: [2, 5, 6, 6], strides: [2, 3] },
  { title: "unpadded images side by side", layout: "f01b,i01o->01bf", x: [9, 7, 8, 16], kernel: [9, 5, 6, 33] },
  { title: "groups", layout: "f01gb,i01go->01gbf", x: [2, 8, 9, 2, 16], kernel: [2, 6, 7, 2, 5] },
  { title: "one tap", layout: "f01b,i01o->01bf", x: [4, 5, 6, 24], kernel: [4, 5, 6, 10] },
  {
    title: "channels first",
    layout: "fb01,io01->bf01",
    x: [3, 4, 8, 8],
    kernel: [3, 6, 8, 8],
    padding: [
      [1, 1],
      [1, 1],
    ],
  },
];

const attrsOf = ({ layout, ...rest }: Conv) => {
  const spatial = [...(layout.split(",")[0] as string)].filter((letter) => letter >= "0" && letter <= "9");
  const ones = spatial.map(() => 1);
  const { strides = ones, inputDilation = ones, kernelDilation = ones } = rest;
  return {
    layout,
    strides,
    inputDilation,
    kernelDilation,
    padding: rest.padding ?? spatial.map(() => [0, 0] as const),
  };
};

/** The same of the operands in f64, and what is added to it. */
const exactly = (inputs: readonly HostTensor[], attrs: ReturnType<typeof attrsOf>): number[] => {
  const wide = inputs.map(({ shape, data }): HostTensor => {
    return { dtype: "f64", shape, data: Float64Array.from(data as Float32Array) };
  });
  const graph = traceGraph(
    "wide",
    wide.map(({ shape }, index) => ({ name: `x${index}`, type: { dtype: "f64", shape } })),
    (x, kernel) => [call("conv", [x as Node, kernel as Node], attrs)],
  );
  return [...(evaluateGraph(graph, wide)[0] as HostTensor).data] as number[];
};

const row = (conv: Conv, seed: number): Row => ({
  op: "conv",
  title: `bf16, ${conv.title}`,
  inputs: [seeded(conv.x, seed), seeded(conv.kernel, seed + 1)],
  attrs: attrsOf(conv),
  expected: (...inputs) => [exactly(inputs, attrsOf(conv))],
  // A unit in the last place of a number is at most 2^-7 of it; a batch is compared with numbers that are rounded, too.
  tolerance: 2 ** -7,
  gradient: false,
});

const withRelu = (conv: Conv, seed: number): Row => {
  const { expected: _expected, attrs, ...rest } = row(conv, seed);
  const channels = conv.kernel.at(-1) as number;
  return {
    ...rest,
    title: `bf16 with bias and relu, ${conv.title}`,
    inputs: [...rest.inputs, seeded([channels], seed + 2)],
    build: (x, kernel, bias) => {
      const y = call("conv", [x as Node, kernel as Node], attrs ?? {});
      return [maximum(add(y, broadcastTo(bias as Node, y.shape)), 0)];
    },
    tolerance: 2 ** -6,
  };
};

/** A number that is infinite reaches only what it is multiplied with. */
const infinite = (conv: Conv, seed: number): Row => {
  const plain = row(conv, seed);
  const count = conv.x.reduce((size, dim) => size * dim, 1);
  const values = Array.from({ length: count }, (_, index) =>
    index === 0 ? Number.POSITIVE_INFINITY : (index % 7) / 8,
  );
  const [, kernel] = plain.inputs as [Source, Source];
  const positive: Source = { ...kernel, values: { low: 0.5, high: 1, seed: 77_000 + seed } };
  return {
    ...plain,
    title: `bf16 with an infinite number, ${conv.title}`,
    inputs: [{ dtype: "bf16", shape: conv.x, values }, positive],
  };
};

/** Convolutions of bf16 and their gradients by the weight. */
export const narrowConvRows: readonly Row[] = [
  ...forward.map((conv, index) => row(conv, 10 * index)),
  ...filters.map((conv, index) => row({ ...conv, title: `by the weight, ${conv.title}` }, 1000 + 10 * index)),
  ...forward.slice(0, 3).map((conv, index) => withRelu(conv, 2000 + 10 * index)),
  ...forward.slice(0, 2).map((conv, index) => infinite(conv, 3000 + 10 * index)),
  ...filters
    .slice(0, 2)
    .map((conv, index) => infinite({ ...conv, title: `by the weight, ${conv.title}` }, 4000 + 10 * index)),
];
