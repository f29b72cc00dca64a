/**
 * The convnet for CIFAR-10 of Keras's examples, with `compile` and `fit`: four convolutions, two poolings, dropout, RMSProp. No
 * package ships CIFAR-10 or Fashion-MNIST, so it reads MNIST; with the four files of Fashion-MNIST in a folder, `HEDDLE_DATA=folder`
 * trains on that.
 *
 *     npx heddle run examples/keras-convnet.ts                # 2 epochs: 98.1 % of the test images, 160 s
 *     npx heddle run examples/keras-convnet.ts -- --small     # 1,280 images, 10 times the learning rate
 */
import { data, keras, nn, optim } from "heddle";

const small = process.argv.includes("--small");

// biome-ignore format: a line for each stage
const model = keras.model(nn.sequential(
  nn.conv2d({ out: 32, kernel: 3, padding: "same" }), nn.relu(),
  nn.conv2d({ out: 32, kernel: 3 }), nn.relu(), nn.maxPool2d(2), nn.dropout(0.25),
  nn.conv2d({ out: 64, kernel: 3, padding: "same" }), nn.relu(),
  nn.conv2d({ out: 64, kernel: 3 }), nn.relu(), nn.maxPool2d(2), nn.dropout(0.25),
  nn.flatten(), nn.linear(512), nn.relu(), nn.dropout(0.5), nn.linear(10), nn.softmax(),
));

model.compile({
  // Keras's decay: the learning rate is divided by 1 + 1e-6 · step.
  optimizer: optim.rmsProp({
    learningRate: (step) => (small ? 1e-3 : 1e-4) / (1 + 1e-6 * step),
    alpha: 0.9,
    epsilon: 1e-7,
  }),
  loss: "sparseCategoricalCrossEntropy",
  metrics: ["accuracy"],
});

const [images, test] = [data.mnist("train"), data.mnist("test")];
await model.fit((small ? images.take(1280) : images).shuffle(), {
  batchSize: 32,
  epochs: small ? 1 : 2,
  ...(small ? {} : { validationData: test }),
});

const { accuracy = 0 } = await model.evaluate(small ? test.take(200) : test, { batchSize: 100 });
if ((process.env["RANK"] ?? "0") === "0") console.log(`accuracy on the test images: ${(100 * accuracy).toFixed(2)} %`);
