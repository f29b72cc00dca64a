/** Low-rank adapters: what they compute and train, merged and not, on several devices. */
import { jit, layouts, mesh, nn, optim, random, replicate, type Tensor, type TrainOptions, train } from "heddle";
import { expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { bars, options } from "../train/synthetic.ts";

const key = random.key(0);
const f64 = (...shape: number[]) => ({ shape, dtype: "f64" as const });
const input = (...shape: number[]): Tensor => random.normal(random.key(7), shape, { dtype: "f64" });
const paths = (tree: unknown): string[] => flattenTree(tree, isTensor).paths;
const numbers = async (tree: unknown): Promise<number[]> =>
  (await Promise.all(flattenTree<Tensor>(tree, isTensor).leaves.map(async (x) => [...(await x.data())]))).flat();

const net = () =>
  nn.module(
    {
      body: nn.sequential(nn.flatten(), nn.linear(8), nn.tanh()),
      head: nn.remat(nn.sequential(nn.linear(3, { bias: false }))),
    },
    (l, x) => l.head(l.body(x)),
  );

test("an adapter begins as nothing, is alpha / rank · x · aᵀ · bᵀ, and merges into the weight", async () => {
  const [plain, layer] = [nn.linear(4), nn.lora(nn.linear(4), { rank: 2, alpha: 6 })];
  const { params, state } = layer.init(key, f64(5, 3));
  expect([params.weight, params.lora_a, params.lora_b].map(({ shape }) => shape)).toEqual([
    [4, 3],
    [2, 3],
    [4, 2],
  ]);
  const x = input(5, 3);
  const base = { params: { weight: params.weight, bias: params.bias }, state };
  expectClose(await layer.apply({ params, state }, x).y.data(), await plain.apply(base, x).y.data(), 0);
  const taught = { ...params, lora_b: input(4, 2) };
  const y = layer.apply({ params: taught, state }, x).y;
  const byHand = plain
    .apply(base, x)
    .y.add(x.matmul(params.lora_a.transpose()).matmul(taught.lora_b.transpose()).mul(3));
  expectClose(await y.data(), await byHand.data(), 1e-12);
  const merged = nn.mergeLora(layer, { params: taught, state });
  expect(paths(merged.params)).toEqual(["weight", "bias"]);
  expectClose(await jit((z: Tensor) => plain.apply(merged, z).y)(x).data(), await y.data(), 1e-12);
});

const task = (more: Partial<TrainOptions>): TrainOptions => {
  const optimizer = optim.adam({ learningRate: 0.05 });
  const model = nn.lora(net(), { rank: 2, alpha: 4 });
  // On the devices of eager tensors, for which the answers are compared.
  const { executor: _executor, ...rest } = options({
    model,
    optimizer,
    data: bars(24, { size: 4 }).batch(8),
    dtype: "f64",
    epochs: 2,
    ...more,
  });
  return rest;
};

test("adapters inside of a network are trained alone, on one device as on two, and merge into the network", async () => {
  const model = nn.lora(net(), { rank: 2, alpha: 4 });
  const { params, state, optimizerState } = await train({ ...task({}), model });
  expect(paths(params)).toEqual([
    "body.1.weight",
    "body.1.bias",
    "body.1.lora_a",
    "body.1.lora_b",
    "head.0.weight",
    "head.0.lora_a",
    "head.0.lora_b",
  ]);
  for (const path of paths(optimizerState)) expect(path).toMatch(/\.lora_[ab]$/);
  const first = await train({ ...task({ epochs: 0 }), model });
  expect(await numbers(params.body["1"].weight)).toEqual(await numbers(first.params.body["1"].weight));
  for (const where of [
    { mesh: mesh({ data: 2 }) },
    { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() },
  ] as const) {
    const other = await train(task(where));
    expectClose(
      (
        await Promise.all(
          flattenTree<Tensor>(other.params, isTensor).leaves.map(async (x) => [...(await replicate(x).data())]),
        )
      ).flat(),
      await numbers(params),
      1e-9,
    );
  }
  const x = input(2, 1, 4, 4);
  const merged = nn.mergeLora(model, { params, state });
  expectClose(await net().apply(merged, x).y.data(), await model.apply({ params, state }, x).y.data(), 1e-10);
});

test("layers are chosen by name; a layer in two places has one adapter", () => {
  const twice = nn.linear(3);
  const model = nn.sequential(twice, nn.tanh(), twice, nn.linear(2));
  expect(paths(nn.lora(model, { rank: 1, layers: "{0,2}" }).init(key, f64(1, 3)).params)).toEqual([
    "0.weight",
    "0.bias",
    "0.lora_a",
    "0.lora_b",
    "3.weight",
    "3.bias",
  ]);
});

test.each<readonly [string, () => unknown, RegExp]>([
  [
    "a rank above both dims of a weight",
    () => nn.lora(net(), { rank: 33 }).init(key, f64(1, 3)),
    /^layer body.1 \(lora\): the rank 33 is above both dims of the weight, \d+ by \d+/,
  ],
  ["a rank of 0", () => nn.lora(nn.linear(2), { rank: 0 }), /^lora: rank must be at least 1/],
  [
    "no linear layer",
    () => nn.lora(nn.sequential(nn.relu()), { rank: 1 }),
    /^lora: takes a linear layer, or a layer with linear layers inside, got a sequential/,
  ],
  [
    "a pattern of none",
    () => nn.lora(net(), { rank: 1, layers: "tail" }),
    /^lora: layers: "tail" matches none of the names[\s\S]*body.1, head.0/,
  ],
  ["a pattern that takes out all", () => nn.lora(net(), { rank: 1, layers: ["body", "!body"] }), /takes out all/],
  [
    "a pattern for a linear layer",
    () => nn.lora(nn.linear(1), { rank: 1, layers: "a" }),
    /is for a layer made of others/,
  ],
  [
    "no adapter",
    () => nn.mergeLora(nn.linear(2), nn.linear(2).init(key, f64(1, 1))),
    /^mergeLora: no layer of this linear has an adapter/,
  ],
])("refuses %s", (_name, run, message) => {
  expect(run).toThrow(message);
});
