/**
 * Gradients that are compressed on their way between two or four workers: the bytes that a worker sends in a step, and the accuracy on the
 * test images of MNIST, for each compressor.
 *
 *     npx heddle run examples/compression.ts --workers 2               # 11 trainings of 3 epochs on 12,000 images; minutes
 *     npx heddle run examples/compression.ts --workers 2 -- --small    # 1 epoch on 2,000 images; 30 s
 */
import { compression, data, losses, nn, optim, type TrainOptions, train } from "heddle";

const small = process.argv.includes("--small");
const images = data
  .mnist("train")
  .take(small ? 2000 : 12000)
  .shuffle()
  .batch(100);
const momentum = 0.9;
const warmup = small ? 0 : 1;
const plain = optim.sgd({ learningRate: 0.05 });
const heavy = optim.sgd({ learningRate: 0.05, momentum });
const { bf16, int8, sign, oneBit, topK, randomK, powerSgd, countSketch, quantiles, sketchMl } = compression;

/** What is compared: how gradients are sent, and the optimizer. Sparse messages take momentum before compression, as DGC does. */
const ways: readonly [string, TrainOptions["compression"], optim.Optimizer][] = [
  ["uncompressed", undefined, heavy],
  ["bf16", bf16(), heavy],
  ["int8", int8(), heavy],
  ["quantiles", quantiles(), heavy],
  ["oneBit", oneBit(), heavy],
  ["sign", sign(), heavy],
  ["powerSgd, rank 2", powerSgd({ rank: 2 }), heavy],
  ["topK, 1 %", { by: topK({ ratio: 0.01 }), momentum, clip: 2, warmup }, plain],
  ["sketchMl, 1 %", { by: sketchMl({ ratio: 0.01 }), momentum, clip: 2, warmup }, plain],
  ["randomK, 10 %", { by: randomK({ ratio: 0.1 }), momentum, clip: 2, warmup }, plain],
  ["countSketch, 1 %", { by: countSketch(), momentum, clip: 2, warmup }, plain],
];

let whole: number | undefined;
for (const [name, how, optimizer] of ways) {
  const result = await train({
    model: nn.sequential(nn.flatten(), nn.linear(100), nn.relu(), nn.linear(10)),
    data: images,
    evaluate: data.mnist("test"),
    loss: losses.softmaxCrossEntropy,
    optimizer,
    epochs: small ? 1 : 3,
    report: "silent",
    ...(how === undefined ? {} : { compression: how }),
  });
  whole ??= result.sentBytes;
  const times = result.sentBytes === 0 ? "" : `, 1 : ${(whole / result.sentBytes).toFixed(1)}`;
  result.print(
    `${name.padEnd(17)}${String(result.sentBytes).padStart(7)} bytes a step${times}; ${(100 * result.accuracy!).toFixed(1)} %`,
  );
}
