/** @module A network that hand-written steps train to the same numbers in a browser and in Node. */
import { data, deviceRuntime, jit, losses, nn, optim, random, type Tensor, tensor, valueAndGrad } from "heddle";
import { classes, spirals } from "./spirals.ts";

/** Losses of each epoch's last step, and the executor that made them. */
export async function trained(): Promise<{ readonly executor: string; readonly losses: readonly number[] }> {
  const dataset = spirals().shuffle().batch(20);
  const model = nn.sequential(nn.linear(16), nn.tanh(), nn.dropout(0.1), nn.linear(classes));
  const optimizer = optim.adam({ learningRate: 0.05 });
  let { params } = model.init(random.key(1), { shape: [20, 2], dtype: "f32" });
  let state = optimizer.init(params);
  type Params = typeof params;
  type State = typeof state;
  const step = jit(
    (given: Params, held: State, x: Tensor, y: Tensor, key: Tensor, count: Tensor) => {
      const { value, grad } = valueAndGrad((own: Params) =>
        losses.softmaxCrossEntropy(model.apply({ params: own, state: {} }, x, { train: true, key }).y, y),
      )(given);
      return { ...optimizer.update(grad, held, given, { step: count }), loss: value };
    },
    { donate: [0, 1] },
  );
  const told: number[] = [];
  let count = 0;
  for (let epoch = 0; epoch < 30; epoch++) {
    let loss = Number.NaN;
    for await (const { x, y } of data.batches(dataset, { epoch })) {
      const key = random.foldIn(random.key(2), count);
      const next = step(params, state, x, y, key, tensor(count++, { dtype: "i32" }));
      ({ params, state } = next);
      loss = await next.loss.item();
    }
    told.push(loss);
  }
  return { executor: deviceRuntime().executor.name, losses: told };
}
