/** Mixed precision: layers in 16 bits, everything that is kept, normed and summed in f32. */
import { evalShape, isTensor, nn, ones, optim, type Tensor, type TrainOptions, train, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { dtypes } from "../../src/ir/dtype.ts";
import { isTensorType } from "../../src/ir/shape.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { bars, convnet, options } from "./synthetic.ts";

const halves = (["bf16", "f16"] as const).filter((name) => name in dtypes);
const digits = { bf16: 2 ** -8, f16: 2 ** -11 };
const kinds = (tree: unknown): Set<string> =>
  new Set(flattenTree(tree, isTensor).leaves.map((leaf) => (leaf as Tensor).dtype));

test("there are 16-bit floats", () => expect(halves).toEqual(["bf16", "f16"]));

describe.each(halves)("%s", (precision) => {
  const run = (more: Partial<TrainOptions> = {}) => train(options({ precision, model: convnet(), ...more }));

  test("weights and moments stay f32, steps are near those of f32, and it learns", async () => {
    const given = { data: bars(96).shuffle().batch(16), epochs: 4, evaluate: bars(30, { seed: 9 }) };
    const [low, full] = [await run(given), await train(options({ model: convnet(), ...given }))];
    expect(kinds([low.params, low.state])).toEqual(new Set(["f32"]));
    expect(kinds(low.optimizerState)).toEqual(new Set(precision === "f16" ? ["f32", "i32"] : ["f32"]));
    const [first, plain] = [low.history[0]?.loss as number, full.history[0]?.loss as number];
    expect(first).not.toBe(plain);
    expect(Math.abs(first - plain)).toBeLessThan(20 * digits[precision]);
    expect(low.history.at(-1)?.loss).toBeLessThan(first / 1.5);
    expect((await low.predict(bars(3))).dtype).toBe("f32");
  });

  test("an update below the digits of 16 bits is not lost", async () => {
    const target = { data: bars(4).batch(4), model: nn.sequential(nn.flatten(), nn.linear(3)) };
    const before = await run({ ...target, epochs: 0 });
    // Each step changes a weight by less than half of its last place in 16 bits.
    const after = await run({ ...target, epochs: 20, optimizer: optim.sgd({ learningRate: 1e-5 }) });
    const change = async (name: "weight"): Promise<number> => {
      const of = (result: typeof after) => (result.params as { 1: { weight: Tensor } })[1][name];
      return of(after).sub(of(before)).abs().max().item();
    };
    expect(await change("weight")).toBeGreaterThan(1e-7);
  });

  test("norms, softmaxes and logistics say that they need the range of f32", () => {
    const ranged = [nn.batchNorm(), nn.layerNorm(), nn.rmsNorm(), nn.groupNorm(1), nn.instanceNorm(), nn.softmax()];
    const more = [nn.softmin(), nn.logSoftmax(), nn.sigmoid(), nn.logSigmoid()];
    expect([...ranged, ...more].filter(({ needsRange }) => needsRange !== true)).toEqual([]);
    expect([nn.linear(2), nn.relu(), nn.dropout(0.5)].filter(({ needsRange }) => needsRange === true)).toEqual([]);
  });

  test("norms and softmaxes see f32, other layers 16 bits", () => {
    const seen: string[] = [];
    const spy = (kind: string, needsRange = false): nn.Layer => ({
      kind,
      needsRange,
      init: (_key, input) => ({ params: { factor: ones([1]) }, state: { mean: zeros([1]) }, output: input }),
      apply: ({ params, state }, x) => {
        seen.push(
          `${kind} ${x.dtype} ${(params as { factor: Tensor }).factor.dtype} ${(state as { mean: Tensor }).mean.dtype}`,
        );
        return { y: x.mul((params as { factor: Tensor }).factor), state: { mean: x.mean().reshape([1]) } };
      },
    });
    const layer = nn.sequential(
      spy("linear"),
      spy("layerNorm", true),
      nn.remat(nn.sequential(spy("conv2d"), spy("softmax", true))),
    );
    const input = { shape: [2, 1], dtype: "f32" } as const;
    const state = evalShape(
      (x, key) => {
        seen.length = 0;
        return nn.applyLayer(layer, layer.init(key, input), x, { precision }).state;
      },
      input,
      { shape: [2], dtype: "u32" },
    );
    expect(flattenTree(state, isTensorType).leaves.map(({ dtype }) => dtype)).toEqual(Array(4).fill("f32"));
    expect(seen).toEqual([
      `linear ${precision} ${precision} f32`,
      "layerNorm f32 f32 f32",
      `conv2d ${precision} ${precision} f32`,
      "softmax f32 f32 f32",
    ]);
  });
});

test("f16 scales its loss by itself: steps that overflow are left out, and the scale comes down", async () => {
  const given = { precision: "f16", model: convnet(), data: bars(64).batch(16), epochs: 2 } as const;
  const result = await train(options({ ...given, lossScale: { initial: 2 ** 40, backoff: 2 ** -8, interval: 100 } }));
  const rejected = result.history.reduce((sum, record) => sum + record.rejected, 0);
  expect(rejected).toBeGreaterThan(1);
  expect(rejected).toBeLessThan(8);
  const { guard } = result.optimizerState as unknown as { guard: { applied: Tensor; scale: Tensor } };
  expect(await guard.applied.item()).toBe(8 - rejected);
  expect(await guard.scale.item()).toBe(2 ** (40 - 8 * rejected));
  const usual = await train(options(given));
  expect(
    await (
      usual.optimizerState as unknown as typeof result.optimizerState & { guard: { scale: Tensor } }
    ).guard.scale.item(),
  ).toBe(65536);
  await expect(train(options({ precision: "f16", dtype: "f64" }))).rejects.toThrow(
    /precision "f16" needs dtype f32, not f64/,
  );
  await expect(train(options({ precision: "f8" as never }))).rejects.toThrow(/precision must be bf16 or f16, got f8/);
});
