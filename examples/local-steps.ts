/**
 * Workers that meet seldom: gradients in every step, the mean of parameters after 10 steps (local SGD), and DiLoCo, which takes what 20 steps have changed
 * for a gradient. Bytes that a worker sends in a step, and the accuracy on the test images of MNIST.
 *
 *     npx heddle run examples/local-steps.ts --workers 2               # 3 trainings of 3 epochs on 12,000 images; 60 s
 *     npx heddle run examples/local-steps.ts --workers 2 -- --small    # 1 epoch on 2,000 images; 20 s
 */
import { data, losses, nn, optim, type TrainOptions, train } from "heddle";

const small = process.argv.includes("--small");
const images = data
  .mnist("train")
  .take(small ? 2000 : 12000)
  .shuffle()
  .batch(100);
const diloco = optim.sgd({ learningRate: 0.7, momentum: 0.9, nesterov: true });

const ways: readonly [string, TrainOptions["localSteps"]][] = [
  ["gradients in every step", undefined],
  ["local SGD, 10 steps", { steps: 10 }],
  ["DiLoCo, 20 steps", { steps: 20, outer: diloco }],
];

for (const [name, localSteps] of ways) {
  const result = await train({
    model: nn.sequential(nn.flatten(), nn.linear(100), nn.relu(), nn.linear(10)),
    data: images,
    evaluate: data.mnist("test"),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.sgd({ learningRate: 0.05, momentum: 0.9 }),
    epochs: small ? 1 : 3,
    report: "silent",
    ...(localSteps === undefined ? {} : { localSteps }),
  });
  result.print(
    `${name.padEnd(24)}${String(result.sentBytes).padStart(7)} bytes a step; ${(100 * result.accuracy!).toFixed(1)} %`,
  );
}
