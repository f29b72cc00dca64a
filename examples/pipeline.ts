/**
 * A network too deep for one worker, so to say: its layers are on two stages, and parts of a batch pass through them one
 * after the other. The model and the loss are those of any other training.
 *
 *     npx heddle run examples/pipeline.ts --workers 2       # a stage in each process
 *     npx heddle run examples/pipeline.ts                   # both stages in one process, for a look
 *     npx heddle plan examples/pipeline.ts --mesh stage=2   # stages, schedule and traffic, before anything runs
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
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  // The first two linear layers, places 0 and 2 of the model, are on stage 0; what has no parameters follows.
  pipeline: { stages: { 0: 0, 2: 0, 4: 1, 6: 1 }, microBatches: 4, schedule: "1f1b" },
  data: dataset.shuffle().batch(40),
  evaluate: dataset,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 20,
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the points are on the spiral that the model says`);
