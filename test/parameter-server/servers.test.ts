/** Servers and clients in one process, over loopback: what they keep, who waits for whom, and that nothing is lost or counted twice. */
import { describe, expect, test } from "vitest";
import type { Bytes } from "../../src/parameter-server/client.ts";
import { filled, numbers, shardsFor, sizes, started } from "./cluster.ts";

describe.each([1, 3])("%d servers", (count) => {
  test.each(["bsp", "ssp:1", "async"])(
    "%s: pushes are applied once, all workers see the sum at the end",
    async (policy) => {
      const { client } = await started(count, { workers: 2 });
      const shards = shardsFor(count);
      const work = async (worker: number): Promise<Bytes> => {
        const own = client(worker);
        expect(await own.open(shards, { policy })).toBe(0);
        if (worker === 0) await own.load(filled(0), new Map(), 0, "begun");
        expect(await own.start()).toBe("begun");
        let begun = await own.clock(0, 0);
        for (let clock = 0; clock < 5; clock++) {
          await own.pull(begun.version);
          await own.push(clock, filled(-(worker + 1)), [1]);
          begun = await own.clock(clock + 1, 4);
        }
        await own.leave();
        return own.pull(await own.finish());
      };
      const [one, other] = await Promise.all([work(0), work(1)]);
      // In bsp a step is the mean of two workers, else each push is a step.
      const expected = policy === "bsp" ? 7.5 : 15;
      for (const [name, size] of Object.entries(sizes)) {
        expect(numbers(one?.get(name))).toEqual(new Array(size).fill(expected));
        expect(numbers(other?.get(name))).toEqual(new Array(size).fill(expected));
      }
    },
  );
});

test("a worker that comes back goes on where the servers are; a push of an earlier life counts once", async () => {
  const { client } = await started(2, { workers: 1 });
  const shards = shardsFor(2);
  const first = client(0, 1);
  await first.open(shards, { policy: "async" });
  await first.load(filled(0), new Map(), 0, "begun");
  await first.clock(0, 0);
  await first.push(0, filled(-1), [1]);
  await first.clock(1, 1);
  // Sent, but not said to be done: the next life does this clock again.
  await first.push(1, filled(-100), [1]);
  const second = client(0, 2);
  expect(await second.open(shards, { policy: "async" })).toBe(1);
  await second.clock(1, 1);
  await second.push(1, filled(-10), [1]);
  await second.push(1, filled(-10), [1]);
  await expect(first.clock(2, 1)).rejects.toThrow(/worker 0 has a newer life/);
  const { version } = await second.clock(2, 1);
  expect(numbers((await second.pull(version)).get("bias"))).toEqual([11, 11, 11]);
});
