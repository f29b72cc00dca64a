/** Servers and clients in one process, over loopback: what they keep, who waits for whom, and that nothing is lost or counted twice. */

import { connect } from "node:net";
import { optim } from "heddle";
import { describe, expect, test } from "vitest";
import { type Frame, greet } from "../../src/executors/remote/channel.ts";
import { type Bytes, ServerClient } from "../../src/parameter-server/client.ts";
import { describeStatistics } from "../../src/parameter-server/report.ts";
import type { Shard } from "../../src/parameter-server/shards.ts";
import { filled, numbers, open, secret, shardsFor, sizes, started } from "./cluster.ts";

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

test("a worker that is lost before there are shards is not waited for", async () => {
  const { client, servers } = await started(2, { workers: 2 });
  for (const server of servers) server.lost(1);
  const own = client(0);
  await own.open(shardsFor(2), { policy: "bsp" });
  await own.load(filled(0), new Map(), 0, "begun");
  const { version } = await own.clock(0, 0);
  await own.pull(version);
  await own.push(0, filled(-1), [1]);
  const next = await own.clock(1, 1);
  expect(numbers((await own.pull(next.version)).get("bias"))).toEqual([1, 1, 1]);
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

test("the report names the worker that others waited for, and not the one that waits", () => {
  const worker = (waited: Record<number, number>) => ({ worker: 0, clocks: 2, rows: 8, secondsPerClock: 0.5, waited });
  const linesOf = (waited: Record<number, number>): string | undefined => {
    const rest = { policy: "bsp", steps: 2, staleness: {}, dropped: 0, servers: [], tables: [] };
    return describeStatistics({ ...rest, workers: [worker(waited)] })[1];
  };
  expect(linesOf({ 0: 1, 2: 2 })).toBe(
    "  worker 0: 2 clocks of 500.0 ms, 8 rows; waited 3.0 s, most of it while worker 2 was slowest",
  );
  expect(linesOf({ 0: 2, 2: 1 })).toBe("  worker 0: 2 clocks of 500.0 ms, 8 rows; waited 3.0 s");
});

describe("requests that are refused change nothing", () => {
  /** A worker's link, with requests as they come. */
  async function linked(worker: number) {
    const { client, addresses } = await started(1, { workers: 2 });
    const own = client(0);
    await own.open(shardsFor(1), { policy: "async" });
    await own.load(filled(7), new Map(), 0, "begun");
    const [host, port] = (addresses[0] as string).split(":") as [string, string];
    const socket = connect({ host, port: Number(port) });
    await new Promise((resolve) => socket.once("connect", resolve));
    const channel = await greet(socket, "driver", { secret, timeout: 5000, peer: "the server" });
    const ended = new Promise<string>((resolve) => channel.onEnd((error) => resolve(error?.plain ?? "closed")));
    const answers: Frame[] = [];
    const heard = (): Promise<Frame> =>
      new Promise((resolve) =>
        channel.onFrame((frame) => {
          answers.push(frame);
          resolve(frame);
        }),
      );
    const ask = (head: object, body?: Uint8Array): Promise<Frame> => {
      const answer = heard();
      channel.send({ ...head } as never, ...(body === undefined ? [] : [body]));
      return answer;
    };
    if (worker >= 0) await ask({ n: 1, type: "hello", role: "worker", client: worker, incarnation: 5 });
    return { ask, channel, ended, own };
  }

  const push = { type: "push", shard: 0, client: 1, incarnation: 5, clock: 0, rates: [1] };
  test.each([
    ["before the hello", -1, { n: 3, type: "pull", shard: 0, version: 0 }, /before the hello/],
    ["of another type", 1, { n: 3, type: "eval", code: "1" }, /unknown type/],
    ["without a number", 1, { type: "pull", shard: 0, version: 0 }, /unknown type/],
    ["with a malformed field", 1, { n: 3, type: "pull", shard: -1, version: 0 }, /malformed shard/],
    ["for a shard that is not there", 1, { n: 3, type: "pull", shard: 9, version: 0 }, /does not have shard 9/],
    ["in the name of another", 1, { n: 3, ...push, client: 0 }, /asks 'push' for another/],
    ["of a server, by a worker", 1, { n: 3, type: "apply", from: 0, entries: [] }, /asks 'apply' for another/],
    ["of another life", 1, { n: 3, ...push, incarnation: 4 }, /another life/],
    ["with too few bytes", 1, { n: 3, ...push }, /gradients of 0 bytes for a shard that needs 152/],
    ["with other parameters", 1, { n: 3, type: "create", shard: 0, spec: "{}" }, /other parameters/],
    ["with another policy", 1, { n: 3, type: "decide", rule: '{"policy":"bsp"}' }, /has the policy/],
    [
      "with a clock that does not follow",
      1,
      { n: 3, type: "clock", clock: 9, rows: 1, pulled: [0], size: 0 },
      /ends clock 9/,
    ],
    [
      "with malformed rows",
      1,
      { n: 3, type: "rows", shard: 0, heads: '[[{"rows":-1}]]' },
      /what rows of tables are, is malformed/,
    ],
    [
      "for rows of a hash that is too long",
      1,
      { n: 3, type: "pull", shard: 0, version: 0, lists: 0, keys: "k".repeat(65) },
      /malformed keys/,
    ],
    ["with a malformed region", 1, { n: 3, ...push, region: [0] }, /malformed region/],
    ["with a body beyond its region", 1, { n: 3, ...push, region: [0, 8], shared: 9 }, /malformed region/],
    [
      "with a body in a region of no file",
      1,
      { n: 3, ...push, region: [0, 999], shared: 152 },
      /not in the memory of both/,
    ],
    ["with filters that there are not", 1, { n: 3, ...push, parts: "{}" }, /a push with filters/],
    ["with a negative size", 1, { n: 3, type: "clock", clock: 0, rows: 0, pulled: [0], size: -1 }, /malformed size/],
  ] as const)("%s", async (_what, worker, request, message) => {
    const { ask, own } = await linked(worker);
    const { head } = await ask(request);
    expect((head["error"] as { message: string }).message).toMatch(message);
    expect(numbers((await own.pull(0)).get("scale"))).toEqual([7]);
  });

  test("a body that is too large ends the link before there is memory for it", async () => {
    const { channel, ended } = await linked(1);
    channel.send({ n: 4, ...push }, new Uint8Array(2 ** 26 + 1));
    expect(await ended).toMatch(/has ended the link|ECONNRESET|EPIPE/);
  });

  test("a client with another secret gets no answer", async () => {
    const { addresses } = await started(1, { workers: 1 });
    const stranger = new ServerClient({
      servers: addresses,
      secret: "another secret of a stranger",
      worker: 0,
      incarnation: 1,
      timeout: 1,
    });
    open.push(stranger);
    await expect(stranger.open(shardsFor(1), { policy: "bsp" })).rejects.toThrow(/was away for 1 s/);
  });
});

test("a rule whose state is of whole tensors is on one server, with all that its updates need", async () => {
  const shards = shardsFor(2, optim.adafactor({ learningRate: 0.1 }));
  for (const { params } of shards) for (const { start } of params) expect(start).toBe(0);
  expect(shards.flatMap(({ params }) => params.map(({ path }) => path)).sort()).toEqual(["bias", "scale", "weight"]);
});

test("groups whose patterns miss a server's part are on one server", async () => {
  const rule = optim.groups({ scale: optim.sgd({ learningRate: 1 }), "**": optim.adam({ learningRate: 0.1 }) });
  const [first, second] = shardsFor(2, rule) as [Shard, Shard];
  expect(first.params.map(({ path, rows }) => [path, rows])).toEqual([
    ["weight", 5],
    ["bias", 3],
    ["scale", 1],
  ]);
  expect([second.params, second.slots, first.rates]).toEqual([[], [], 2]);
});
