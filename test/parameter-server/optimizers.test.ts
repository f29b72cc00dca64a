/** The update rules of all optimizers on the shards of 1, 2 and 3 servers: parameters and states of the rule on whole tensors. */
import { optim, type Tensor, type Tensors, tensor } from "heddle";
import { expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import { isTensor } from "../../src/functions/index.ts";
import { sizeOf } from "../../src/ir/shape.ts";
import { type Bytes, joinedState, stateOf } from "../../src/parameter-server/client.ts";
import { ShardState } from "../../src/parameter-server/shard-state.ts";
import { shardsOf } from "../../src/parameter-server/shards.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { partOf } from "../support/sample.ts";

// Biases before and after matrices, so that servers have states in another order; no matrix is square.
const shapes = { a: [3], b: [7, 3], c: [4], d: [], e: [2, 5, 3], f: [3, 8], empty: [0, 3] } as const;

const tensors = (names: readonly string[], value: (index: number) => number): Tensors =>
  Object.fromEntries(
    names
      .map((name) => [name, shapes[name as keyof typeof shapes]] as const)
      .map(([name, shape], at) => {
        const data = Float64Array.from({ length: sizeOf(shape) }, (_unused, index) => value(31 * at + index));
        return [name, tensor(data, { shape: [...shape], dtype: "f64" })];
      }),
  );

function typesOf(tree: Tensors): Tensors {
  const { leaves, shape } = flattenTree<Tensor>(tree, isTensor);
  return unflattenTree(
    shape,
    leaves.map(({ shape, dtype }) => ({ shape, dtype })),
  ) as unknown as Tensors;
}

async function bytes(tree: Tensors): Promise<Bytes> {
  const { leaves, paths } = flattenTree(tree, isTensor);
  const read = await Promise.all(leaves.map(async (leaf) => (await (leaf as Tensor).data()) as Float64Array));
  return new Map(paths.map((path, index) => [path, new Uint8Array((read[index] as Float64Array).slice().buffer)]));
}

const numbers = (map: Bytes): Map<string, Float64Array> =>
  new Map([...map].map(([path, list]) => [path, new Float64Array(list.slice().buffer)]));

function expectClose(one: Bytes, other: Bytes): void {
  const [ours, theirs] = [numbers(one), numbers(other)];
  // No server has a tensor without elements, nor its states.
  expect([...ours.keys()].sort()).toEqual([...theirs.keys()].filter((path) => !path.endsWith("empty")).sort());
  for (const [path, list] of ours) {
    expect([path, list.length]).toEqual([path, theirs.get(path)?.length]);
    for (const [index, value] of list.entries()) {
      const wanted = theirs.get(path)?.[index] as number;
      if (!Object.is(value, wanted)) expect(Math.abs(value - wanted), `${path}[${index}]`).toBeLessThan(1e-9);
    }
  }
}

const rate = { learningRate: 0.01 };
const rules: readonly optim.Optimizer[] = [
  optim.sgd(rate),
  optim.sgd({ ...rate, momentum: 0.9, weightDecay: 0.1 }),
  optim.adam({ ...rate, amsgrad: true }),
  optim.adamW(rate),
  optim.adamax(rate),
  optim.nAdam(rate),
  optim.rAdam(rate),
  optim.lion(rate),
  optim.lamb(rate),
  optim.adafactor(rate),
  optim.adagrad(rate),
  optim.adadelta(rate),
  optim.rmsProp(rate),
  optim.rprop(rate),
  optim.ftrl(rate),
  optim.lbfgs({ ...rate, historySize: 2 }),
  optim.lazy(optim.adam(rate), "b"),
  optim.lazy(optim.nAdam(rate), "b"),
  optim.groups({ "{a,b}": optim.adafactor(rate), "**": optim.nAdam(rate) }),
];

const steps = 3;

const table = rules.map((rule, index) => [`${index} ${rule.name}`, rule, index] as const);
test.skipIf(missing !== undefined).each(partOf(table, 2))("%s", async (_name, rule, index) => {
  // L-BFGS takes no tensor without elements.
  const names = Object.keys(shapes).filter((name) => rule.name !== "lbfgs" || name !== "empty");
  const gradient = (step: number): Tensors => tensors(names, (index) => Math.sin(index * 1.7 + step));
  let params = tensors(names, (index) => Math.cos(index * 0.7));
  let state = rule.init(params);
  const begin = { params: await bytes(params), slots: await bytes(state) };
  const types = { params: typesOf(params), slots: typesOf(state), dtype: "f64" } as const;
  for (let step = 0; step < steps; step++) ({ params, state } = rule.update(gradient(step), state, params, { step }));
  const end = { params: await bytes(params), slots: await bytes(state) };
  // One of the three in turns.
  for (const servers of partOf([1, 2, 3], 3, index)) {
    const shards = shardsOf(rule, types, servers);
    const runtime = localRuntime({ threads: 1 });
    const kept = shards.map((shard) => new ShardState(JSON.stringify(shard), runtime));
    for (const [index, shard] of kept.entries())
      shard.load(stateOf(shards[index] as never, begin.params, begin.slots), 0);
    for (let clock = 0; clock < steps; clock++) {
      const grads = await bytes(gradient(clock));
      for (const [index, shard] of kept.entries()) {
        const { params: pieces, rates } = shards[index] as (typeof shards)[number];
        const body = stateOf({ params: pieces, slots: [] }, grads, new Map());
        shard.push(
          { type: "push", shard: index, client: 0, incarnation: 1, clock, rates: new Array(rates).fill(0.01) },
          body,
        );
        await shard.apply(clock, [{ type: "step", parts: [{ worker: 0, clock, weight: 1 }] }]);
      }
    }
    const last = await Promise.all(kept.map(async (shard) => (await shard.snapshot(steps, false)).bytes));
    const joined = joinedState(shards, last);
    runtime.close();
    expectClose(joined.params, end.params);
    expectClose(joined.slots, end.slots);
  }
});
