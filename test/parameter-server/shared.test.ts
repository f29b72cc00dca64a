/** Bodies through a file in memory: who can open it, what becomes of regions and arrays, and values that come over as over a link. */
import { existsSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { optim, type Tensors } from "heddle";
import { describe, expect, test } from "vitest";
import { shardsOf } from "../../src/parameter-server/shards.ts";
import { Leases } from "../../src/parameter-server/shared/leases.ts";
import { Room } from "../../src/parameter-server/shared/room.ts";
import { SharedFile } from "../../src/parameter-server/shared/shared-file.ts";
import { open, started } from "./cluster.ts";

const inMemory = process.platform === "linux" && existsSync("/dev/shm");
const create = (): SharedFile => {
  const file = SharedFile.create() as SharedFile;
  open.push(file);
  return file;
};

describe.skipIf(!inMemory)("a file in memory", () => {
  test("is the same on both sides, and has no name once it is taken away", async () => {
    const own = create();
    const other = SharedFile.open(own.path) as SharedFile;
    open.push(other);
    expect(other.token).toBe(own.token);
    own.unname();
    expect(SharedFile.open(own.path)).toBeUndefined();
    const body = Uint8Array.from({ length: 9_000_001 }, (_unused, index) => index % 251);
    const region = own.take(body.length);
    expect(await own.write(region?.offset ?? 0, [body.subarray(0, 10), body.subarray(10)])).toBe(true);
    expect(Buffer.compare((await other.read(region?.offset ?? 0, body.length)) as Uint8Array, body)).toBe(0);
  });

  test("only files that were made for it are opened", () => {
    const target = join(tmpdir(), `heddle-shared-${process.pid}`);
    const link = `/dev/shm/heddle-link-${"0".repeat(32)}`;
    writeFileSync(target, Buffer.alloc(64));
    symlinkSync(target, link);
    try {
      for (const path of ["/etc/passwd", target, link, `/dev/shm/../${target}`, `${link}/x`, ""])
        expect(SharedFile.open(path)).toBeUndefined();
    } finally {
      rmSync(target);
      rmSync(link);
    }
  });

  test("what is beyond its end cannot be read, and nothing after it is closed", async () => {
    const file = create();
    expect(await file.read(2 ** 20, 100)).toBeUndefined();
    file.close();
    expect(await file.write(0, [new Uint8Array(8)])).toBe(false);
    expect(await file.read(0, 8)).toBeUndefined();
  });

  test("a close waits for what is under way", async () => {
    const file = create();
    const body = new Uint8Array(2 ** 25).fill(7);
    const written = file.write(2 ** 16, [body]);
    file.close();
    expect(await written).toBe(true);
  });

  test("regions do not overlap, and are used again", () => {
    const file = create();
    const taken = [10, 70_000, 65_536, 100_000, 1].map((bytes) => file.take(bytes) as { offset: number; size: number });
    const sorted = [...taken].sort((a, b) => a.offset - b.offset);
    for (const [index, { offset, size }] of sorted.entries())
      expect(sorted[index + 1]?.offset ?? Infinity).toBeGreaterThanOrEqual(offset + size);
    file.giveBack(taken[1] as never);
    expect(file.take(131_072)).toEqual(taken[1]);
    expect(file.take(2 ** 33)).toBeUndefined();
  });
});

test("an array is used again when its last lease has ended, and not before", () => {
  const leases = new Leases();
  const first = leases.take(100_000);
  leases.share(first);
  leases.end(first);
  expect(leases.take(100_000).buffer).not.toBe(first.buffer);
  leases.end(first.subarray(5));
  expect(leases.take(90_000).buffer).toBe(first.buffer);
  // Not twice: it has a lease again.
  expect(leases.take(90_000).buffer).not.toBe(first.buffer);
  // Arrays of others are left alone.
  const other = new Uint8Array(100_000);
  leases.end(other);
  expect(leases.take(100_000).buffer).not.toBe(other.buffer);
});

test("what is under way is never more than there is room for, and comes in its order", async () => {
  const room = new Room(100);
  let [used, most] = [0, 0];
  const order: number[] = [];
  const sizes = [60, 60, 30, 500, 10, 100, 1, 40, 40, 40];
  await Promise.all(
    sizes.map(async (bytes, index) => {
      const leave = await room.take(bytes);
      order.push(index);
      used += Math.min(bytes, 100);
      most = Math.max(most, used);
      await new Promise((resolve) => setTimeout(resolve, 1 + (index % 3)));
      used -= Math.min(bytes, 100);
      leave();
    }),
  );
  expect(order).toEqual([...sizes.keys()]);
  expect(most).toBe(100);
});

const size = 40_000;
const optimizer = optim.sgd({ learningRate: 1 });
const shards = (servers: number) =>
  shardsOf(
    optimizer,
    { params: { weight: { shape: [size], dtype: "f64" } } as unknown as Tensors, slots: {}, dtype: "f64" },
    servers,
  );
const filled = (value: number) => new Map([["weight", new Uint8Array(new Float64Array(size).fill(value).buffer)]]);

test.each([1, 2])("%d servers: many large pushes of two workers at once, each counted once", async (servers) => {
  const { client } = await started(servers, { workers: 2 });
  const clocks = 12;
  const work = async (worker: number): Promise<number[]> => {
    const own = client(worker);
    await own.open(shards(servers), { policy: "async" });
    if (worker === 0) await own.load(filled(0), new Map(), 0, "begun");
    await own.start();
    let { version } = await own.clock(0, 0);
    for (let clock = 0; clock < clocks; clock++) {
      const values = await own.pull(version);
      // All elements are of one version.
      for (const server of [0, servers - 1]) {
        const part = new Float64Array((values.get("weight") as Uint8Array).slice().buffer);
        const own = part.subarray((server * size) / servers, ((server + 1) * size) / servers);
        expect(own.every((value) => value === own[0])).toBe(true);
      }
      own.recycle(values);
      await own.push(clock, filled(-(2 ** (clock + worker * clocks))), [1]);
      ({ version } = await own.clock(clock + 1, 1));
    }
    await own.leave();
    return [...new Float64Array(((await own.pull(await own.finish())).get("weight") as Uint8Array).slice().buffer)];
  };
  // Each push is a bit of its own.
  for (const values of await Promise.all([work(0), work(1)]))
    expect([...new Set(values)]).toEqual([2 ** (2 * clocks) - 1]);
});

test("a thousand pulls at once, more than there is room for, are all answered", async () => {
  const { client } = await started(1, { workers: 1 });
  const own = client(0);
  await own.open(shards(1), { policy: "async" });
  await own.load(filled(3), new Map(), 0, "begun");
  const { version } = await own.clock(0, 0);
  const pull = async (): Promise<boolean> => {
    const values = await own.pull(version);
    const bytes = values.get("weight") as Uint8Array;
    const isWhole = new Float64Array(bytes.slice().buffer).every((value) => value === 3);
    own.recycle(values);
    return isWhole;
  };
  // The first one says how much room an answer takes.
  await pull();
  const answers = await Promise.all(Array.from({ length: 1000 }, pull));
  expect(answers.filter((isWhole) => isWhole)).toHaveLength(1000);
  await own.leave();
});
