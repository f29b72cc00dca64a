/** Calls `train` on 12 rows; under `heddle plan` that gives a plan. It prints something before. */
import { data, losses, nn, optim, train } from "heddle";

console.log("before train");
if (process.argv.includes("lines")) process.emitWarning("something");
const x = { shape: [24, 4], data: Float32Array.from({ length: 96 }, (_unused, index) => index / 96) };
const y = { shape: [24], data: new Int32Array(24) };
const result = await train({
  model: nn.sequential(nn.linear(process.argv.includes("wide") ? 512 : 3), nn.relu(), nn.linear(2)),
  data: data.fromArrays({ x, y }).batch(12),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.1, momentum: 0.9 }),
  epochs: 1,
  report: process.argv.includes("lines") ? "lines" : "silent",
});
if (process.argv.includes("wide")) result.print(`sent ${result.sentBytes}`);
