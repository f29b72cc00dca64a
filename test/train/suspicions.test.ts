/** What is probably not meant is told in a line, and what may well be is not. */
import { data, layouts, losses, nn, type TrainOptions, train } from "heddle";
import { afterEach, describe, expect, test, vi } from "vitest";
import { mesh } from "../../src/plan/index.ts";
import { batched } from "../../src/train/evaluate.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { suspicions } from "../../src/train/suspicions.ts";
import { bars, convnet, options } from "./synthetic.ts";

afterEach(() => vi.restoreAllMocks());

const told = async (more: Partial<TrainOptions>, axes = { data: 2 }): Promise<string[]> => {
  const settings = resolveOptions(options(more));
  const { evaluate } = settings;
  return suspicions(
    evaluate === undefined ? settings : { ...settings, evaluate: batched(evaluate, settings.data) },
    mesh(axes),
  );
};

describe("a validation set that is trained on", () => {
  const all = bars(60);
  const x = new Float32Array(40);
  const part = (from: number, to: number): data.Dataset =>
    data.fromArrays({
      x: { shape: [to - from, 2], data: x.subarray(2 * from, 2 * to) },
      y: { shape: [to - from], data: new Int32Array(to - from) },
    });
  test.each<[string, data.Dataset, data.Dataset, number | undefined]>([
    ["the same", all.shuffle().batch(16), all, 60],
    ["the same, batched", all.batch(16), all.batch(20), 60],
    ["the first rows", all.shuffle().batch(16), all.take(10), 10],
    ["rows that meet", all.skip(10).shuffle().batch(16), all.take(25), 15],
    ["rows that do not", all.skip(10).shuffle().batch(16), all.take(10), undefined],
    [
      "parts of one fixed order",
      all.shuffle({ reshuffle: false }).skip(10).shuffle().batch(16),
      all.shuffle({ reshuffle: false }).take(10),
      undefined,
    ],
    [
      "two orders",
      all.shuffle({ seed: 1, reshuffle: false }).skip(30).batch(16),
      all.shuffle({ seed: 2, reshuffle: false }).skip(30),
      17,
    ],
    ["another view of a column", all.batch(16), all.transform("x", { dtype: "f32" }).skip(55), 5],
    ["parts of one array that meet", part(0, 12).batch(4), part(10, 20), 2],
    ["parts of one array that do not", part(0, 10).batch(4), part(10, 20), undefined],
    ["another array", all.batch(16), bars(60), undefined],
  ])("%s", async (_what, trained, evaluate, count) => {
    const lines = await told({ data: trained, evaluate });
    if (count === undefined) expect(lines).toEqual([]);
    else
      expect(lines).toEqual([
        expect.stringMatching(
          new RegExp(`^validation: ${count} of its ${evaluate.length} rows are training rows, too`),
        ),
      ]);
  });
});

test.each<[readonly number[], nn.Layer, boolean]>([
  [[28, 28, 1], convnet(), true],
  [[32, 48, 3], nn.sequential(convnet()), true],
  [[1, 28, 28], convnet(), false],
  [[3, 8, 4], convnet(), false],
  [
    [28, 28, 1],
    nn.sequential((x) => x.transpose([0, 3, 1, 2]), nn.conv2d({ out: 2, kernel: 3 }), nn.flatten(), nn.linear(3)),
    false,
  ],
  [[28, 28, 1], nn.sequential(nn.flatten(), nn.linear(3)), false],
])("images of %j: %#", async (shape, model, isSuspicious) => {
  const size = shape.reduce((product, length) => product * length, 4);
  const images = data.fromArrays({
    x: { shape: [4, ...shape], data: new Float32Array(size) },
    y: { shape: [4], data: new Int32Array(4) },
  });
  const says =
    /^the images have \d+ channels and are .* wide; if they are \[height, width, channels\], put \(x\) => x\.transpose/;
  expect(await told({ model, data: images.batch(2) })).toEqual(isSuspicious ? [expect.stringMatching(says)] : []);
});

test("an image that does not fit the kernel is told of its order", () => {
  const [height, width] = [28, 30];
  const layer = nn.conv2d({ out: 2, kernel: 3 });
  const images = data.fromArrays({
    x: { shape: [4, height, width, 1], data: new Float32Array(4 * height * width) },
    y: { shape: [4], data: new Int32Array(4) },
  });
  const given = options({ model: nn.sequential(layer, nn.flatten(), nn.linear(3)), data: images.batch(2) });
  expect(() => resolveOptions(given)).not.toThrow();
  return expect(train(given)).rejects.toThrow(
    /hint: if the images are \[batch, height, width, channels\], put \(x\) => x\.transpose/,
  );
});

test("axes that the mesh has not are told where something could have been split over them", async () => {
  const layout = layouts.fullySharded("model");
  expect(await told({ layout })).toEqual([
    "layout shards over model, which the mesh data=2 does not have: these parameters stay replicated",
  ]);
  expect(await told({ layout }, { data: 1 })).toEqual([]);
});

test.each<[string, Partial<TrainOptions>, boolean]>([
  ["softmax", { loss: losses.softmaxCrossEntropy }, true],
  ["softmax", { loss: (y, t) => losses.nll(y.log(), t) }, false],
  ["logSoftmax", { loss: losses.softmaxCrossEntropy }, false],
  ["sigmoid", { loss: losses.binaryCrossEntropyWithLogits }, true],
  ["sigmoid", { loss: losses.binaryCrossEntropy }, false],
])("a model that ends in %s, which the loss has itself (%o): %s", async (kind, more, tells) => {
  const last = nn[kind as "softmax" | "logSoftmax" | "sigmoid"]();
  const model = nn.sequential(nn.flatten(), nn.sequential(nn.linear(3), last));
  expect(await told({ model, ...more })).toEqual(
    tells ? [expect.stringMatching(`^the model ends in ${kind}, but losses\\.\\w+ computes the ${kind} itself`)] : [],
  );
});

test("train prints them, unless it is silent", async () => {
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const same = { data: bars(8).batch(4), evaluate: bars(8), epochs: 1 };
  const own = { ...same, evaluate: same.data };
  const lines = (): string => written.mock.calls.map(([text]) => String(text)).join("");
  await train(options({ ...own, report: "silent" }));
  expect(lines()).toBe("");
  await train(options({ ...own, report: "lines" }));
  expect(lines()).toContain("validation: 8 of its 8 rows are training rows, too");
});
