/** Sums in the network: integers exactly and floats within the bound, whatever is lost, repeated or overtaken, with few slots. */

import { boundOf, joinSwitch, startSwitch } from "heddle/in-network";
import { describe, expect, test } from "vitest";
import { arrivals, type Losses } from "../../src/in-network/lossy.ts";
import { decode, encode, type Packet } from "../../src/in-network/packet.ts";
import { Pool } from "../../src/in-network/pool.ts";
import { Sum } from "../../src/in-network/sum.ts";
import { type DType, dtypes, isFloat, roundTo, type TypedArray } from "../../src/ir/dtype.ts";

/** A network in virtual time: packets arrive when `arrivals` says, in both directions. */
class Network {
  /** What arrives in each millisecond. */
  private readonly queue = new Map<number, (() => void)[]>();
  private readonly next: () => number[];
  now = 0;
  sent = 0;

  constructor(losses: Losses) {
    this.next = arrivals(losses);
  }

  travel(run: () => void): void {
    this.sent++;
    for (const delay of this.next()) {
      const at = this.now + 1 + delay;
      const others = this.queue.get(at);
      if (others === undefined) this.queue.set(at, [run]);
      else others.push(run);
    }
  }

  /** Runs until nothing is to be done; `tick` is called every two milliseconds. */
  run(isDone: () => boolean, tick: () => void): void {
    while (!isDone()) {
      if (this.now > 1e6) throw new Error("the network never ends");
      this.now++;
      for (const run of this.queue.get(this.now) ?? []) run();
      this.queue.delete(this.now);
      if (this.now % 2 === 0) tick();
    }
  }
}

/** Sums of what workers have, one after another, through one pool. */
function summed(
  rounds: readonly (readonly TypedArray[])[],
  dtype: DType,
  slots: number,
  losses: Losses,
): { results: TypedArray[][]; network: Network; again: number } {
  const workers = rounds[0]?.length as number;
  const pool = new Pool(workers, slots);
  const network = new Network(losses);
  const places = Array.from({ length: workers }, (_unused, worker) => ({
    job: 7,
    worker,
    workers,
    slots,
    phases: new Uint32Array(slots),
  }));
  const current: (Sum | undefined)[] = places.map(() => undefined);
  const results: TypedArray[][] = rounds.map(() => []);
  const round = places.map(() => -1);
  let again = 0;
  const toSwitch = (packets: readonly Packet[]): void => {
    for (const packet of packets) {
      const bytes = encode(packet);
      network.travel(() => {
        const answer = pool.receive(decode(bytes) as Packet);
        if (answer === undefined) return;
        for (const to of answer.to === "all" ? places.map(({ worker }) => worker) : [packet.worker]) {
          const reply = encode(answer.packet);
          network.travel(() => toWorker(to, decode(reply) as Packet));
        }
      });
    }
  };
  const begin = (worker: number): void => {
    for (;;) {
      const at = ++(round as number[])[worker]!;
      if (at >= rounds.length) return;
      const sum = new Sum(rounds[at]?.[worker] as TypedArray, dtype, places[worker] as (typeof places)[number]);
      current[worker] = sum;
      (results[at] as TypedArray[])[worker] = sum.result;
      toSwitch(sum.start(network.now));
      if (!sum.done) return;
    }
  };
  const toWorker = (worker: number, packet: Packet): void => {
    const sum = current[worker] as Sum;
    if (sum.done) return;
    const next = sum.receive(packet, network.now);
    if (next !== undefined) toSwitch([next]);
    if (!sum.done) return;
    again += sum.again;
    begin(worker);
  };
  for (const { worker } of places) begin(worker);
  network.run(
    () => round.every((at) => at >= rounds.length),
    () => {
      for (const sum of current) if (sum !== undefined) toSwitch(sum.due(network.now));
    },
  );
  return { results, network, again };
}

/** Values of a dtype over its range, the same everywhere. */
function valuesOf(dtype: DType, count: number, seed: number): TypedArray {
  let state = seed * 2654435761;
  const next = (): number => {
    state = Math.imul(state ^ (state >>> 15), 2246822519) + 374761393;
    return (state >>> 0) / 2 ** 32;
  };
  const { lowest, highest } = dtypes[dtype];
  // Magnitudes of floats differ from chunk to chunk.
  return dtypes[dtype].create(
    Array.from({ length: count }, (_unused, index) =>
      isFloat(dtype)
        ? (next() - 0.5) * 2 ** (Math.floor(index / 256) % 12)
        : Math.floor(lowest / 2 + next() * (highest / 2 - lowest / 2)),
    ),
  );
}

/** The sums that are due, and how far floats may be off. */
function check(dtype: DType, rows: readonly TypedArray[], results: readonly TypedArray[]): void {
  const [first] = results as [TypedArray];
  for (const other of results) expect(other).toEqual(first);
  const largest = Array.from({ length: isFloat(dtype) ? Math.ceil(first.length / 256) : 0 }, (_unused, chunk) =>
    Math.max(
      ...rows.flatMap((row) => Array.from(row.subarray(256 * chunk, 256 * chunk + 256) as Float64Array, Math.abs)),
    ),
  );
  for (let index = 0; index < first.length; index++) {
    const all = rows.map((row) => row[index] as number | bigint);
    if (!isFloat(dtype)) {
      const wrapped = roundTo(
        dtype,
        (typeof all[0] === "bigint"
          ? (all as bigint[]).reduce((sum, x) => sum + x)
          : (all as number[]).reduce((sum, x) => sum + x)) as number,
      );
      if (first[index] !== wrapped) expect(`${first[index]} at ${index}`).toBe(`${wrapped} at ${index}`);
      continue;
    }
    const sum = (all as number[]).reduce((total, x) => total + x, 0);
    const rounding =
      Math.abs(sum) * { f16: 2 ** -10, bf16: 2 ** -7, f32: 2 ** -23, f64: 2 ** -52 }[dtype as "f16"] +
      (dtype === "f16" ? 2 ** -24 : 0);
    expect(Math.abs((first[index] as number) - sum)).toBeLessThanOrEqual(
      boundOf(largest[Math.floor(index / 256)] as number, rows.length) + rounding,
    );
  }
}

describe("in virtual time", () => {
  const losses: readonly [string, Losses][] = [
    ["nothing is lost", {}],
    ["1 % are lost", { drop: 0.01, duplicate: 0.01, reorder: 0.05 }],
    ["10 % are lost", { drop: 0.1, duplicate: 0.1, reorder: 0.3 }],
    ["half of all are lost", { drop: 0.5, duplicate: 0.5, reorder: 0.5 }],
  ];
  describe.each(losses)("%s", (_what, shares) => {
    test.each([2, 4].flatMap((workers) => [1, 2].map((seed) => [workers, seed] as const)))(
      "%i workers, seed %i",
      (workers, seed) => {
        for (const dtype of ["f32", "i32"] as const) {
          // Sums of several sizes one after another: of no element, of one chunk, of more chunks than slots.
          const rounds = [3000, 0, 5, 1100, 2049].map((count, at) =>
            Array.from({ length: workers }, (_unused, worker) => valuesOf(dtype, count, seed + 10 * at + 100 * worker)),
          );
          const { results, again } = summed(rounds, dtype, 3, { ...shares, seed });
          rounds.forEach((rows, at) => {
            check(dtype, rows, results[at] as TypedArray[]);
          });
          if (shares.drop === undefined) expect(again).toBe(0);
          else if (shares.drop > 0.05) expect(again).toBeGreaterThan(0);
        }
      },
    );
  });

  test.each(["f64", "f16", "bf16", "u32", "i8", "u8", "i64", "u64"] as const)("%s", (dtype) => {
    const rows = [1, 2, 3].map((worker) => valuesOf(dtype, 700, worker));
    check(dtype, rows, summed([rows], dtype, 2, { drop: 0.1, seed: 3 }).results[0] as TypedArray[]);
  });

  test("extremes: the smallest and the largest floats, zeros, and what is not finite", () => {
    const one = (list: readonly number[]): TypedArray => Float64Array.from(list);
    const at = (list: readonly (readonly number[])[]) =>
      Array.from(summed([list.map(one)], "f64", 2, {}).results[0]?.[0] as Float64Array);
    expect(
      at([
        [5e-324, -5e-324],
        [0, 0],
      ]),
    ).toEqual([5e-324, -5e-324]);
    expect(at([[2 ** 1023], [-(2 ** 1022)]])).toEqual([2 ** 1022]);
    expect(
      at([
        [0, 0],
        [0, -0],
      ]),
    ).toEqual([0, 0]);
    expect(
      at([
        [1, Number.NaN],
        [2, 3],
      ]),
    ).toEqual([Number.NaN, Number.NaN]);
    expect(
      at([
        [1, 3],
        [2, Number.POSITIVE_INFINITY],
      ]),
    ).toEqual([Number.NaN, Number.NaN]);
  });
});

test("a packet that a use of long ago has sent again is not counted for a later one", () => {
  const pool = new Pool(1, 1);
  const packet = (phase: number, lane: number): Packet => ({
    job: 0,
    worker: 0,
    workers: 1,
    slot: 0,
    phase,
    exponent: 0,
    lanes: Int32Array.of(lane),
  });
  const lane = (phase: number, value: number) => pool.receive(packet(phase, value))?.packet.lanes[0];
  expect([lane(0, 1), lane(1, 2), lane(0, 1), lane(2, 3)]).toEqual([1, 2, 1, 3]);
  expect(lane(0, 9)).toBeUndefined();
  // The shadow copy still answers.
  expect(lane(1, 2)).toBe(2);
});

test("bytes that are no packet are passed over", () => {
  const bytes = encode({ job: 1, worker: 2, workers: 5, slot: 3, phase: 4, exponent: -5, lanes: Int32Array.of(-6, 7) });
  expect(decode(bytes)).toEqual({
    job: 1,
    worker: 2,
    workers: 5,
    slot: 3,
    phase: 4,
    exponent: -5,
    lanes: Int32Array.of(-6, 7),
  });
  for (const wrong of [bytes.subarray(1), bytes.subarray(0, 19), Buffer.concat([bytes, bytes]), Buffer.alloc(0)])
    expect(decode(wrong)).toBeUndefined();
});

describe("over UDP", () => {
  test.each([2, 4].flatMap((workers) => [0.01, 0.1, 0.5].map((drop) => ({ workers, drop }))))(
    "$workers workers, a share of $drop lost",
    async ({ workers, drop }) => {
      const one = await startSwitch({
        workers,
        slots: 8,
        losses: { drop, duplicate: drop / 2, reorder: drop / 2, seed: 5 },
      });
      const links = await Promise.all(
        Array.from({ length: workers }, (_unused, worker) => joinSwitch({ address: one.address, worker, workers })),
      );
      try {
        for (const dtype of ["f32", "i32"] as const) {
          const rows = links.map((_link, worker) => valuesOf(dtype, 5000, worker + 1));
          const results = await Promise.all(
            links.map((link, worker) => link.sum({ dtype, shape: [5, 1000], data: rows[worker] as TypedArray })),
          );
          check(
            dtype,
            rows,
            results.map(({ data }) => data),
          );
          expect(results[0]?.shape).toEqual([5, 1000]);
        }
        expect(one.packets.lost).toBeGreaterThan(drop > 0.05 ? 0 : -1);
        expect(links.reduce((sum, link) => sum + link.sentAgain, 0)).toBeGreaterThan(drop > 0.05 ? 0 : -1);
      } finally {
        for (const link of links) link.close();
        one.close();
      }
    },
  );

  test("a worker that does not call, and a switch that is gone, are errors by the deadline", async () => {
    const one = await startSwitch({ workers: 2 });
    const link = await joinSwitch({ address: one.address, worker: 0, workers: 2, timeout: 0.05 });
    const x = { dtype: "i32", shape: [1], data: Int32Array.of(1) } as const;
    await expect(link.sum(x)).rejects.toThrow(
      /worker 0 of 2 waits for packet 0 in slot 0 of the switch at 127\.0\.0\.1:\d+, which has sent nothing for 0\.05 s/,
    );
    one.close();
    await expect(link.sum(x)).rejects.toThrow("worker 0 of 2 waits");
    expect(() => link.sum({ dtype: "bool", shape: [1], data: Uint8Array.of(1) })).toThrow(
      "a switch adds numbers, not bool",
    );
    const waiting = expect(link.sum(x)).rejects.toThrow("the link to the switch is closed");
    await new Promise((resolve) => setTimeout(resolve, 1));
    link.close();
    await waiting;
  });

  test.each([1, 3])(
    "a switch of 2 workers refuses a worker of %i at once, and takes no slot for it",
    async (workers) => {
      // The refusal may be lost, too.
      const one = await startSwitch({ workers: 2, slots: 1, losses: { drop: 0.3, seed: 1 } });
      const x = { dtype: "i32", shape: [1], data: Int32Array.of(4) } as const;
      const stranger = await joinSwitch({ address: one.address, worker: 0, workers });
      const links = await Promise.all([0, 1].map((worker) => joinSwitch({ address: one.address, worker, workers: 2 })));
      try {
        const refused = `worker 0 of ${workers} has joined, but the switch at ${one.address} is one for 2 workers`;
        await expect(stranger.sum(x)).rejects.toThrow(refused);
        const sums = await Promise.all(links.map((link) => link.sum(x)));
        expect(sums.map(({ data }) => Array.from(data as Int32Array))).toEqual([[8], [8]]);
      } finally {
        for (const link of [stranger, ...links]) link.close();
        one.close();
      }
    },
  );

  test("mistakes are named", async () => {
    await expect(startSwitch({ workers: 0 })).rejects.toThrow("workers");
    await expect(startSwitch({ workers: 2, losses: { drop: 1 } })).rejects.toThrow("losses.drop");
    await expect(joinSwitch({ address: "10.0.0.1:99", worker: 0, workers: 2 })).rejects.toThrow(
      "address must be a port of this machine",
    );
    await expect(joinSwitch({ address: "127.0.0.1:99", worker: 2, workers: 2 })).rejects.toThrow("worker");
  });
});
