/** Trains on data of which one batch has NaN, and leaves the batch out. */
import { data, losses, nn, optim, train } from "heddle";

const y = Float32Array.from({ length: 64 }, (_unused, row) => (row >= 24 && row < 32 ? Number.NaN : row / 64));
const result = await train({
  model: nn.linear(1),
  data: data
    .fromArrays({ x: { shape: [64, 1], data: y.map((_unused, row) => row / 64) }, y: { shape: [64, 1], data: y } })
    .batch(8),
  loss: losses.mse,
  optimizer: optim.sgd({ learningRate: 0.1 }),
  epochs: 1,
  nan: "rollback",
  rollback: 2,
  report: "lines",
});
result.print(`trained ${result.steps} steps`);
