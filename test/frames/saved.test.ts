import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { data, frames, io, losses, nn, optim, type TrainOptions, tensor, train } from "../../src/index.ts";

const folder = mkdtempSync(join(tmpdir(), "frames-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const rows = Array.from({ length: 60 }, (_unused, at) => ({
  age: at % 4 === 0 ? Number.NaN : at,
  city: ["Paris", "Oslo", ""][at % 3] as string,
  kind: at % 3 === 0 ? "a" : "b",
}));
const records = data.fromRows(rows);
const columns = {
  x: [frames.scale("age", { impute: "median" }), frames.oneHot("city")],
  y: frames.recode("kind"),
} as const;
const frame = await frames.fit(records, columns);
const options = async (more: Partial<TrainOptions> = {}): Promise<TrainOptions> => ({
  model: nn.linear(2),
  data: (await data.toDataset(frame.apply(records))).batch(20),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.1 }),
  epochs: 2,
  report: "silent",
  frame,
  ...more,
});
const asked = [{ age: Number.NaN, city: "Oslo" }, rows[5] as object];

describe("a frame is saved with its model", () => {
  test("the model takes records, after training and after loading", async () => {
    const result = await train(await options());
    const path = join(folder, "model.safetensors");
    await result.save(path);
    const model = await io.loadModel(path);
    const expected = [...(await (await result.predict(asked)).data())];
    const loaded = [...(await model.predict(asked).data())];
    loaded.forEach((value, at) => {
      expect(value).toBeCloseTo(expected[at] as number, 5);
    });
    const { data: values, shape } = frame.encode("x", asked);
    expect([...(await model.predict(tensor(values, { shape })).data())]).toEqual(loaded);
    expect(model.frame?.classes("y")).toEqual(["a", "b"]);
    expect(JSON.stringify(await io.loadFrame(path))).toBe(JSON.stringify(frame));
    // One record is a list of one.
    expect([...(await model.predict(asked[0] as Record<string, unknown>).data())]).toEqual(loaded.slice(0, 2));
    expect([...(await (await result.predict(asked[0] as Record<string, unknown>)).data())]).toEqual(
      expected.slice(0, 2),
    );
    for (const predict of [model.predict, result.predict])
      await expect(async () => predict(records as never)).rejects.toThrow(
        /predict: takes a list of records, got records that are yet to be read[\s\S]*hint: .*records.toArray\(\)/,
      );
    expect(() => model.predict([{ age: 1 }])).toThrow(/record 0 has no column "city"/);
    expect(() => model.predict([{ age: 1, city: "Rome" }])).toThrow(/"Rome" is none of the 3 categories/);
  });

  test.each(["file", "parts"] as const)(
    "checkpoints (%s) have it, and a run that resumes must have the same",
    async (format) => {
      const directory = join(folder, format);
      const checkpoint = { directory, format };
      await train(await options({ checkpoint, epochs: 1 }));
      expect(JSON.stringify(await io.loadFrame(directory))).toBe(JSON.stringify(frame));
      const other = await frames.fit(records, {
        ...columns,
        x: [frames.scale("age", { impute: 0 }), frames.oneHot("city")],
      });
      await expect(train(await options({ checkpoint, resume: true, frame: other }))).rejects.toThrow(
        /its frame is another than this run's/,
      );
      expect((await train(await options({ checkpoint, resume: true }))).epochs).toBe(2);
    },
  );

  test("misuse is named", async () => {
    const { frame: _frame, ...without } = await options();
    const result = await train(without);
    await expect(result.predict(asked)).rejects.toThrow(/only where train was called with the option frame/);
    const path = join(folder, "plain.safetensors");
    await result.save(path);
    const model = await io.loadModel(path);
    expect(() => model.predict(asked)).toThrow(/saved without a frame/);
    await expect(io.loadFrame(path)).rejects.toThrow(/has no frame/);
    await expect(train(await options({ frame: { names: ["x"] } as never }))).rejects.toThrow(/frame must be a frame/);
    const unfit = await frames.fit(records, { z: frames.scale("age", { impute: 0 }) });
    await expect(train(await options({ frame: unfit }))).rejects.toThrow(/the frame makes z, and not the input "x"/);
    const { params, state } = result;
    const narrow = await frames.fit(records, { x: [frames.oneHot("city")] });
    const saved = io.saveModel(path, nn.linear(2), { params, state } as never, {
      input: [1, 4],
      frame: { frame: narrow, input: "x" },
    });
    await expect(saved).rejects.toThrow(/the frame makes x of shape \[batch, 3\], the model takes f32\[1,4\]/);
  });
});
