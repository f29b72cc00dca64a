/** Each compressor and the exchange around it, beside its formula on plain arrays, on 1, 2 and 4 devices. */
import { compression, distribute, jit, random, replicate, type Tensor, type Tensors } from "heddle";
import { localRuntime } from "heddle/runtime";
import { describe, expect, test } from "vitest";
import { exchanged } from "../../src/compression/exchange.ts";
import { type CompressionOptions, compressionOf } from "../../src/compression/options.ts";
import { type CompressionState, initialCompression } from "../../src/compression/state.ts";
import { isTensor } from "../../src/functions/index.ts";
import { parseLayout } from "../../src/plan/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { ExchangeOnArrays, type Reference, type ReferenceExchange, references } from "./references.ts";

interface Case {
  readonly title: string;
  readonly options: CompressionOptions;
  readonly reference: ReferenceExchange;
  readonly shape?: readonly number[];
}

const shape = [6, 20];
const one = (
  title: string,
  by: CompressionOptions["by"],
  reference: Reference,
  feedback: boolean,
  more: Partial<Case> = {},
): Case => ({
  title,
  ...more,
  options: { by, least: 0, ...more.options },
  reference: { by: reference, feedback, ...more.reference },
});

const { bf16, f16, int8, sign, oneBit, topK, randomK, powerSgd, countSketch, quantiles, sketchMl } = compression;
const cases: readonly Case[] = [
  one("bf16", bf16(), references.bf16, false),
  one("f16, with feedback", f16(), references.f16, true, { options: { by: f16(), feedback: true } }),
  one("int8", int8({ block: 16 }), references.nearest(16), true),
  one("int8, stochastic", int8({ block: 50, rounding: "stochastic" }), references.stochastic(50), false),
  one("sign", sign(), references.sign, true),
  one("sign of a vector of no whole bytes", sign(), references.sign, true, { shape: [13] }),
  one("oneBit", oneBit(), references.oneBit, true),
  one("oneBit of four dims", oneBit(), references.oneBit, true, { shape: [3, 2, 3, 3] }),
  one("topK", topK({ ratio: 0.05 }), references.topK(0.05), true),
  one("topK without feedback", topK({ ratio: 0.05 }), references.topK(0.05), false, {
    options: { by: topK({ ratio: 0.05 }), feedback: false },
  }),
  one("topK with momentum and masking", topK({ ratio: 0.1 }), references.topK(0.1), true, {
    options: { by: topK({ ratio: 0.1 }), momentum: 0.9 },
    reference: { by: references.topK(0.1), feedback: true, momentum: 0.9, masking: true },
  }),
  one("topK with momentum and clipping, without masking", topK({ ratio: 0.1 }), references.topK(0.1), true, {
    options: { by: topK({ ratio: 0.1 }), momentum: 0.5, masking: false, clip: 3 },
    reference: { by: references.topK(0.1), feedback: true, momentum: 0.5, clip: 3 },
  }),
  one("randomK with momentum and masking", randomK({ ratio: 0.2 }), references.randomK(0.2), true, {
    options: { by: randomK({ ratio: 0.2 }), momentum: 0.9 },
    reference: { by: references.randomK(0.2), feedback: true, momentum: 0.9, masking: true },
  }),
  one("powerSgd", powerSgd({ rank: 2, gain: 0 }), references.powerSgd(2), true),
  one("powerSgd of four dims", powerSgd({ rank: 3, gain: 0 }), references.powerSgd(3), true, { shape: [4, 3, 2, 2] }),
  one("countSketch", countSketch({ rows: 3, columns: 0.3, ratio: 0.1 }), references.countSketch(3, 0.3, 0.1), true),
  one("quantiles", quantiles({ buckets: 7 }), references.quantiles(7), true),
  one("sketchMl", sketchMl({ ratio: 0.3, groups: 3, buckets: 4 }), references.sketchMl(0.3, 3, 4, 2, 0.3), true),
];

/** Numbers from -1 to 1, the same everywhere. */
const numbers = (count: number, seed: number): Float64Array =>
  Float64Array.from({ length: count }, (_unused, index) => {
    const mixed = Math.imul((index + 1) * 2654435761 + seed * 40503, 0x45d9f3b);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 31 - 1;
  });

const rowsOf = (flat: ArrayLike<number>, rows: number): number[][] => {
  const size = flat.length / rows;
  return Array.from({ length: rows }, (_unused, row) => Array.from(flat).slice(row * size, (row + 1) * size));
};

const read = async (x: Tensor | undefined): Promise<number[]> =>
  x === undefined ? [] : Array.from((await replicate(x).data()) as Float64Array);

const runtimeOf = (devices: number): Runtime =>
  localRuntime({ axes: [{ name: "data", size: devices }], executor: missing === undefined ? "native" : "reference" });

/** The state on the devices: rows of devices on their own. */
async function placed(runtime: Runtime, state: CompressionState): Promise<CompressionState> {
  const flat = flattenTree(state, isTensor);
  const leaves = await Promise.all(
    flat.leaves.map(async (leaf, index) =>
      distribute(
        runtime,
        (await leaf.data()) as Float64Array,
        { shape: leaf.shape, dtype: leaf.dtype },
        parseLayout(/^(residual|momentum)\./.test(flat.paths[index] as string) ? "S(0)" : "R"),
      ),
    ),
  );
  return unflattenTree(flat.shape, leaves) as CompressionState;
}

// Every case on four devices, every third one on one and on two.
const some = (first: number): readonly Case[] => cases.filter((_case, index) => index % 3 === first);
describe.each([
  [1, some(1)],
  [2, some(0)],
  [4, cases],
] as const)("%i devices", (devices, all) => {
  test.each(all)("$title", async ({ options, reference, shape: of = shape }) => {
    const runtime = runtimeOf(devices);
    const size = of.reduce((product, dim) => product * dim, 1);
    const how = { ...compressionOf(options), devices };
    const oracle = new ExchangeOnArrays(reference, devices, size);
    const param = jit(() => random.normal(random.key(5), of, { dtype: "f64" }))();
    const initial = initialCompression(how, { w: param }, random.key(7));
    const own = new Map<string, number[]>();
    for (const [name, x] of Object.entries(initial.own["w"] ?? {})) own.set(name, await read(x));
    let state = await placed(runtime, initial);
    // The sum of rows of which each device has one: what a device contributes is its row.
    const step = jit((x: Tensor, before: Tensors, key: Tensor) => {
      const after = exchanged(how, { w: x.sum(0) }, before as unknown as CompressionState, { key, stage: 0 });
      return { total: (after.grads as { w: Tensor }).w, state: after.state as unknown as Tensors };
    });
    for (let index = 0; index < 3; index++) {
      const gradients = numbers(devices * size, index + 1);
      const key = random.key(100 + index);
      const x = distribute(runtime, gradients, { dtype: "f64", shape: [devices, ...of] }, parseLayout("S(0)"));
      const placedKey = distribute(runtime, await key.data(), { dtype: "u32", shape: [2] }, parseLayout("R"));
      const before = (await read(state.residual["w"])).reduce((sum, y) => sum + y, 0);
      const result = step(x, state as unknown as Tensors, placedKey);
      state = result.state as unknown as CompressionState;
      const wanted = await oracle.step(rowsOf(gradients, devices), {
        shape: of,
        key: random.foldIn(key, 0),
        state: own,
      });
      const total = await read(result.total);
      expect(furthest(total, wanted)).toBeLessThan(1e-9);
      const kept = await read(state.residual["w"]);
      if (how.feedback) expect(furthest(kept, oracle.residual.flat())).toBeLessThan(1e-9);
      if (how.momentum > 0)
        expect(furthest(await read(state.momentum["w"]), oracle.momentum.flat())).toBeLessThan(1e-9);
      // What was sent and what is kept are what was to be sent; 16-bit sums are rounded on the way.
      if (!how.feedback || how.momentum > 0 || options.by === cases[1]?.options.by) continue;
      const sums = [total, kept, gradients].map((list) => Array.from(list).reduce((sum, y) => sum + y, 0)) as [
        number,
        number,
        number,
      ];
      expect(Math.abs(sums[0] + sums[1] - sums[2] - before)).toBeLessThan(1e-6);
    }
  });
});

function furthest(left: readonly number[], right: readonly number[]): number {
  expect(left.length).toBe(right.length);
  return left.reduce((most, x, index) => Math.max(most, Math.abs(x - (right[index] as number))), 0);
}

describe("by a name with options", () => {
  test.each([
    { text: "topK", want: { by: { name: "topK" }, momentum: 0 } },
    { text: "topK:ratio=0.5,momentum=0.9,warmup=2", want: { by: { name: "topK" }, momentum: 0.9, warmup: 2 } },
    { text: "int8:rounding=stochastic,block=64,feedback=false", want: { by: { name: "int8" }, feedback: false } },
    { text: "sign:only=**.weight,least=8", want: { by: { name: "sign" }, only: "**.weight" } },
  ])("$text", ({ text, want }) => expect(compressionOf(text)).toMatchObject(want));

  test("the compressor gets its options", () => {
    const sent = (text: string) => compressionOf(text).by.initial?.({ shape: [8, 8], dtype: "f32" }, random.key(1));
    expect(Object.values(sent("powerSgd:rank=3") ?? {}).map(({ shape }) => shape)).toEqual([[8, 3]]);
  });

  test.each([
    { text: "topK:ration=1", error: "compression.topK: unknown option 'ration'" },
    { text: "topK:ratio=2", error: "compression.topK: ratio" },
    { text: "sign:ratio=1", error: "the compressor 'sign' has no option 'ratio'" },
    { text: "topK:0.01", error: "'0.01' in 'topK:0.01' is no option with a value" },
    { text: "topK:by=sign", error: "'by=sign' in" },
    { text: "topk:ratio=1", error: "there is no compressor 'topk'" },
    { text: "topK:momentum=x", error: "momentum" },
  ])("$text is refused", ({ text, error }) => expect(() => compressionOf(text)).toThrow(error));
});
