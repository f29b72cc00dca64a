/** Runs many steps and eager expressions, and makes many models; prints live buffers and resident memory at the middle and the end. */
import { setImmediate as turn } from "node:timers/promises";
import { loadNative } from "../../src/executors/native/binding.ts";
import { grad, jit, random, type Tensor, tensor } from "../../src/functions/index.ts";
import * as nn from "../../src/nn/index.ts";

const native = loadNative();
if ("error" in native) throw new Error(native.error);

/** Lets finalizers run, then measures. */
async function measure(): Promise<{ buffers: number; bytes: number }> {
  for (let round = 0; round < 5; round++) {
    (globalThis as { gc?: () => void }).gc?.();
    await turn();
  }
  return {
    buffers: (native as { memory(): { liveBuffers: number } }).memory().liveBuffers,
    bytes: process.memoryUsage.rss(),
  };
}

const x = random.uniform(random.key(1), [64, 128]);
const y = random.uniform(random.key(2), [64, 1]);
const loss = (params: { w: Tensor; v: Tensor }): Tensor =>
  x.matmul(params.w).relu().matmul(params.v).sub(y).pow(2).mean();
const gradient = grad(loss);
const step = jit(
  (params: { w: Tensor; v: Tensor }) => {
    const g = gradient(params);
    return { w: params.w.sub(g.w.mul(0.01)), v: params.v.sub(g.v.mul(0.01)) };
  },
  { donate: [0] },
);

async function steps(count: number): Promise<void> {
  let params = { w: random.uniform(random.key(3), [128, 256]), v: random.uniform(random.key(4), [256, 1]) };
  for (let index = 0; index < count; index++) {
    params = step(params);
    if (index % 10 === 0) await params.w.data();
  }
}

async function expressions(count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const value = x.add(index).mul(2).sum().sub(tensor(index));
    await value.item();
  }
}

async function scoped(count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    using sum = x.add(index);
    using total = sum.sum();
    total.itemSync();
  }
}

const model = (): nn.Layer => nn.sequential(nn.linear(64), nn.relu(), nn.linear(10));

/** A tenth as many: each is a record of tensors, and applied once. */
async function models(count: number): Promise<void> {
  for (let index = 0; index < count / 10; index++) {
    const made = model();
    const { params, state } = made.init(random.key(index), { dtype: "f32", shape: [8, 128] });
    const { y } = made.apply({ params, state }, x.slice([0, 0], [8, 128]));
    await y.data();
  }
}

const half = 5000;
const results: Record<string, unknown> = {};
for (const [name, work] of Object.entries({ steps, expressions, scoped, models })) {
  await work(half);
  const before = await measure();
  await work(half);
  const after = await measure();
  results[name] = { before, after };
}
console.log(JSON.stringify(results));
