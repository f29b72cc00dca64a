/**
 * A convnet that reads handwritten digits, trained on all 60,000 images of MNIST.
 *
 *     npx heddle run examples/mnist.ts --workers 2      # 3 epochs: 99.1 % of the test images, 225 s; without --workers, one process
 *     npx heddle plan examples/mnist.ts --mesh data=2   # what the workers would share, before anything runs
 */
import { confusionTable, data, deviceRuntime, drawImages, losses, nn, optim, train } from "heddle";

// Without the native core the reference executor would take hours for the convnet: a smaller model, fewer images.
const small = deviceRuntime().executor.name === "reference";

// biome-ignore format: a line for each stage
const convnet = nn.sequential(
  nn.conv2d({ out: 32, kernel: 5, padding: "same" }), nn.relu(), nn.maxPool2d(2),
  nn.conv2d({ out: 64, kernel: 5, padding: "same" }), nn.relu(), nn.maxPool2d(2),
  nn.flatten(), nn.linear(512), nn.relu(), nn.dropout(0.5), nn.linear(10),
);
const perceptron = nn.sequential(nn.flatten(), nn.linear(32), nn.relu(), nn.linear(10));

const images = data.mnist("train");
const test = small ? data.mnist("test").take(1000) : data.mnist("test");

const epochs = small ? 6 : 3;
const batches = (small ? images.take(6000) : images).shuffle().batch(128);
// Large steps first, then ever smaller ones: the same accuracy in half the epochs of a constant rate.
const falling = optim.schedules.cosine({ learningRate: 0.05, totalSteps: epochs * batches.batchesPerEpoch });

const result = await train({
  model: small ? perceptron : convnet,
  data: batches,
  evaluate: test,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: small ? 0.1 : falling, momentum: 0.9, nesterov: true }),
  epochs,
  checkpoint: { directory: small ? "checkpoints/mnist-small" : "checkpoints/mnist" },
});

const outputs = await result.predict(test);
const answers = await outputs.argMax().data();
const certainty = await outputs.softmax().max(-1).data();
const labels = (await test.columns.get("y")!.load()).subarray(0, test.length);
const pixels = await test.columns.get("x")!.load();

// Two digits that the model reads correctly, and one that it misreads.
const right = answers.findIndex((answer, index) => answer === labels[index]);
const next = answers.findIndex((answer, index) => answer === labels[index] && answer !== answers[right]);
const wrong = answers.findIndex((answer, index) => answer !== labels[index]);
const shown = [right, next, wrong]
  .filter((index) => index >= 0)
  .map((index) => ({
    pixels: pixels.subarray(784 * index, 784 * (index + 1)),
    caption: `a ${labels[index]}; read as ${answers[index]}, ${(100 * certainty[index]!).toFixed(1)} % sure`,
  }));

result.print(`
${small ? "The reference executor trained a small perceptron on 6,000 images; the native core trains the convnet on 60,000.\n" : ""}
Accuracy on ${test.length.toLocaleString("en")} test images: ${(100 * result.accuracy!).toFixed(2)} %

Digits (rows) and what they were read as (columns):

${confusionTable(labels, answers)}

${drawImages(shown, 28, 28)}

The weights are in ${result.checkpoint} (safetensors).

Three things to try next:
  npx heddle run examples/mnist.ts --workers 1       the same answer from one process
  npx heddle plan examples/mnist.ts --mesh data=64   the plan for 64 devices, which need not exist
  npx heddle run examples/eager.ts                   tensors and gradients, line by line`);
