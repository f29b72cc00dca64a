/**
 * A pipeline, for networks too large for one worker: the layers are on two stages, and parts of a batch pass through the stages
 * one after another. The model and the loss do not change.
 *
 *     npx heddle run examples/pipeline.ts --workers 2       # a stage in each process
 *     npx heddle run examples/pipeline.ts                   # both stages in one process, for a look: 100 % of the points, 5 s
 *     npx heddle plan examples/pipeline.ts --mesh stage=2   # stages, schedule and traffic, before anything runs
 */
import { losses, nn, optim, train } from "heddle";
import { spirals } from "./spirals.ts";

const dataset = spirals(1000);

const result = await train({
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  // The first two linear layers, children 0 and 2 of the model, are on stage 0; layers without parameters follow them.
  pipeline: { stages: { 0: 0, 2: 0, 4: 1, 6: 1 }, microBatches: 4, schedule: "1f1b" },
  data: dataset.shuffle().batch(40),
  evaluate: dataset,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 20,
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the points are on the spiral that the model says`);
