/**
 * @module The trainings whose plans are compared. Their numbers mean nothing, as nothing but time is asked for. Each has a layout over
 * the axis `model`, by columns and then rows, which a mesh without that axis passes over.
 */
import { data, layouts, losses, nn, optim, type TrainOptions } from "heddle";

const rows = 512;

/** So many numbers of a range. */
const numbers = <Numbers extends Float32Array | Int32Array>(into: Numbers, range: number): Numbers => {
  for (let index = 0; index < into.length; index++) into[index] = (((index * 2654435761) >>> 8) % 997) % range;
  return into;
};

const images = { shape: [rows, 1, 28, 28], data: numbers(new Float32Array(rows * 784), 2) };
const classes = { shape: [rows], data: numbers(new Int32Array(rows), 10) };
const length = 64;
const tokens = { shape: [rows, length], data: numbers(new Int32Array(rows * length), 256) };
const columns = (...names: string[]): { [parameter: string]: { model: number } } =>
  Object.fromEntries(names.flatMap((name) => [`${name}.weight`, `${name}.bias`]).map((name) => [name, { model: 0 }]));
const byRows = (...names: string[]): { [parameter: string]: { model: number } } =>
  Object.fromEntries(names.map((name) => [`${name}.weight`, { model: 1 }]));

const block = { heads: 4, dropout: 0, rotary: true };
const common = {
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 1e-3, momentum: 0.9 }),
  epochs: 1000,
  report: "silent",
} as const;

/** By name. */
export const trainings: { readonly [name: string]: TrainOptions } = {
  mlp: {
    ...common,
    model: nn.sequential(nn.flatten(), nn.linear(512), nn.relu(), nn.linear(512), nn.relu(), nn.linear(10)),
    data: data.fromArrays({ x: images, y: classes }).batch(128),
    layout: layouts.named({ ...columns("1"), ...byRows("3") }),
  },
  lenet: {
    ...common,
    model: nn.sequential(
      nn.conv2d({ out: 32, kernel: 5, padding: "same" }),
      nn.relu(),
      nn.maxPool2d(2),
      nn.conv2d({ out: 64, kernel: 5, padding: "same" }),
      nn.relu(),
      nn.maxPool2d(2),
      nn.flatten(),
      nn.linear(512),
      nn.relu(),
      nn.linear(10),
    ),
    data: data.fromArrays({ x: images, y: classes }).batch(64),
    layout: layouts.named({ ...columns("0"), ...byRows("3") }),
  },
  gpt: {
    ...common,
    model: nn.sequential(
      nn.embedding(256, 192),
      nn.decoderBlock(block),
      nn.decoderBlock(block),
      nn.layerNorm(),
      nn.linear(256),
    ),
    data: data.fromArrays({ x: tokens, y: tokens }).batch(16),
    layout: layouts.named({ ...columns("*.linear1"), ...byRows("*.linear2") }),
  },
};
