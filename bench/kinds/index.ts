/** @module Kinds of workloads: shapes, arithmetic, and the inputs and initial weights that all peers start from. */
import {
  type ChainSizes,
  chain,
  type EagerSizes,
  eager,
  type GemmSizes,
  gemm,
  type ReduceSizes,
  reduce,
} from "./functions.ts";
import {
  type InferSizes,
  type Int8Sizes,
  infer,
  int8,
  type LeNetSizes,
  lenet,
  type MlpSizes,
  mlp,
  type ResnetSizes,
  resnet,
} from "./images.ts";
import { count, type Kind, type ParameterShape, randomNumbers } from "./kind.ts";
import { type LinalgSizes, linalg } from "./linalg.ts";
import { type GptSizes, gpt, type LstmSizes, lstm } from "./sequences.ts";
import { type EmbeddingSizes, type EmbedSizes, embed, embedding } from "./tables.ts";

export type { ChainSizes, EagerOperation, EagerSizes, GemmSizes, ReduceOperation, ReduceSizes } from "./functions.ts";
export type { InferSizes, Int8Sizes, LeNetSizes, MlpSizes, ResnetSizes } from "./images.ts";
export type { ParameterShape } from "./kind.ts";
export type { LinalgProblem, LinalgSizes } from "./linalg.ts";
export type { GptSizes, LstmSizes } from "./sequences.ts";
export type { EmbeddingSizes, EmbedSizes } from "./tables.ts";

export type TrainingSizes = MlpSizes | LeNetSizes | EmbeddingSizes | LstmSizes | GptSizes | ResnetSizes | EmbedSizes;
export type Sizes =
  | TrainingSizes
  | InferSizes
  | Int8Sizes
  | ChainSizes
  | GemmSizes
  | ReduceSizes
  | EagerSizes
  | LinalgSizes;

const kinds: { readonly [Name in Sizes["kind"]]: Kind<Extract<Sizes, { readonly kind: Name }>> } = {
  mlp,
  lenet,
  embedding,
  embed,
  resnet,
  lstm,
  gpt,
  infer,
  int8,
  chain,
  gemm,
  reduce,
  eager,
  linalg,
};

const kindOf = (sizes: Sizes): Kind<Sizes> => kinds[sizes.kind] as Kind<Sizes>;

/** Parameters in the order of the data file. */
export const parameterShapes = (sizes: Sizes): ParameterShape[] => kindOf(sizes).parameters?.(sizes) ?? [];

/** Inputs of a step that are f32, in the order of the data file. */
export const inputShapes = (sizes: Sizes): ParameterShape[] => kindOf(sizes).inputs(sizes);

/** Inputs of a step that are i32, such as labels, in the order of the data file. */
export const integerShapes = (sizes: Sizes): ParameterShape[] => kindOf(sizes).integers?.(sizes) ?? [];

/** Floating-point operations of a step's matrix products and convolutions: of a training forward, by the weights, by the inputs. */
export const matrixFlops = (sizes: Sizes): number => kindOf(sizes).flops?.(sizes) ?? 0;

/** Bytes that must cross memory, of the workloads that memory can bound: inputs read once, outputs written once. */
export const compulsoryBytes = (sizes: Sizes): number => kindOf(sizes).bytes?.(sizes) ?? 0;

/** Parameters, then inputs, as f32 one after another, then integers as i32: the same bytes for every peer. */
export function workloadData(sizes: Sizes): Uint8Array {
  const { value, classes, drawIntegers } = kindOf(sizes);
  const draw = randomNumbers(1);
  const parts: Float32Array[] = [];
  let weight: readonly number[] = [];
  for (const [name, shape] of parameterShapes(sizes)) {
    // A bias takes the values that its weight, which is before it, asks for.
    const isWeight = /\.\w*weight\w*$/.test(name);
    if (isWeight) weight = shape;
    parts.push(initialValues(shape, weight, isWeight, draw));
  }
  const integers = drawIntegers?.(sizes, draw) ?? new Int32Array();
  for (const [, shape] of inputShapes(sizes)) {
    const values = floats(shape, draw);
    if (classes !== undefined) parts.push(withPattern(values, integers, classes(sizes)));
    else parts.push(value === undefined ? values : values.map(value));
  }
  return Buffer.concat([...parts, integers].map((part) => Buffer.from(part.buffer)));
}

/** PyTorch's initial values of layers: a norm, whose weight is a vector, is the identity. */
function initialValues(
  shape: readonly number[],
  weight: readonly number[],
  isWeight: boolean,
  draw: () => number,
): Float32Array {
  if (weight.length === 1) return floats(shape, () => (isWeight ? 1 : 0));
  const bound = 1 / Math.sqrt(count(weight.slice(1)));
  return floats(shape, () => bound * (2 * draw() - 1));
}

/** Fills an array in a loop, as `Float32Array.from` takes seconds for a large table. */
function floats(shape: readonly number[], draw: () => number): Float32Array {
  const values = new Float32Array(count(shape));
  for (let index = 0; index < values.length; index++) values[index] = draw();
  return values;
}

/** Noise with every `classes`-th value brighter, starting at the label: a pattern to learn, so that losses fall. */
function withPattern(noise: Float32Array, labels: Int32Array, classes: number): Float32Array {
  const perRow = noise.length / labels.length;
  return noise.map((value, index) => {
    const bright = (index % perRow) % classes === labels[Math.floor(index / perRow)];
    return 0.5 * value + (bright ? 0.5 : 0);
  });
}
