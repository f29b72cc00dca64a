/** @module A training of small steps that says when each ends, for `bench/recovery.ts`. */
import { data, losses, nn, optim, train } from "heddle";

const rows = 12_800;
const x = Float32Array.from({ length: rows * 784 }, (_unused, index) => ((index * 2_654_435_761) % 997) / 997);
const y = Int32Array.from({ length: rows }, (_unused, row) => row % 10);
console.log(`pid ${process.pid}`);
await train({
  model: nn.sequential(nn.linear(512), nn.relu(), nn.linear(512), nn.relu(), nn.linear(10)),
  data: data.fromArrays({ x: { shape: [rows, 784], data: x }, y: { shape: [rows], data: y } }).batch(128),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.01, momentum: 0.9 }),
  epochs: 1000,
  report: "silent",
  callbacks: [{ onStep: ({ step }) => console.log(`step ${step}`) }],
});
