/**
 * One network, split in three ways without a change to the model; each classifies 100 % of the points, in 4 s:
 *
 *     npx heddle run examples/layouts.ts --workers 2 --mesh data=2             # parameters in parts, gathered for each use
 *     npx heddle run examples/layouts.ts --workers 2 --mesh model=2            # two layers split by columns, then rows
 *     npx heddle run examples/layouts.ts --workers 4 --mesh data=2,model=2     # both
 *     npx heddle plan examples/layouts.ts --mesh data=2,model=2                # the memory of each of four devices
 */
import { layouts, losses, nn, optim, train } from "heddle";
import { spirals } from "./spirals.ts";

const dataset = spirals(1000);

const result = await train({
  model: nn.sequential(nn.linear(32), nn.tanh(), nn.linear(64), nn.tanh(), nn.linear(32), nn.tanh(), nn.linear(2)),
  data: dataset.shuffle().batch(50),
  evaluate: dataset,
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 20,
  layout: [
    // The second layer is split by its output features, the third by its input features: one all-reduce for both, in each direction.
    layouts.named({ "2.weight": { model: 0 }, "2.bias": { model: 0 }, "4.weight": { model: 1 } }),
    // All other parameters, their gradients and optimizer state are split over the axis data.
    layouts.fullySharded("data"),
  ],
});

result.print(`${(100 * result.accuracy!).toFixed(1)} % of the points are on the spiral that the model says`);
