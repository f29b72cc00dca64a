/** @module What `train` gives the same in a browser and in Node, and what it refuses in a browser. */
import {
  callbacks,
  distributedStep,
  losses,
  metrics,
  nn,
  optim,
  type Tensor,
  type Tensors,
  type TrainOptions,
  train,
  valueAndGrad,
  zeros,
} from "heddle";
import { exportWeights } from "heddle/train";
import { classes, spirals } from "./spirals.ts";

const epochs = 40;

const options = (): TrainOptions => ({
  model: nn.sequential(nn.linear(16), nn.tanh(), nn.dropout(0.1), nn.linear(classes)),
  data: spirals().shuffle().batch(16),
  evaluate: spirals(0.2),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.05 }),
  metrics: { accuracy: metrics.accuracy, topK: metrics.topK(2) },
  epochs,
  seed: 7,
});

/** The bits of all weights, by name. */
async function bitsOf(values: { readonly params: Tensors; readonly state: Tensors }) {
  const weights = await exportWeights(values);
  return [...weights].map(([name, { data }]) => [
    name,
    [...new Uint32Array((data as Float32Array).buffer.slice(0), 0, data.length)],
  ]);
}

/** A training that stops early, with metrics, a validation, callbacks and snapshots; without times, which differ. */
export async function trained() {
  const losses: number[] = [];
  const snapshots: number[] = [];
  const result = await train({
    ...options(),
    report: "lines",
    callbacks: [
      callbacks.reduceLROnPlateau({ patience: 2 }),
      callbacks.earlyStopping({ monitor: "val_loss", patience: 4, restoreBest: true }),
      {
        onStep: ({ loss }) => void losses.push(loss),
        onEpoch: async (_record, control) => {
          const snapshot = control.snapshot();
          snapshots.push((await snapshot.evaluate(spirals(-0.2))).loss);
          snapshot.dispose();
        },
      },
    ],
  });
  const history = result.history.map(({ seconds: _seconds, examplesPerSecond: _rate, ...record }) => record);
  return {
    epochs,
    history,
    losses,
    snapshots,
    steps: result.steps,
    weights: await bitsOf(result),
    outputs: [...(await (await result.predict(spirals(0.1))).data())],
    evaluation: await result.evaluate(spirals(0.1)),
  };
}

const step = ({ w }: { readonly w: Tensor }, { x }: { readonly x: Tensor; readonly y: Tensor }) => {
  const { value, grad } = valueAndGrad((weights: Tensor) => x.matmul(weights).sub(x.sum(1)).pow(2).mean())(w);
  return { state: { w: w.sub(grad.mul(0.1)) }, loss: value };
};

/** The losses of a hand-written step that `distributedStep` runs. */
export async function stepped(): Promise<number[]> {
  const loop = await distributedStep({ state: { w: zeros([2]) }, step });
  const told: number[] = [];
  for await (const batch of loop.batches(spirals().batch(20))) told.push(await (await loop.run(batch)).loss.item());
  return told;
}

/** The messages with which a browser refuses what needs files. */
export async function refused(): Promise<{ readonly [what: string]: string }> {
  const result = await train({ ...options(), epochs: 1, report: "silent" });
  const loop = await distributedStep({ state: { w: zeros([2]) }, step });
  const attempts: { readonly [what: string]: () => unknown } = {
    checkpoint: () => train({ ...options(), checkpoint: { directory: "checkpoints" } }),
    resume: () => train({ ...options(), resume: "checkpoints" }),
    csvLogger: () => callbacks.csvLogger({ path: "log.csv" }),
    modelCheckpoint: () => callbacks.modelCheckpoint({ path: "best.safetensors" }),
    tensorBoard: () => callbacks.tensorBoard(),
    "result.save": () => result.save("model.safetensors"),
    "distributedStep.save": () => loop.save("state.safetensors"),
    "distributedStep.load": () => loop.load("state.safetensors"),
  };
  const messages: [string, string][] = [];
  for (const [what, attempt] of Object.entries(attempts)) {
    try {
      await attempt();
      messages.push([what, "nothing was refused"]);
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      messages.push([what, `${code}: ${message}`]);
    }
  }
  return Object.fromEntries(messages);
}
