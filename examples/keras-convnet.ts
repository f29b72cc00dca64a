/**
 * The convnet for CIFAR-10 of Keras's examples: four convolutions, two poolings, dropout, RMSProp. No package ships CIFAR-10 or
 * Fashion-MNIST, so it reads MNIST; with the four files of Fashion-MNIST in a folder, `HEDDLE_DATA=folder` trains on that.
 *
 *     npx heddle run examples/keras-convnet.ts                # 2 epochs: 98.1 % of the test images, 160 s
 *     npx heddle run examples/keras-convnet.ts -- --small     # 1,280 images, 10 times the learning rate
 */
import { data, losses, nn, optim, train } from "heddle";

const small = process.argv.includes("--small");

// biome-ignore format: a line for each stage
const model = nn.sequential(
  nn.conv2d({ out: 32, kernel: 3, padding: "same" }), nn.relu(),
  nn.conv2d({ out: 32, kernel: 3 }), nn.relu(), nn.maxPool2d(2), nn.dropout(0.25),
  nn.conv2d({ out: 64, kernel: 3, padding: "same" }), nn.relu(),
  nn.conv2d({ out: 64, kernel: 3 }), nn.relu(), nn.maxPool2d(2), nn.dropout(0.25),
  nn.flatten(), nn.linear(512), nn.relu(), nn.dropout(0.5), nn.linear(10),
);

const [images, test] = [data.mnist("train"), data.mnist("test")];
const result = await train({
  model,
  data: (small ? images.take(1280) : images).shuffle().batch(32),
  evaluate: small ? test.take(200) : test,
  loss: losses.softmaxCrossEntropy,
  // Keras's decay: the learning rate is divided by 1 + 1e-6 · step.
  optimizer: optim.rmsProp({
    learningRate: (step) => (small ? 1e-3 : 1e-4) / (1 + 1e-6 * step),
    alpha: 0.9,
    epsilon: 1e-7,
  }),
  epochs: small ? 1 : 2,
});

result.print(`accuracy on the test images: ${(100 * result.accuracy!).toFixed(2)} %`);
