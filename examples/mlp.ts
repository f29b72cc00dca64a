/**
 * A multilayer perceptron learns to tell two spirals apart: the smallest whole program, on data made up here.
 *
 *     npx heddle run examples/mlp.ts
 */
import { data, losses, nn, optim, train } from "heddle";

/** Points on two spirals that wind around each other, and which of them each is on. */
function spirals(count: number): { points: Float32Array; labels: Int32Array } {
  const points = new Float32Array(2 * count);
  const labels = new Int32Array(count);
  for (let index = 0; index < count; index++) {
    const label = index % 2;
    const distance = 0.1 + (0.9 * index) / count;
    const angle = 6 * distance + Math.PI * label;
    points.set([distance * Math.cos(angle), distance * Math.sin(angle)], 2 * index);
    labels[index] = label;
  }
  return { points, labels };
}

const { points, labels } = spirals(1000);
const dataset = data.fromArrays({
  x: { shape: [1000, 2], data: points },
  y: { shape: [1000], data: labels },
});

const result = await train({
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  data: dataset.shuffle().batch(50),
  evaluate: dataset,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 20,
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the points are on the spiral that the model says`);
