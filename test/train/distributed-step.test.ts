/** Loops of one's own: the bits of `train` on one device and on several, state that is kept and gone on with, what is refused. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  compression,
  distributedStep,
  layouts,
  losses,
  mesh,
  type nn,
  optim,
  type Tensor,
  type TrainOptions,
  type TrainResult,
  tensor,
  train,
  valueAndGrad,
  zeros,
} from "heddle";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isTensor, replicate } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { lossesIn, model, optimizer, ownLoop, rows } from "./scripts/own-model.ts";
import { bars, options } from "./synthetic.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-own-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const bits = async (tree: unknown): Promise<number[][]> =>
  Promise.all(flattenTree(tree, isTensor).leaves.map(async (leaf) => [...(await replicate(leaf).data())]));

const { executor: _whichever, ...others } = options();
const given = { ...others, model, data: rows, optimizer };
const two = mesh({ data: 2 });
let first: TrainResult<nn.ParamsOf<typeof model>>;
beforeAll(async () => {
  first = await train({ ...given, epochs: 0 });
});

test.each([1, 2])("on %i devices it gives the bits of train", async (devices) => {
  const axes = mesh({ data: devices });
  const seen: number[] = [];
  const callbacks = { onStep: ({ loss }: { loss: number }) => void seen.push(loss) };
  const result = await train({ ...given, mesh: axes, callbacks });
  const loop = await ownLoop(first, { mesh: axes });
  expect(await lossesIn(loop, 0, 1)).toEqual(seen);
  expect(await bits([loop.state.params, loop.state.slots, loop.state.layers])).toEqual(
    await bits([result.params, result.optimizerState, result.state]),
  );
  expect(loop.steps).toBe(8);
});

test("what is saved is gone on with, to the same bits, on other devices too", async () => {
  const path = join(folder, "made", "state.safetensors");
  const whole = await ownLoop(first, { mesh: two });
  await lossesIn(whole, 0);
  await whole.save(path);
  const rest = await lossesIn(whole, 1);
  const again = await ownLoop(first, { mesh: two });
  await again.load(path);
  expect(again.steps).toBe(4);
  expect(await lossesIn(again, 1)).toEqual(rest);
  expect(await bits(again.state)).toEqual(await bits(whole.state));
  const alone = await ownLoop(first);
  await alone.load(path);
  for (const [index, loss] of (await lossesIn(alone, 1)).entries()) expect(loss).toBeCloseTo(rest[index] as number, 4);
});

test("the state may be kept in parts; other functions of it are evaluated", async () => {
  const loop = await ownLoop(first, { mesh: two, layout: layouts.fullySharded() });
  const whole = await ownLoop(first, { mesh: two });
  const [found, wanted] = [await lossesIn(loop, 0), await lossesIn(whole, 0)];
  for (const [index, loss] of found.entries()) expect(loss).toBeCloseTo(wanted[index] as number, 5);
  expect(loop.state.params["1"].weight.value.layout[0]?.kind).toBe("shard");
  const right = ({ params, layers }: typeof loop.state, { x, y }: { x: Tensor; y: Tensor }): Tensor =>
    model.apply({ params, state: layers }, x).y.argMax(-1).eq(y).sum();
  for await (const batch of loop.batches(bars(30).batch(30))) {
    const count = await (await loop.evaluate(right, batch)).item();
    expect(count).toBe(await (await whole.evaluate(right, batch)).item());
    expect(count).toBeGreaterThan(9);
  }
});

test("batches may be tensors, whole on every worker; bytes come as the dataset says", async () => {
  const slope = await distributedStep({
    mesh: two,
    state: { w: zeros([2]) },
    step: ({ w }, { x }: { x: Tensor }) => ({ state: { w: w.add(x.mean(0)) }, sum: x.sum(), each: x.mul(2) }),
  });
  const { sum, each } = await slope.run({
    x: tensor([
      [1, 2],
      [3, 4],
      [5, 9],
    ]),
  });
  expect([await sum.item(), [...(await each.data())]]).toEqual([24, [2, 4, 6, 8, 10, 18]]);
  expect(await slope.state.w.data()).toEqual(Float32Array.of(3, 5));
  for await (const { x } of slope.batches(bars(3).batch(3))) expect([x.dtype, x.shape]).toEqual(["f32", [3, 1, 8, 8]]);
});

describe("what is refused", () => {
  const state = { w: zeros([2]) };
  const x = tensor([[1, 2]]);
  const run = async (step: unknown, batch: unknown = { x }, more: object = {}): Promise<unknown> =>
    (await distributedStep({ state, step: step as never, ...more })).run(batch as never);
  test.each<[string, () => Promise<unknown>, RegExp]>([
    ["no step", () => run(undefined), /^distributedStep: step must be a function, got undefined/],
    ["no state", () => run(() => 1, { x }, { state: {} }), /^distributedStep: state has no tensors, got /],
    [
      "a number in the state",
      () => run(() => ({ state }), { x }, { state: { w: state.w, n: { steps: 3 } } }),
      /^distributedStep: state\.n\.steps is 3, not a tensor\n[\s\S]*write a constant into the step/,
    ],
    [
      "a number that every step is given",
      () => run(() => ({ state }), { x }, { numbers: { step: 3 } }),
      /numbers has 'step'/,
    ],
    ["an unknown option", () => run(() => 1, { x }, { lr: 1 }), /^distributedStep: unknown option 'lr'/],
    [
      "a step without a state",
      () => run(() => ({ loss: x })),
      /the step gives \{ loss \}, without a state\n[\s\S]*return \{ state, … \}/,
    ],
    ["another form", () => run(() => ({ state: { v: zeros([2]) } })), /gives a state of \[v\] for \[w\]/],
    [
      "another shape",
      () => run(() => ({ state: { w: zeros([3]) } })),
      /'w' of the state is f32\[2\] before a step and f32\[3\] after it/,
    ],
    ["no columns", () => run(() => ({ state }), {}), /a batch is columns of equally many rows, got \{ +\}/],
    ["unequal rows", () => run(() => ({ state }), { x, y: zeros([2]) }), /equally many rows, got y Tensor/],
    [
      "a schedule that gives no number",
      () => run(() => ({ state }), { x }, { numbers: { rate: () => Number.NaN } }),
      /distributedStep: rate: the schedule gives .*NaN at step 0/,
    ],
  ])("%s", async (_what, make, says) => {
    await expect(make()).rejects.toThrow(says);
  });
  test("a file of another state", async () => {
    const path = join(folder, "other.safetensors");
    const loop = await distributedStep({ state, step: () => ({ state }) });
    await loop.save(path);
    const other = await distributedStep({
      state: { w: zeros([3]), v: zeros([1]) },
      step: () => ({ state: { w: zeros([3]), v: zeros([1]) } }),
    });
    await expect(other.load(path)).rejects.toThrow(/load: .*other\.safetensors has another state: w, v differ/);
  });
});

describe("compressed gradients", () => {
  const { topK, powerSgd } = compression;
  const lossy = { by: topK({ ratio: 0.1 }), momentum: 0.5, least: 16 };
  const plain = optim.sgd({ learningRate: 0.05 });
  const own = (axes: ReturnType<typeof mesh>, how: TrainOptions["compression"], layout?: TrainOptions["layout"]) =>
    distributedStep({
      mesh: axes,
      ...(how === undefined ? {} : { compression: how }),
      ...(layout === undefined ? {} : { layout }),
      state: { params: first.params, slots: plain.init(first.params), layers: first.state },
      step: ({ params, slots, layers }, { x, y }, { step, key, exchange }) => {
        const loss = (variables: typeof params): readonly [Tensor, typeof layers] => {
          const made = model.apply({ params: variables, state: layers }, x, { train: true, key });
          return [losses.softmaxCrossEntropy(made.y, y), made.state];
        };
        const { value, grad } = valueAndGrad(loss)(params);
        const updated = plain.update(exchange(grad), slots, params, { step, learningRate: tensor(0.05) });
        return { state: { params: updated.params, slots: updated.state, layers: value[1] }, loss: value[0] };
      },
    });
  const lossesOf = async (loop: Awaited<ReturnType<typeof own>>, ...epochs: number[]): Promise<number[]> => {
    const found: number[] = [];
    for (const epoch of epochs)
      for await (const batch of loop.batches(rows, { epoch })) found.push(await (await loop.run(batch)).loss.item());
    return found;
  };

  test("it gives the bits of train, and what drops nothing the losses without compression", async () => {
    const seen: number[] = [];
    const callbacks = { onStep: ({ loss }: { loss: number }) => void seen.push(loss) };
    const result = await train({ ...given, optimizer: plain, mesh: two, callbacks, compression: lossy });
    const loop = await own(two, lossy);
    expect(await lossesOf(loop, 0, 1)).toEqual(seen);
    expect(await bits(loop.state.params)).toEqual(await bits(result.params));
    const expected = await lossesOf(await own(two, undefined), 0, 1);
    expect(expected).not.toEqual(seen);
    for (const by of [topK({ ratio: 1 }), powerSgd({ rank: 64, gain: 0 })])
      for (const [index, loss] of (await lossesOf(await own(two, { by, least: 0 }), 0, 1)).entries())
        expect(loss).toBeCloseTo(expected[index] as number, 4);
  });

  test("what was not sent is saved and gone on with, also on another number of devices and in parts", async () => {
    const path = join(folder, "compressed.safetensors");
    const whole = await own(two, lossy);
    await lossesOf(whole, 0);
    await whole.save(path);
    const rest = await lossesOf(whole, 1);
    for (const [axes, layout, exact] of [
      [two, undefined, true],
      [two, layouts.fullySharded(), false],
      [mesh({ data: 4 }), undefined, false],
    ] as const) {
      const again = await own(axes, lossy, layout);
      await again.load(path);
      expect(again.steps).toBe(4);
      const found = await lossesOf(again, 1);
      if (exact) expect(found).toEqual(rest);
      else expect(found[0]).toBeCloseTo(rest[0] as number, 4);
    }
    await expect((await own(two, undefined)).load(path)).rejects.toThrow(/has another state: compression\.momentum/);
    await expect((await own(two, { by: "powerSgd", least: 16 })).load(path)).rejects.toThrow(/has another state/);
  });

  test("mistakes are named", async () => {
    const w = tensor([1, 2]);
    const loop = (step: (...given: never[]) => { state: { params: { w: Tensor } } }, more: object = {}) =>
      distributedStep({ state: { params: { w } }, step: step as never, mesh: two, compression: "sign", ...more });
    const ran = async (step: Parameters<typeof loop>[0]) =>
      (await loop(step)).run({ x: zeros([4, 2]), y: zeros([4]) } as never);
    type Given = { exchange: (grads: unknown) => { w: Tensor } };
    await expect(ran((state: { params: { w: Tensor } }) => ({ state }))).rejects.toThrow(
      /the step does not call exchange/,
    );
    await expect(
      ran((_state: unknown, _batch: unknown, { exchange }: Given) => ({ state: { params: exchange({ v: w }) } })),
    ).rejects.toThrow(/exchange takes gradients of state\.params, \[w\], got \[v\]/);
    await expect(
      ran((_state: unknown, _batch: unknown, { exchange }: Given) => ({
        state: { params: exchange(exchange({ w })) },
      })),
    ).rejects.toThrow(/a step calls exchange twice/);
    await expect(loop((state: never) => ({ state }), { state: { w } })).rejects.toThrow(/the state has no 'params'/);
    await expect(loop((state: never) => ({ state }), { compression: { by: "topK", warmup: 1 } })).rejects.toThrow(
      /a warm-up counts epochs/,
    );
    await expect(loop((state: never) => ({ state }), { compression: "topk" })).rejects.toThrow(/no compressor 'topk'/);
  });
});
