/**
 * Handwritten digits (MNIST) with Keras's `compile`, `fit`, `evaluate` and `predict`.
 *
 *     npx heddle run examples/fit.ts                  # 98.1 % of the test images; early stopping after 21 epochs; 45 s
 *     npx heddle run examples/fit.ts --workers 2      # two processes, other roundings: 98.0 % after 18 epochs
 *     npx heddle run examples/fit.ts -- --small       # a tenth of the images: seconds
 *
 * Curves are in `fit/` for `tensorboard --logdir fit`, numbers in `fit/log.csv`, the best weights in `fit/best.safetensors`.
 */
import { callbacks, data, keras, nn } from "heddle";

const small = process.argv.includes("--small");
const images = data.mnist("train").shuffle({ reshuffle: false });
const validation = images.take(small ? 1000 : 5000);
const training = small ? images.skip(54_000) : images.skip(5000);

const model = keras.model(
  nn.sequential(nn.flatten(), nn.linear(128), nn.relu(), nn.dropout(0.2), nn.linear(10), nn.softmax()),
  { inputShape: [1, 28, 28] },
);
model.summary();
model.compile({ optimizer: "adam", loss: "sparseCategoricalCrossEntropy", metrics: ["accuracy"] });

const { history } = await model.fit(training.shuffle(), {
  batchSize: 64,
  epochs: small ? 12 : 30,
  validationData: validation,
  callbacks: [
    callbacks.earlyStopping({ monitor: "val_accuracy", patience: 4, restoreBest: true }),
    callbacks.reduceLROnPlateau({ patience: 2, factor: 0.3 }),
    callbacks.modelCheckpoint({ path: "fit/best.safetensors", monitor: "val_accuracy" }),
    callbacks.csvLogger({ path: "fit/log.csv", append: false }),
    callbacks.tensorBoard({ directory: "fit" }),
  ],
});

const test = data.mnist("test").take(small ? 2000 : 10_000);
const { accuracy = 0 } = await model.evaluate(test, { batchSize: 500 });
const certainty = await (await model.predict(test.take(5))).max(-1).data();
if ((process.env["RANK"] ?? "0") === "0") {
  console.log(
    `${history["loss"]?.length} epochs, ${(100 * accuracy).toFixed(2)} % of ${test.length} test images are read right`,
  );
  console.log(`how sure it is of the first: ${Array.from(certainty, (p) => p.toFixed(3)).join(" ")}`);
}
