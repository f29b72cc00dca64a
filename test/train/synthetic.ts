/** @module Small made-up data and models for the training tests. */
import { data, losses, nn, optim, type TrainOptions } from "heddle";

/** A stream of numbers in [0, 1) that is the same everywhere. */
function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Gray images of bars: class 0 lies, class 1 stands, class 2 is a block; with noise. */
export function bars(count: number, options: { seed?: number; size?: number } = {}): data.Dataset {
  const { seed = 1, size = 8 } = options;
  const next = numbers(seed);
  const x = new Uint8Array(count * size * size);
  const y = new Uint8Array(count);
  for (let image = 0; image < count; image++) {
    const label = Math.floor(next() * 3);
    const [row, column] = [1 + Math.floor(next() * (size - 3)), 1 + Math.floor(next() * (size - 3))];
    y[image] = label;
    for (let pixel = 0; pixel < size * size; pixel++) {
      const [dy, dx] = [Math.floor(pixel / size) - row, (pixel % size) - column];
      const lit = label === 0 ? dy === 0 : label === 1 ? dx === 0 : dy >= 0 && dy < 2 && dx >= 0 && dx < 2;
      x[image * size * size + pixel] = (lit ? 180 : 0) + Math.floor(next() * 60);
    }
  }
  return data.fromArrays(
    {
      x: { shape: [count, 1, size, size], data: x, transform: { dtype: "f32", scale: 1 / 255 } },
      y: { shape: [count], data: y, transform: { dtype: "i32" } },
    },
    { name: "bars" },
  );
}

/** A small convnet with dropout. */
export const convnet = (): nn.Layer =>
  nn.sequential(
    nn.conv2d({ out: 3, kernel: 3, padding: "same" }),
    nn.relu(),
    nn.maxPool2d(2),
    nn.flatten(),
    nn.linear(8),
    nn.relu(),
    nn.dropout(0.25),
    nn.linear(3),
  );

/** A linear model, the fastest that learns anything. */
export const linear = (): nn.Layer => nn.sequential(nn.flatten(), nn.linear(3));

/** Options that most tests share; the reference executor needs no native core. */
export function options(more: Partial<TrainOptions> = {}): TrainOptions {
  return {
    model: linear(),
    data: bars(60).shuffle().batch(16),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.sgd({ learningRate: 0.2, momentum: 0.9, nesterov: true }),
    epochs: 2,
    executor: "reference",
    report: "silent",
    ...more,
  };
}
