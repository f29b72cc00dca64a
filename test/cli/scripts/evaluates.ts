/** Trains on batches of four rows, 18 in all, and evaluates batches of 256: the evaluation needs the most memory. */
import { data, losses, nn, optim, train } from "heddle";

const dataset = (rows: number): data.Dataset =>
  data.fromArrays({
    x: { shape: [rows, 8], data: Float32Array.from({ length: 8 * rows }, (_unused, index) => index / rows) },
    y: { shape: [rows], data: new Int32Array(rows) },
  });
await train({
  model: nn.sequential(nn.linear(64), nn.tanh(), nn.linear(64), nn.tanh(), nn.linear(2)),
  data: dataset(18).batch(4),
  evaluate: dataset(300).batch(256),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.1 }),
  epochs: 1,
  report: "lines",
});
