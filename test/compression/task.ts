/** The training that the tests of compression compare: uncompressed with compressed, one device with several. */
import { nn, optim, replicate, type Tensor, type TrainOptions, train } from "heddle";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { bars, options } from "../train/synthetic.ts";

export const perceptron = (): nn.Layer =>
  nn.sequential(nn.flatten(), nn.linear(16), nn.relu(), nn.linear(32), nn.relu(), nn.dropout(0.25), nn.linear(3));
export const task = (more: Partial<TrainOptions>): TrainOptions =>
  options({
    model: perceptron(),
    data: bars(48).shuffle().batch(16),
    optimizer: optim.sgd({ learningRate: 0.1 }),
    dtype: "f64",
    epochs: 1,
    executor: missing === undefined ? "native" : "reference",
    ...more,
  });

/** All trained values, in order. */
export async function paramsOf(more: Partial<TrainOptions>): Promise<number[]> {
  const { params } = await train(task(more));
  const { leaves } = flattenTree(params, isTensor);
  const values = await Promise.all(
    leaves.map(async (leaf: Tensor) => Array.from((await replicate(leaf).data()) as Float64Array)),
  );
  return values.flat();
}
