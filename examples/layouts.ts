/**
 * One network, spread in three ways without a change to the model:
 *
 *     npx heddle run examples/layouts.ts --workers 2 --mesh data=2             # parameters in parts, gathered for each use
 *     npx heddle run examples/layouts.ts --workers 2 --mesh model=2            # two layers split by columns, then rows
 *     npx heddle run examples/layouts.ts --workers 4 --mesh data=2,model=2     # both
 *     npx heddle plan examples/layouts.ts --mesh data=2,model=2                # what each of four devices would hold
 */
import { data, layouts, losses, nn, optim, train } from "heddle";

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
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(64), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  data: dataset.shuffle().batch(50),
  evaluate: dataset,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 20,
  layout: [
    // The second layer by the features it makes, the third by those it takes: one all-reduce for both, each way.
    layouts.named({ "2.weight": { model: 0 }, "2.bias": { model: 0 }, "4.weight": { model: 1 } }),
    // All other parameters in parts over the axis data, with their gradients and optimizer state.
    layouts.fullySharded("data"),
  ],
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the points are on the spiral that the model says`);
