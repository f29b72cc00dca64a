import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Batch,
  type Column,
  type Dataset,
  fromArrays,
  hostGather,
  loader,
  type RowGather,
} from "../../src/data/index.ts";

const dataset: Dataset = fromArrays({
  x: { shape: [103, 2], data: Float32Array.from({ length: 206 }, (_unused, index) => index) },
  y: { shape: [103], data: Int32Array.from({ length: 103 }, (_unused, index) => index) },
})
  .shuffle({ seed: 1 })
  .batch(10);

/** Buffers by number, so that a test sees which are alive; gathers finish when the test says so. */
class Buffers {
  readonly live = new Set<number>();
  made = 0;
  waiting: (() => void)[] = [];
  held = false;
  /** Calls of the gather, counted from 0, that fail. */
  failing = new Set<number>();

  readonly gather: RowGather<number> = async () => {
    const id = this.made++;
    if (this.held) await new Promise<void>((resolve) => this.waiting.push(resolve));
    if (this.failing.has(id)) throw new Error("disk on fire");
    this.live.add(id);
    return id;
  };

  readonly release = (id: number): void => {
    expect(this.live.delete(id)).toBe(true);
  };

  finish(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}

const freeAll = (batch: Batch<number>, buffers: Buffers): void => {
  for (const id of batch.columns.values()) buffers.release(id);
};

describe("loader", () => {
  test("gives the rows of every column, in order, the short batch last", async () => {
    const seen: number[] = [];
    for await (const batch of loader(dataset, { gather: hostGather, epoch: 2 })) {
      const [x, y] = [batch.columns.get("x"), batch.columns.get("y")];
      expect(x?.shape).toEqual([batch.local.length, 2]);
      expect([...(y?.data ?? [])]).toEqual([...batch.local]);
      expect([...(x?.data ?? [])]).toEqual([...batch.local].flatMap((row) => [row * 2, row * 2 + 1]));
      seen.push(...batch.local);
    }
    expect(seen.length).toBe(103);
    expect(new Set(seen).size).toBe(103);
  });

  test("resumed at any step it gives what an uninterrupted one gives from there", async () => {
    const from = async (step: number, ranks: number, rank: number): Promise<number[][]> => {
      const batches: number[][] = [];
      for await (const { local } of loader(dataset, { gather: hostGather, epoch: 1, step, ranks, rank }))
        batches.push([...local]);
      return batches;
    };
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: 11 }), fc.integer({ min: 1, max: 4 }), async (step, ranks) => {
        for (let rank = 0; rank < ranks; rank++) {
          expect(await from(step, ranks, rank)).toEqual((await from(0, ranks, rank)).slice(step));
        }
      }),
      { numRuns: 20 },
    );
  });

  test("keeps two batches ahead of the one in use, and no more", async () => {
    const buffers = new Buffers();
    const batches = loader(dataset, { ...pick(buffers) });
    expect(buffers.made).toBe(0);
    for (let step = 0; step < 5; step++) {
      const { value } = await batches.next();
      await turn();
      expect(buffers.made).toBe(2 * (step + 3));
      freeAll(value as Batch<number>, buffers);
    }
    await batches.return();
    expect(buffers.live.size).toBe(0);
  });

  test.each([0, 1, 5])("ahead %i", async (ahead) => {
    const buffers = new Buffers();
    const batches = loader(dataset, { ...pick(buffers), ahead });
    freeAll((await batches.next()).value as Batch<number>, buffers);
    await turn();
    expect(buffers.made).toBe(2 * (1 + ahead));
    await batches.return();
    expect(buffers.live.size).toBe(0);
  });

  test("an abort by a timer is served while batches are read from memory", async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error("stop")), 20);
    const endless = async (): Promise<void> => {
      for (;;) for await (const _batch of loader(dataset, { gather: hostGather, signal: controller.signal }));
    };
    await expect(endless()).rejects.toThrow("stop");
  });

  test("leaving the loop waits for copies under way and releases them", async () => {
    const buffers = new Buffers();
    for await (const batch of loader(dataset, pick(buffers))) {
      freeAll(batch, buffers);
      if (batch.step === 2) {
        buffers.held = true;
      } else if (batch.step === 3) {
        setTimeout(() => buffers.finish(), 5);
        break;
      }
    }
    expect(buffers.waiting.length).toBe(0);
    expect(buffers.live.size).toBe(0);
  });

  test("an error in the loop's body leaks nothing", async () => {
    const buffers = new Buffers();
    const run = async (): Promise<void> => {
      for await (const batch of loader(dataset, pick(buffers))) {
        freeAll(batch, buffers);
        throw new Error("NaN in the loss");
      }
    };
    await expect(run()).rejects.toThrow("NaN in the loss");
    expect(buffers.live.size).toBe(0);
  });

  test("an abort while waiting throws its reason and leaks nothing", async () => {
    const buffers = new Buffers();
    buffers.held = true;
    const controller = new AbortController();
    const next = loader(dataset, { ...pick(buffers), signal: controller.signal }).next();
    await turn();
    controller.abort(new Error("stop"));
    setTimeout(() => buffers.finish(), 5);
    await expect(next).rejects.toThrow("stop");
    expect(buffers.made).toBeGreaterThan(0);
    expect(buffers.live.size).toBe(0);
  });

  test("an abort between batches, and one before the first", async () => {
    const buffers = new Buffers();
    const controller = new AbortController();
    const options = { ...pick(buffers), signal: controller.signal };
    const batches = loader(dataset, options);
    freeAll((await batches.next()).value as Batch<number>, buffers);
    controller.abort();
    await expect(batches.next()).rejects.toThrow(/abort/i);
    expect((await batches.next()).done).toBe(true);
    const made = buffers.made;
    await expect(loader(dataset, options).next()).rejects.toThrow(/abort/i);
    expect(buffers.made).toBe(made);
    expect(buffers.live.size).toBe(0);
  });

  test("a gather that fails is reported when its batch is due, and leaks nothing", async () => {
    const buffers = new Buffers();
    // The second column of the third batch.
    buffers.failing.add(5);
    const steps: number[] = [];
    const run = async (): Promise<void> => {
      for await (const batch of loader(dataset, pick(buffers))) {
        steps.push(batch.step);
        freeAll(batch, buffers);
      }
    };
    await expect(run()).rejects.toThrow('cannot gather column "y" of arrays, epoch 0, batch 2: disk on fire');
    expect(steps).toEqual([0, 1]);
    expect(buffers.live.size).toBe(0);
  });

  test("a rank without rows in the short batch still gets that batch", async () => {
    const shapes: unknown[] = [];
    for await (const batch of loader(dataset, { gather: hostGather, ranks: 4, rank: 3, step: 10 })) {
      shapes.push([batch.rows.length, batch.columns.get("x")?.shape]);
    }
    expect(shapes).toEqual([[3, [0, 2]]]);
  });

  test("a step past the end is refused, the end itself is an empty iteration", async () => {
    const gather = async (_column: Column): Promise<number> => 0;
    expect(() => loader(dataset, { gather, step: 12 })).toThrow("step must be");
    expect((await loader(dataset, { gather, step: 11 }).next()).done).toBe(true);
  });
});

function pick(buffers: Buffers): { gather: RowGather<number>; release: (id: number) => void } {
  return { gather: buffers.gather, release: buffers.release };
}
