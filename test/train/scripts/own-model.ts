/** @module A loop of one's own over layers with a state that changes while they train, and with random numbers. */
import { type DistributedStepOptions, distributedStep, losses, nn, optim, type Tensor, valueAndGrad } from "heddle";
import { bars } from "../synthetic.ts";

export const model = nn.sequential(
  nn.flatten(),
  nn.linear(8),
  nn.batchNorm(),
  nn.relu(),
  nn.dropout(0.2),
  nn.linear(3),
);
export const optimizer = optim.adam({ learningRate: (step) => 0.02 / (step + 1) });
export const rows = bars(40).shuffle().batch(12);

/** What a training would do with the same model, data and optimizer. */
export async function ownLoop(
  { params: first, state }: nn.Variables<nn.ParamsOf<typeof model>>,
  more: Pick<DistributedStepOptions<never, never, never, never>, "mesh" | "layout" | "compression"> = {},
) {
  return distributedStep({
    ...more,
    state: { params: first, layers: state, slots: optimizer.init(first) },
    numbers: { learningRate: optimizer.learningRate },
    step: ({ params, layers, slots }, { x, y }, { step, key, learningRate, exchange }) => {
      const loss = (own: typeof params): readonly [Tensor, typeof layers] => {
        const made = model.apply({ params: own, state: layers }, x, { train: true, key });
        return [losses.softmaxCrossEntropy(made.y, y), made.state];
      };
      const { value, grad } = valueAndGrad(loss)(params);
      const updated = optimizer.update(exchange(grad), slots, params, { step, learningRate });
      return { state: { params: updated.params, layers: value[1], slots: updated.state }, loss: value[0] };
    },
  });
}

/** The losses of the steps of epochs, by their orders. */
export async function lossesIn(loop: Awaited<ReturnType<typeof ownLoop>>, ...epochs: number[]): Promise<number[]> {
  const found: number[] = [];
  for (const epoch of epochs)
    for await (const batch of loop.batches(rows, { epoch })) found.push(await (await loop.run(batch)).loss.item());
  return found;
}
