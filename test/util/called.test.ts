/** Errors of async functions name the line of the call, also where another function awaits what it gives. */
import { fileURLToPath } from "node:url";
import { data, HeddleError, io, keras, losses, nn, optim, train } from "heddle";
import { expect, test } from "vitest";

/** Awaits on a line of its own, which is no user's mistake. */
async function failureOf(fn: () => Promise<unknown>): Promise<HeddleError> {
  try {
    await fn();
  } catch (error) {
    expect(error).toBeInstanceOf(HeddleError);
    return error as HeddleError;
  }
  throw new Error("nothing failed");
}

const none = "/none/of/these";
const rows = (label: number) =>
  data.fromArrays({
    x: { shape: [4, 2], data: new Float32Array(8) },
    y: { shape: [4], dtype: "i32", data: Int32Array.of(0, 1, label, 1) },
  });
const training = (label: number) => ({
  model: nn.linear(2),
  data: rows(label).batch(2),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.1 }),
  epochs: 1,
  report: "silent" as const,
});
const model = keras.model(nn.linear(2));
model.compile({ optimizer: "sgd", loss: "softmaxCrossEntropy" });

/** The line of the call below. */
let line = 0;
function below(): void {
  line = Number(/called\.test\.ts:(\d+)/.exec(new Error().stack?.split("\n")[2] ?? "")?.[1]) + 1;
}

const failures: { readonly [name: string]: () => Promise<unknown> } = {
  "train, before a step": () => {
    below();
    return train({ ...training(1), epochs: 0.5 });
  },
  "train, in a step": () => {
    below();
    return train(training(9));
  },
  "evaluate of what was trained": async () => {
    const result = await train(training(1));
    const evaluated = (): Promise<unknown> => {
      below();
      return result.evaluate(rows(9));
    };
    await evaluated();
  },
  "fit of a model in Keras' manner": () => {
    below();
    return model.fit(rows(9), { batchSize: 2, verbose: 0 });
  },
  "readNpy, before anything is read": () => {
    below();
    return io.readNpy(none);
  },
  "loadTensors of what is no such file": () => {
    below();
    return io.loadTensors(fileURLToPath(import.meta.url));
  },
  "saveTensors of what is no tensor": () => {
    below();
    return io.saveTensors(none, { x: 3 } as never);
  },
  "a training within the callback of another": () =>
    train({
      ...training(1),
      callbacks: {
        onEpoch: async () => {
          await failing();
        },
      },
    }),
};
function failing(): Promise<unknown> {
  below();
  return train({ ...training(1), epochs: -1 });
}

test.each(Object.entries(failures))("%s", async (_name, fn) => {
  const { where } = await failureOf(fn);
  expect(where).toMatch(new RegExp(`called\\.test\\.ts:${line}:\\d+$`));
});
