/** Training on the native executor, in this process. */
import { type Callbacks, data, losses, nn, optim, train } from "heddle";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { mesh } from "../../src/plan/index.ts";
import { collectAll } from "../support/garbage.ts";
import { bars, convnet, options } from "./synthetic.ts";

const binding = loadNative();

describe.skipIf("error" in binding)("native", { timeout: 60_000 }, () => {
  const liveBuffers = (): number => ("error" in binding ? 0 : binding.memory().liveBuffers);

  test("agrees with the reference executor", async () => {
    const run = async (executor: "native" | "reference", devices: number): Promise<number[]> => {
      const found: number[] = [];
      const callbacks: Callbacks = { onStep: ({ loss }) => void found.push(loss) };
      await train(
        options({ model: convnet(), executor, callbacks, dtype: "f64", epochs: 5, mesh: mesh({ data: devices }) }),
      );
      return found;
    };
    const [expected, one, two] = [await run("reference", 1), await run("native", 1), await run("native", 2)];
    expected.forEach((loss, step) => {
      expect(Math.abs((one[step] as number) - loss)).toBeLessThanOrEqual(1e-9 * loss);
      expect(Math.abs((two[step] as number) - loss)).toBeLessThanOrEqual(1e-9 * loss);
    });
  });

  test("leaves no buffers behind from step to step", async () => {
    const counts: number[] = [];
    const callbacks: Callbacks = {
      onStep: ({ step }) => {
        if (step % 100 === 50) counts.push(liveBuffers());
      },
    };
    // Values of the tests before this one are freed when they are collected.
    await collectAll();
    const before = liveBuffers();
    const result = await train(
      options({
        model: convnet(),
        executor: "native",
        data: bars(64).shuffle().batch(16),
        evaluate: bars(20),
        callbacks,
        epochs: 150,
      }),
    );
    expect(counts).toHaveLength(6);
    // Batches read ahead may come and go.
    for (const count of counts) expect(Math.abs(count - (counts[0] as number))).toBeLessThanOrEqual(4);
    // Parameters, momentum, the key, and the columns that batches are gathered from.
    expect(liveBuffers() - before).toBeLessThanOrEqual(6 + 6 + 1 + 4 + 4);
    expect(result.steps).toBe(600);
  });

  test("a linear model reads nine of ten handwritten digits after one epoch", async () => {
    const result = await train({
      model: nn.sequential(nn.flatten(), nn.linear(10)),
      data: data.mnist("train").shuffle().batch(100),
      evaluate: data.mnist("test"),
      loss: losses.softmaxCrossEntropy,
      optimizer: optim.sgd({ learningRate: 0.5 }),
      epochs: 1,
      executor: "native",
      report: "silent",
    });
    expect(result.accuracy).toBeGreaterThan(0.9);
    expect(result.history[0]?.validation?.examples).toBe(10_000);
  });

  test("the columns of a batch may be any of the stored dtypes", async () => {
    const dataset = data.fromArrays({
      x: { shape: [12, 3], data: Float64Array.from({ length: 36 }, (_unused, index) => Math.sin(index)) },
      y: { shape: [12], data: Int32Array.from({ length: 12 }, (_unused, index) => index % 3) },
    });
    const { history } = await train(
      options({
        data: dataset.batch(5),
        loss: losses.softmaxCrossEntropy,
        optimizer: optim.adam({ learningRate: 0.1 }),
        executor: "native",
        epochs: 30,
      }),
    );
    expect(history.at(-1)?.loss).toBeLessThan(history[0]?.loss as number);
  });
});
