/**
 * LeNet from Caffe's files, trained on MNIST: two texts declare the network, the solver and its rates.
 *
 *     npx heddle run examples/caffe-lenet.ts              # 400 of the solver's 10,000 iterations: 96 % of 2,000 test images, 12 s
 *     FULL=1 npx heddle run examples/caffe-lenet.ts       # all of them: 99.1 % of the 10,000 test images, 240 s
 */
import { fileURLToPath } from "node:url";
import { data, io, train } from "heddle";

const folder = fileURLToPath(new URL("caffe/", import.meta.url));
const lenet = await io.loadCaffe(`${folder}lenet_solver.prototxt`);

const full = process.env["FULL"] === "1";
const images = full ? data.mnist("train").shuffle() : data.mnist("train").take(12800).shuffle();
const batches = lenet.prepare(images, "train");

const result = await train({
  model: lenet.model,
  data: batches,
  loss: lenet.loss!,
  metrics: lenet.metrics,
  optimizer: lenet.optimizer,
  evaluate: lenet.prepare(full ? data.mnist("test") : data.mnist("test").take(2000), "test"),
  epochs: full ? lenet.epochs(batches) : 2,
});
result.print(`accuracy on the test images: ${(100 * result.accuracy!).toFixed(2)} %`);
