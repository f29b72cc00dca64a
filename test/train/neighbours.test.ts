/** Copies in the memory of partners: who they are, and what arrives. */
import { expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import { distribute } from "../../src/functions/index.ts";
import { mesh, shardedOn } from "../../src/plan/index.ts";
import { byStep, Neighbours, type Partners, partnersOf } from "../../src/train/neighbours.ts";
import type { OwnPieces, RunState } from "../../src/train/state.ts";

test.each([1, 2, 3, 4, 5, 6, 7, 8, 9])("%s workers have partners, each in one group", (world) => {
  for (let rank = 0; rank < world; rank++) {
    const partners = partnersOf(rank, world);
    expect(partners).toContain(rank);
    expect(partners.length).toBe(world === 1 ? 1 : partners.length === 3 ? 3 : 2);
    for (const other of partners) expect(partnersOf(other, world)).toEqual(partners);
  }
  const threes = Array.from({ length: world }, (_unused, rank) => partnersOf(rank, world)).filter(
    ({ length }) => length === 3,
  );
  expect(threes.length).toBe(world > 1 && world % 2 === 1 ? 3 : 0);
});

/** Links of workers of one process: all wait for each other. */
function linksOf(world: number): Partners[] {
  const calls = new Map<string, { bytes: Uint8Array[]; resolve: (() => void)[] }>();
  const together = (rank: number, key: string, bytes: Uint8Array): Promise<Uint8Array> => {
    const call = calls.get(key) ?? { bytes: [], resolve: [] };
    calls.set(key, call);
    call.bytes[rank] = bytes;
    return new Promise((resolve) => {
      call.resolve.push(() => resolve(Buffer.concat(call.bytes)));
      if (call.resolve.length < world) return;
      expect(new Set(call.bytes.map(({ length }) => length)).size).toBe(1);
      for (const done of call.resolve) done();
    });
  };
  return Array.from({ length: world }, (_unused, rank) => {
    let count = 0;
    return {
      allGather: (bytes) => together(rank, `${count++}`, bytes),
      barrier: async () => void (await together(rank, `${count++}`, new Uint8Array())),
      abort: () => {},
      close: () => {},
    };
  });
}

/** What rank `rank` has of one sharded and one replicated value; sizes of parts differ, and one is larger than a message. */
const ownOf = (rank: number, step: number): OwnPieces => ({
  description: { step, position: { epoch: 0, step }, seed: 0, key: [], extra: {} },
  pieces: [
    {
      name: "params/part",
      type: { dtype: "u8", shape: [30_000_000] },
      start: [9_000_000 * rank],
      shape: [9_000_000 + rank],
      bytes: new Uint8Array(9_000_000 + rank).fill(16 * rank + step),
    },
    {
      name: "params/all",
      type: { dtype: "u8", shape: [2] },
      start: [0],
      shape: [2],
      bytes: Uint8Array.of(step, step),
    },
  ],
});

test.each([2, 3])("each of %s workers has the parts of its partners", async (world) => {
  const axes = mesh({ data: world });
  const runtime = localRuntime({ axes: axes.axes });
  const tensor = (shards: Record<string, number>) =>
    distribute(runtime, new Float32Array(6), { dtype: "f32", shape: [6] }, shardedOn(axes, shards));
  const values = { params: { part: tensor({ data: 0 }), all: tensor({}) }, optimizer: {}, state: {} };
  const stateAt = (steps: number) => ({ values, position: { steps } }) as unknown as RunState;
  const links = linksOf(world);
  const released: number[] = [];
  const said: string[] = [];
  const workers = links.map(
    (own, rank) =>
      new Neighbours({
        ...{ rank, world, mesh: axes, every: 4, hasTold: rank > 0, onComplete: () => {} },
        join: async () => own,
        copy: async ({ position: { steps } }) => ownOf(rank, steps),
        say: (line) => said.push(line),
      }),
  );
  const due = Array.from({ length: 9 }, (_unused, step) => workers[0]?.isDue(stateAt(step), false));
  expect(due.flatMap((is, step) => (is === true ? [step] : []))).toEqual([4, 8]);
  expect(workers[0]?.isDue(stateAt(3), true)).toBe(true);
  for (const steps of [4, 8]) {
    await Promise.all(workers.map((worker) => worker.begin(stateAt(steps), () => released.push(steps))));
    await Promise.all(workers.map((worker) => worker.finished()));
    for (const [rank, worker] of workers.entries()) {
      expect(worker.isDue(stateAt(steps), false)).toBe(false);
      const [copy, ...others] = worker.kept;
      expect(others).toEqual([]);
      expect(copy?.description.step).toBe(steps);
      const parts = partnersOf(rank, world).map((other) => ownOf(other, steps).pieces[0]);
      const found = copy?.pieces.filter(({ name }) => name === "params/part") ?? [];
      expect(found).toHaveLength(parts.length);
      for (const part of parts) {
        const same = found.find(({ start }) => `${start}` === `${part?.start}`);
        expect(Buffer.compare(same?.bytes as Uint8Array, part?.bytes as Uint8Array)).toBe(0);
      }
      // Of what all have, each worker keeps its own.
      expect(copy?.pieces.filter(({ name }) => name === "params/all")).toHaveLength(1);
    }
  }
  expect(released).toHaveLength(2 * world);
  expect(said).toHaveLength(1);
});

test("copies of one step are one, with each piece once", () => {
  const merged = byStep([ownOf(0, 3), ownOf(0, 5), ownOf(1, 3)]);
  expect(merged.map(({ description, pieces }) => [description.step, pieces.length])).toEqual([
    [5, 2],
    [3, 3],
  ]);
});

test("a copy that fails is told of, and the training goes on", async () => {
  const axes = mesh({ data: 2 });
  const runtime = localRuntime({ axes: axes.axes });
  const part = distribute(runtime, new Float32Array(6), { dtype: "f32", shape: [6] }, shardedOn(axes, { data: 0 }));
  const stateAt = (steps: number) =>
    ({ values: { params: { part }, optimizer: {}, state: {} }, position: { steps } }) as unknown as RunState;
  const said: string[] = [];
  let released = 0;
  const worker = new Neighbours({
    ...{ rank: 0, world: 2, mesh: axes, every: 1, hasTold: true, onComplete: () => {} },
    join: () => Promise.reject(new Error("no link")),
    copy: async () => ownOf(0, 1),
    say: (line) => said.push(line),
  });
  await worker.begin(stateAt(1), () => released++);
  await worker.finished();
  expect(released).toBe(1);
  expect(worker.kept).toHaveLength(1);
  expect(worker.isDue(stateAt(2), false)).toBe(false);
  expect(said).toEqual(["no more copies in the memory of other workers: no link"]);
});
