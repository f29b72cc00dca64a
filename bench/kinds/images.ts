/** @module Classifiers: a perceptron, LeNet, ResNet-20; their training, and the inference of the first two. */
import { count, integersBelow, type Kind, layer, type ParameterShape, trainingFlops } from "./kind.ts";

/** A multilayer perceptron with relu between its layers. */
export interface MlpSizes {
  readonly kind: "mlp";
  readonly batch: number;
  /** Inputs, hidden layers, classes. */
  readonly widths: readonly number[];
}

/** Twice convolution (padding "same"), relu and 2x2 max pooling; then a hidden layer with dropout, and the classes. */
export interface LeNetSizes {
  readonly kind: "lenet";
  readonly batch: number;
  readonly side: number;
  readonly channels: readonly [number, number];
  readonly kernel: number;
  readonly hidden: number;
  readonly classes: number;
  readonly dropout: number;
}

/**
 * A residual network for small images (He et al., 2016): a convolution, then stages of blocks of two 3 x 3 convolutions with batch
 * norms, the mean of each channel, and a linear layer. The first block of later stages has stride 2, and a shortcut that takes every
 * second pixel and pads the channels with zeros (option A).
 */
export interface ResnetSizes {
  readonly kind: "resnet";
  readonly batch: number;
  readonly side: number;
  /** Channels of the stages. */
  readonly channels: readonly number[];
  /** Blocks of a stage. */
  readonly blocks: number;
  readonly classes: number;
}

/** One of the first two without its training: `network` has the batch. */
export interface InferSizes {
  readonly kind: "infer";
  readonly network: MlpSizes | LeNetSizes;
}

/**
 * A perceptron in i8 without its training: weights are quantised once, inputs of products in each step (dynamic quantisation, as ONNX
 * Runtime's `quantize_dynamic` does it).
 */
export interface Int8Sizes {
  readonly kind: "int8";
  readonly network: MlpSizes;
}

/** Floats `x`, and a label for each row. */
const labelled = <Sizes extends { readonly batch: number }>(
  shape: (sizes: Sizes) => readonly number[],
  classes: (sizes: Sizes) => number,
) => ({
  inputs: (sizes: Sizes): ParameterShape[] => [["x", shape(sizes)]],
  integers: (sizes: Sizes): ParameterShape[] => [["labels", [sizes.batch]]],
  drawIntegers: (sizes: Sizes, draw: () => number): Int32Array => integersBelow(sizes.batch, classes(sizes), draw),
  classes,
});

/** Multiply-adds of each layer's forward pass for one example. */
function multiplyAdds(sizes: MlpSizes | LeNetSizes): number[] {
  if (sizes.kind === "mlp") {
    return sizes.widths.slice(1).map((width, index) => width * (sizes.widths[index] as number));
  }
  const { side, kernel, hidden, classes } = sizes;
  const [first, second] = sizes.channels;
  const half = side / 2;
  return [
    side * side * kernel * kernel * first,
    half * half * kernel * kernel * first * second,
    flattened(sizes) * hidden,
    hidden * classes,
  ];
}

const flattened = ({ side, channels }: LeNetSizes): number => channels[1] * (side / 4) ** 2;

export const mlp: Kind<MlpSizes> = {
  ...labelled(
    ({ batch, widths }) => [batch, widths[0] as number],
    ({ widths }) => widths.at(-1) as number,
  ),
  parameters: ({ widths }) =>
    widths.slice(1).flatMap((width, index) => layer(2 * index, [width, widths[index] as number])),
  flops: (sizes) => sizes.batch * trainingFlops(multiplyAdds(sizes)),
};

export const lenet: Kind<LeNetSizes> = {
  ...labelled(
    ({ batch, side }) => [batch, 1, side, side],
    ({ classes }) => classes,
  ),
  parameters: (sizes) => {
    const { kernel, hidden, classes, channels } = sizes;
    return [
      ...layer(0, [channels[0], 1, kernel, kernel]),
      ...layer(3, [channels[1], channels[0], kernel, kernel]),
      ...layer(7, [hidden, flattened(sizes)]),
      ...layer(10, [classes, hidden]),
    ];
  },
  flops: (sizes) => sizes.batch * trainingFlops(multiplyAdds(sizes)),
};

/** Channels in and out, and the side of the result, of each block. */
function residualBlocks({ side, channels, blocks }: ResnetSizes): { from: number; to: number; side: number }[] {
  return channels.flatMap((to, stage) =>
    Array.from({ length: blocks }, (_unused, index) => {
      const from = index === 0 ? (channels[Math.max(0, stage - 1)] as number) : to;
      return { from, to, side: side / 2 ** stage };
    }),
  );
}

export const resnet: Kind<ResnetSizes> = {
  ...labelled(
    ({ batch, side }) => [batch, 3, side, side],
    ({ classes }) => classes,
  ),
  parameters: (sizes) => {
    const normed = (conv: string, norm: string, from: number, to: number): ParameterShape[] => [
      [`${conv}.weight`, [to, from, 3, 3]],
      ...layer(norm, [to]),
    ];
    return [
      ...normed("conv", "norm", 3, sizes.channels[0] as number),
      ...residualBlocks(sizes).flatMap(({ from, to }, index) => [
        ...normed(`blocks.${index}.conv1`, `blocks.${index}.norm1`, from, to),
        ...normed(`blocks.${index}.conv2`, `blocks.${index}.norm2`, to, to),
      ]),
      ...layer("head", [sizes.classes, sizes.channels.at(-1) as number]),
    ];
  },
  flops: (sizes) => {
    const { batch, side, channels, classes } = sizes;
    const blocks = residualBlocks(sizes).flatMap(({ from, to, side }) => [
      9 * side ** 2 * from * to,
      9 * side ** 2 * to * to,
    ]);
    const stem = 27 * side ** 2 * (channels[0] as number);
    return batch * trainingFlops([stem, ...blocks, classes * (channels.at(-1) as number)]);
  },
};

const kindOfNetwork = (network: MlpSizes | LeNetSizes): Kind<MlpSizes | LeNetSizes> =>
  (network.kind === "mlp" ? mlp : lenet) as Kind<MlpSizes | LeNetSizes>;

/** Weights and inputs are read, `weightBytes` each weight. */
const forward = (weightBytes: number): Kind<InferSizes | Int8Sizes> => ({
  parameters: ({ network }) => kindOfNetwork(network).parameters?.(network) ?? [],
  inputs: ({ network }) => kindOfNetwork(network).inputs(network),
  flops: ({ network }) => 2 * network.batch * multiplyAdds(network).reduce((sum, amount) => sum + amount, 0),
  bytes: ({ network }) => {
    const kind = kindOfNetwork(network);
    const numbers = (shapes: readonly ParameterShape[]): number =>
      shapes.reduce((sum, [, shape]) => sum + count(shape), 0);
    return weightBytes * numbers(kind.parameters?.(network) ?? []) + 4 * numbers(kind.inputs(network));
  },
});

export const infer: Kind<InferSizes> = forward(4);

export const int8: Kind<Int8Sizes> = forward(1);
