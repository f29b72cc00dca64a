/**
 * Softmax regression on MNIST: one linear layer, a falling learning rate, about 92 % of the digits.
 *
 *     npx heddle run examples/softmax-regression.ts --workers 2     # 5 epochs: 92.2 % of the test images, 11 s; 7 s in one process
 */
import { data, losses, nn, optim, train } from "heddle";

const result = await train({
  model: nn.sequential(nn.flatten(), nn.linear(10)),
  data: data.mnist("train").shuffle().batch(100),
  evaluate: data.mnist("test"),
  loss: losses.softmaxCrossEntropy,
  // A schedule is a function of the step; 600 steps are an epoch.
  optimizer: optim.sgd({ learningRate: (step) => 0.5 * 0.6 ** Math.floor(step / 600) }),
  epochs: 5,
});

result.print(`accuracy on the test images: ${(100 * result.accuracy!).toFixed(2)} %`);
