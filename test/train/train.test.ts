import {
  type Callbacks,
  data,
  keras,
  layouts,
  losses,
  nn,
  optim,
  type StepRecord,
  type Tensor,
  type TrainOptions,
  tensor,
  train,
} from "heddle";
import { describe, expect, test, vi } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { mesh } from "../../src/plan/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { isWhole } from "../support/sample.ts";
import { bars, convnet, linear, options } from "./synthetic.ts";

async function values(tree: unknown): Promise<number[]> {
  const { leaves } = flattenTree(tree, isTensor);
  return (await Promise.all(leaves.map(async (leaf: Tensor) => Array.from(await leaf.data())))).flat();
}

describe("training", () => {
  test("lowers the loss and finds the classes", async () => {
    const evaluate = bars(50, { seed: 9 });
    const result = await train(options({ data: bars(300).shuffle().batch(32), evaluate, epochs: 6 }));
    const first = result.history[0];
    const last = result.history.at(-1);
    expect(result.history).toHaveLength(6);
    expect(last?.loss).toBeLessThan((first?.loss as number) / 2);
    expect(result.accuracy).toBeGreaterThan(0.8);
    expect(result.accuracy).toBe(last?.validation?.metrics["accuracy"]);
    expect(result.steps).toBe(6 * 10);
  });

  test("the same seed gives the same bits, another one others", async () => {
    const run = async (seed: number): Promise<number[]> =>
      values((await train(options({ seed, model: convnet(), epochs: 1 }))).params);
    const [first, again, other] = [await run(1), await run(1), await run(2)];
    expect(first).toEqual(again);
    expect(first).not.toEqual(other);
  });

  test("an epoch's loss is weighted by the rows of its batches", async () => {
    const steps: StepRecord[] = [];
    const callbacks: Callbacks = { onStep: (record) => void steps.push(record) };
    // Three batches of 16, and a last one of 12.
    const { history } = await train(options({ callbacks, epochs: 1 }));
    const sizes = [16, 16, 16, 12];
    const weighted = steps.reduce((sum, { loss, batch }) => sum + loss * (sizes[batch - 1] as number), 0) / 60;
    expect(steps.map(({ step, batch, learningRate }) => [step, batch, learningRate])).toEqual(
      [1, 2, 3, 4].map((n) => [n, n, 0.2]),
    );
    expect(history[0]?.loss).toBeCloseTo(weighted, 12);
  });

  test("a schedule is asked once per step", async () => {
    const seen: number[] = [];
    const callbacks: Callbacks = { onStep: ({ learningRate }) => void seen.push(learningRate) };
    await train(options({ callbacks, epochs: 1, optimizer: optim.adam({ learningRate: (step) => 0.1 / (step + 1) }) }));
    expect(seen).toEqual([0.1, 0.05, 0.1 / 3, 0.025]);
  });

  test("regression in f64, with columns of other names", async () => {
    const inputs = Float64Array.from({ length: 40 }, (_unused, index) => index / 20 - 1);
    const dataset = data.fromArrays({
      size: { shape: [40, 1], data: inputs },
      price: { shape: [40, 1], data: inputs.map((x) => 3 * x - 2) },
    });
    const result = await train(
      options({
        model: nn.linear(1),
        data: dataset.shuffle().batch(8),
        input: "size",
        target: "price",
        loss: losses.mse,
        optimizer: optim.sgd({ learningRate: 0.3 }),
        dtype: "f64",
        epochs: 40,
      }),
    );
    expect(await (result.params["weight"] as Tensor).item()).toBeCloseTo(3, 4);
    expect(await (result.params["bias"] as Tensor).item()).toBeCloseTo(-2, 4);
    expect(result.history[0]?.metrics).toEqual({});
    expect(result.accuracy).toBeUndefined();
  });

  test("vectors of ids are of the dtype of the run", async () => {
    const [x, y] = [Int32Array.of(0, 1, 2, 3, 4, 5), Float64Array.of(1, 2, 3)];
    const bags = data.fromArrays({ x: { shape: [3, 2], data: x }, y: { shape: [3, 1], data: y } }).batch(3);
    const layers = [
      [nn.embedding(6, 2), nn.flatten(), nn.linear(1)],
      [nn.embeddingBag(6, 2), nn.linear(1)],
    ];
    for (const list of layers) {
      const [model, loss] = [nn.sequential(...list), losses.mse];
      const { params } = await train(options({ model, data: bags, loss, metrics: {}, dtype: "f64", epochs: 1 }));
      expect((params as { readonly [layer: string]: { weight: Tensor } })["0"]?.weight.dtype).toBe("f64");
      const kept = keras.model(model, { dtype: "f64" });
      kept.compile({ optimizer: "sgd", loss: "mse" });
      for (let times = 0; times < 2; times++) await kept.fit(bags, { epochs: 1, verbose: 0 });
      expect((await kept.predict(bags)).dtype).toBe("f64");
    }
  });

  test("metrics of one's own", async () => {
    const result = await train(
      options({
        epochs: 1,
        evaluate: bars(10),
        metrics: {
          top2: (output, target) => target.eq(output.argMax(-1)),
          margin: (output) => output.max(-1).sub(output.min(-1)),
        },
      }),
    );
    expect(Object.keys(result.history[0]?.validation?.metrics ?? {})).toEqual(["top2", "margin"]);
    await expect(train(options({ metrics: { mean: (output) => output.mean() } }))).rejects.toThrow(
      /metric mean gives f32\[\], not one value per example/,
    );
  });
});

describe("evaluation and prediction", () => {
  test("count every row once, whatever the batches", async () => {
    const result = await train(options());
    const dataset = bars(37, { seed: 5 });
    const whole = await result.evaluate(dataset.batch(37));
    const outputs = await result.predict(dataset);
    const answers = await outputs.argMax().data();
    const labels = await dataset.columns.get("y")?.load();
    const right = Array.from(answers).filter((answer, index) => answer === labels?.[index]).length;
    expect(outputs.shape).toEqual([37, 3]);
    for (const size of [1, 5, 16, 36]) {
      const { loss, metrics, examples } = await result.evaluate(dataset.batch(size));
      expect(examples).toBe(37);
      expect(metrics["accuracy"]).toBe(right / 37);
      expect(loss).toBeCloseTo(whole.loss, 5);
    }
  });

  test("predict takes a batch as the model sees it", async () => {
    const result = await train(options({ epochs: 0 }));
    expect((await result.predict(tensor(new Float32Array(128), { shape: [2, 1, 8, 8] }))).shape).toEqual([2, 3]);
    await expect(result.predict(tensor([1, 2]))).rejects.toThrow(
      /the model takes f32\[batch,1,8,8\], any number of rows, got f32\[2\]/,
    );
  });
});

describe("virtual devices", () => {
  const run = async (devices: number, more: Partial<Parameters<typeof train>[0]> = {}) => {
    const losses: number[] = [];
    const callbacks: Callbacks = { onStep: ({ loss }) => void losses.push(loss) };
    const result = await train(options({ dtype: "f64", mesh: mesh({ data: devices }), callbacks, ...more }));
    return { losses, result, params: await values(result.params) };
  };

  test("two give what one gives, over 200 steps (64 of a part) with dropout", { timeout: 120_000 }, async () => {
    const more = {
      model: convnet(),
      data: bars(64).shuffle().batch(8),
      epochs: isWhole() ? 25 : 8,
      optimizer: optim.sgd({ learningRate: 0.05, momentum: 0.9, nesterov: true }),
    };
    const [one, two] = [await run(1, more), await run(2, more)];
    expect(one.losses).toHaveLength(8 * more.epochs);
    expectClose(two.losses, one.losses, 1e-9, 0);
    expectClose(two.params, one.params, 1e-9);
  });

  test("gradients of the first step agree in f32 to 1e-5 of each tensor's norm", async () => {
    // One step of plain descent with rate 1 moves each parameter by its gradient.
    const more = {
      model: convnet(),
      data: bars(64).batch(64),
      dtype: "f32",
      optimizer: optim.sgd({ learningRate: 1 }),
    } as const;
    const leaves = async (devices: number, epochs: number): Promise<number[][]> => {
      const { result } = await run(devices, { ...more, epochs });
      return Promise.all(
        flattenTree(result.params, isTensor).leaves.map(async (leaf) => Array.from(await leaf.data())),
      );
    };
    const [start, one, two] = [await leaves(1, 0), await leaves(1, 1), await leaves(2, 1)];
    const norm = (left: number[], right: number[]): number =>
      Math.hypot(...left.map((value, index) => value - (right[index] as number)));
    start.forEach((initial, index) => {
      const [left, right] = [one[index] as number[], two[index] as number[]];
      // The parameters themselves are rounded to f32.
      const rounding = 2 ** -23 * Math.hypot(...initial);
      expect(norm(left, right)).toBeLessThanOrEqual(1e-5 * norm(left, initial) + rounding);
    });
  });

  test("batches that they cannot share evenly are computed whole", async () => {
    // 60 rows in batches of 16 leave 12, which 8 devices cannot share; 10 rows they never can.
    const evaluate = bars(21).batch(10);
    const [one, eight] = [await run(1, { evaluate }), await run(8, { evaluate })];
    expectClose(eight.losses, one.losses, 1e-12);
    expect(eight.result.accuracy).toBe(one.result.accuracy);
  });

  test("a mesh without the axis data", async () => {
    const { losses: found } = await run(1, { mesh: mesh({ model: 2 }) });
    const { losses: expected } = await run(1);
    expectClose(found, expected, 1e-12);
  });
});

describe("ends", () => {
  test("a NaN in the loss is an error that says where", async () => {
    const loss = (output: Tensor, target: Tensor): Tensor => losses.softmaxCrossEntropy(output, target).mul(Number.NaN);
    await expect(train(options({ loss }))).rejects.toMatchObject({
      code: "nan",
      message: expect.stringMatching(
        /^the loss is NaN at step 1 \(epoch 1 of 2, batch 1\), with learning rate 0\.2[\s\S]*\n {2}hint: lower/,
      ),
    });
    const { history } = await train(options({ loss, nan: "continue" }));
    expect(history.map((record) => record.loss)).toEqual([Number.NaN, Number.NaN]);
  });

  test.each([
    [
      "x",
      [2, 1, 3],
      13,
      4,
      Number.NaN,
      /step [1-4] .*: column 'x' has NaN at \[1,0,1\] in row 13 of the data \(row \d of the batch\)\n/,
    ],
    ["y", [2], 5, 1, Infinity, /column 'y' has Infinity at \[1\] in row 5 of the data/],
    ["y", [], 19, 0, -Infinity, /column 'y' has -Infinity in row 19 of the data/],
  ] as const)(
    "a value of %s %o that is not finite is told by its place",
    async (name, shape, row, place, value, says) => {
      const size = shape.reduce((product: number, length) => product * length, 1);
      const rows = { x: new Float32Array(20 * 6).fill(1), y: new Float32Array(20 * (name === "y" ? size : 2)) };
      rows[name][row * size + place] = value;
      const bad = data.fromArrays({
        x: { shape: [20, 2, 1, 3], data: rows.x },
        y: { shape: [20, ...(name === "y" ? shape : [2])], data: rows.y },
      });
      const model = nn.sequential(nn.flatten(), nn.linear(2));
      const loss = (y: Tensor, t: Tensor): Tensor => y.mean().add(t.mean());
      const given = { data: bad.shuffle().batch(5), model, loss, mesh: mesh({ data: 2 }) };
      await expect(train(options(given))).rejects.toMatchObject({ code: "nan", message: expect.stringMatching(says) });
    },
  );

  test("an abort ends it between two steps, with the caller's reason", async () => {
    const controller = new AbortController();
    const seen: number[] = [];
    const callbacks: Callbacks = {
      onStep: ({ step }) => {
        seen.push(step);
        if (step === 3) controller.abort(new Error("enough"));
      },
    };
    await expect(train(options({ callbacks, signal: controller.signal, epochs: 50 }))).rejects.toThrow("enough");
    expect(seen.length).toBeLessThanOrEqual(5);
    await expect(train(options({ signal: AbortSignal.abort(new Error("before")) }))).rejects.toThrow("before");
  });

  test("a callback can end it well", async () => {
    const callbacks: Callbacks = { onEpoch: ({ epoch }, control) => (epoch === 2 ? control.stop() : undefined) };
    expect((await train(options({ callbacks, epochs: 10 }))).history).toHaveLength(2);
    const early = await train(
      options({ callbacks: { onStep: ({ step }, control) => (step === 2 ? control.stop() : undefined) } }),
    );
    // The step after next would carry the request; the epoch of four steps ends before.
    expect(early.history).toHaveLength(1);
    expect(early.steps).toBe(4);
  });

  test("no listeners stay", async () => {
    const count = (): number => process.listenerCount("SIGINT") + process.listenerCount("SIGTERM");
    const before = count();
    await train(options({ epochs: 1 }));
    expect(count()).toBe(before);
  });
});

describe("what is shown", () => {
  async function printed(more: Partial<TrainOptions>): Promise<string[]> {
    const write = vi.spyOn(process.stdout, "write").mockReturnValue(true);
    await train(options({ report: "lines", mesh: mesh({ data: 2 }), ...more }));
    const text = write.mock.calls.map(([part]) => String(part)).join("");
    write.mockRestore();
    return text.trimEnd().split("\n");
  }

  test("lists of names are folded, whatever the number of parameters", async () => {
    const model = nn.sequential(nn.flatten(), ...Array.from({ length: 10 }, () => nn.linear(4)));
    const more = { model, optimizer: optim.adam({ learningRate: 1e-3 }), epochs: 0 };
    const lines = await printed({ ...more, layout: layouts.fullySharded("data") });
    expect(lines[1]).toMatch(
      /x .* by row, 8 of 16 rows on each device; 1\.weight f32\[4,64\], .*, … \(20 in all\) in parts, and 40 values kept/,
    );
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(400);
    const from = { params: {} };
    await expect(train(options({ ...more, from }))).rejects.toThrow(/params has no '1\.weight'/);
    const params = Object.fromEntries(Array.from({ length: 99 }, (_one, index) => [`a${index}`, tensor(0)]));
    await expect(train(options({ ...more, from: { params } }))).rejects.toThrow(/it has a\d+, .*… \(99 in all\)/);
  });

  test("five lines of plan, then at most five lines per epoch", async () => {
    const lines = await printed({ data: bars(160).batch(8), epochs: 1 });
    expect(lines.slice(0, 5).map((line) => line.split(/ {2,}| /)[0])).toEqual([
      "workers",
      "sharded",
      "all-reduce",
      "memory",
      "model",
    ]);
    expect(lines[0]).toContain("2 virtual devices in one process, mesh data=2; reference executor");
    expect(lines[1]).toContain("x u8[8,1,8,8], y u8[8] by row, 4 of 8 rows on each device");
    expect(lines[2]).toMatch(/5 values in 1 bucket, 792 B sent by each device per step/);
    expect(lines[4]).toContain("195 parameters");
    expect(lines.length).toBeLessThanOrEqual(5 + 5);
    expect(lines.at(-1)).toMatch(/^epoch 1\/1 {2}loss \d\.\d{4} {2}accuracy \d+\.\d\d % {2}.* images\/s$/);
  });
});

describe("errors before anything is computed", () => {
  test.each([
    [{ epoch: 3 }, /train: unknown option 'epoch'[\s\S]*\n {2}hint: did you mean 'epochs'\?/],
    [{ epochs: -1 }, /epochs must be at least 0/],
    [{ epochs: undefined }, /'epochs' is missing/],
    [{ model: {} }, /model is not a layer/],
    [{ data: [] }, /data is not a dataset/],
    [{ data: bars(4) }, /bars is not batched/],
    [{ loss: "mse" }, /loss is not a function/],
    [{ optimizer: 0.1 }, /optimizer is not an optimizer/],
    [{ dtype: "f16" }, /dtype must be f32 or f64, got f16/],
    [{ seed: 0.5 }, /seed must be a whole number/],
    [{ report: "loud" }, /report must be auto or bar or lines or silent/],
    [{ checkpoint: { folder: "x" } }, /checkpoint: unknown option 'folder'/],
    [{ checkpoint: { directory: "x", every: 0 } }, /checkpoint.every must be at least 1/],
    [{ resume: true }, /nothing to resume from/],
    [{ input: "image" }, /bars has no column "image"[\s\S]*\n {2}hint: its columns are x, y/],
  ] as const)("%o", async (change, message) => {
    await expect(train({ ...options(), ...change } as never)).rejects.toThrow(message);
  });

  test("a model that does not fit its data names the layer", async () => {
    const model = nn.sequential(nn.flatten(), nn.conv2d({ out: 1, kernel: 3 }));
    await expect(train(options({ model }))).rejects.toThrow(/layer 1 \(conv2d\): takes images .*, got f32\[16,64\]/);
  });

  test("a loss that does not fit the output names both", async () => {
    await expect(train(options({ loss: losses.mse }))).rejects.toThrow(/mse: output f32\[16,3\] and target i32\[16\]/);
    const perExample = (output: Tensor, target: Tensor): Tensor =>
      losses.softmaxCrossEntropy(output, target, { reduction: "none" });
    await expect(train(options({ model: linear(), loss: perExample }))).rejects.toThrow(
      /loss must be a float scalar, got f32\[16\]/,
    );
  });
});
