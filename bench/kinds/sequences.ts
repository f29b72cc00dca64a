/** @module Training of sequences: an LSTM with a class at each step, and a decoder of tokens. */
import { integersBelow, type Kind, layer, type ParameterShape, trainingFlops } from "./kind.ts";

/** An LSTM over vectors, and a linear layer that gives a class at each step. */
export interface LstmSizes {
  readonly kind: "lstm";
  readonly batch: number;
  readonly steps: number;
  readonly inputs: number;
  readonly hidden: number;
  readonly classes: number;
}

/**
 * A decoder of tokens: embedding and learned positions, blocks with norms before causal attention and before two layers with GELU (by
 * tanh) four times as wide, a norm, and the embedding's table again.
 */
export interface GptSizes {
  readonly kind: "gpt";
  readonly batch: number;
  /** Tokens of a sequence. */
  readonly steps: number;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly vocabulary: number;
}

export const lstm: Kind<LstmSizes> = {
  parameters: ({ inputs, hidden, classes }) => [
    ["lstm.weight_ih_l0", [4 * hidden, inputs]],
    ["lstm.weight_hh_l0", [4 * hidden, hidden]],
    ["lstm.bias_ih_l0", [4 * hidden]],
    ["lstm.bias_hh_l0", [4 * hidden]],
    ...layer("head", [classes, hidden]),
  ],
  inputs: ({ batch, steps, inputs }) => [["x", [batch, steps, inputs]]],
  integers: ({ batch, steps }) => [["labels", [batch, steps]]],
  drawIntegers: ({ batch, steps, classes }, draw) => integersBelow(batch * steps, classes, draw),
  classes: ({ classes }) => classes,
  flops: ({ batch, steps, inputs, hidden, classes }) =>
    batch * steps * trainingFlops([4 * hidden * inputs, 4 * hidden * hidden, hidden * classes]),
};

export const gpt: Kind<GptSizes> = {
  parameters: ({ steps, layers, width, vocabulary }) => [
    ["embedding.weight", [vocabulary, width]],
    ["positions.weight", [steps, width]],
    ...Array.from({ length: layers }, (_unused, index) => blockParameters(`blocks.${index}`, width)).flat(),
    ...layer("norm", [width]),
  ],
  inputs: () => [],
  integers: ({ batch, steps }) => [
    ["tokens", [batch, steps]],
    ["labels", [batch, steps]],
  ],
  drawIntegers: ({ batch, steps, vocabulary }, draw) => integersBelow(2 * batch * steps, vocabulary, draw),
  // All positions of attention count, as the peers compute them all; the embedding is looked up, and so is no product.
  flops: ({ batch, steps, layers, width, vocabulary }) =>
    batch * steps * 6 * (layers * (12 * width * width + 2 * steps * width) + vocabulary * width),
};

const blockParameters = (name: string, width: number): ParameterShape[] => [
  ...layer(`${name}.norm1`, [width]),
  [`${name}.self_attn.in_proj_weight`, [3 * width, width]],
  [`${name}.self_attn.in_proj_bias`, [3 * width]],
  ...layer(`${name}.self_attn.out_proj`, [width, width]),
  ...layer(`${name}.norm2`, [width]),
  ...layer(`${name}.linear1`, [4 * width, width]),
  ...layer(`${name}.linear2`, [width, 4 * width]),
];
