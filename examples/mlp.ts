/**
 * A multilayer perceptron learns to tell two spirals apart: the smallest whole program, on made-up data.
 *
 *     npx heddle run examples/mlp.ts     # 20 epochs: 100 % of the points, 4 s
 */
import { losses, nn, optim, train } from "heddle";
import { spirals } from "./spirals.ts";

const dataset = spirals(1000);

const result = await train({
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  data: dataset.shuffle().batch(50),
  evaluate: dataset,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 20,
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the points are on the spiral that the model says`);
