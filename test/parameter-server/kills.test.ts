/**
 * Workers push whole numbers while workers and servers are lost at random: at the end the values are the sum of all pushes, to the bit. A
 * server that is lost forgets all; a worker that is lost drops its links in the middle of what it does. `npm run test:kills` has more kills.
 */
import { expect, test } from "vitest";
import type { ServerClient } from "../../src/parameter-server/client.ts";
import { isWhole } from "../support/sample.ts";
import { filled, numbers, shardsFor, started } from "./cluster.ts";

const kills = isWhole() ? 200 : 20;
const workers = 3;
const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

test.each([
  ["async", 2],
  ["ssp:2", 3],
  ["bsp", 2],
] as const)(`%s, %i servers, ${kills} kills: nothing is lost, nothing counts twice`, async (policy, count) => {
  const cluster = await started(count, { workers });
  const shards = shardsFor(count);
  let state = 12345;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const servers = [...cluster.servers];
  const lives = servers.map(() => 0);
  const clients: (ServerClient | undefined)[] = new Array(workers).fill(undefined);
  let over = false;
  // In bsp a step is a sum here, too, so that the values are the sum of all pushes.
  const rule = { policy, merging: "sum" } as const;
  let killed = 0;
  let rounds = 0;
  const life = async (worker: number, incarnation: number): Promise<boolean> => {
    const own = cluster.client(worker, incarnation);
    clients[worker] = own;
    try {
      let clock = await own.open(shards, rule);
      if (worker === 0 && incarnation === 1) await own.load(filled(0), new Map(), 0, "begun");
      await own.start();
      let begun = await own.clock(clock, 0);
      while (!over || clock < rounds) {
        await own.pull(begun.version);
        await own.push(clock, filled(-(clock + 1) * (worker + 1)), [1]);
        clock++;
        if (!over) rounds = Math.max(rounds, clock);
        begun = await own.clock(clock, 1);
      }
      await own.leave();
      const values = await own.pull(await own.finish());
      if (worker === 0) last = numbers(values.get("weight"));
      done[worker] = clock;
      return true;
    } catch (error) {
      if (clients[worker] === own) throw error;
      return false;
    } finally {
      own.close();
    }
  };
  const done: number[] = [];
  let last: number[] = [];
  const worker = async (index: number): Promise<void> => {
    for (let incarnation = 1; !(await life(index, incarnation)); incarnation++);
  };
  const ended = Promise.all(Array.from({ length: workers }, (_unused, index) => worker(index)));
  const killer = async (): Promise<void> => {
    while (rounds < 2) await pause(5);
    for (; killed < kills; killed++) {
      await pause(random(25));
      const victim = random(workers + count);
      if (victim < workers) {
        const own = clients[victim];
        // What it waits for fails, and it begins a new life.
        clients[victim] = undefined;
        own?.close();
        continue;
      }
      const server = victim - workers;
      await servers[server]?.close();
      lives[server] = (lives[server] as number) + 1;
      servers[server] = await cluster.start(server, lives[server] as number);
      // One copy of two is there at each time.
      await cluster.settled(servers[server]);
    }
    over = true;
  };
  await Promise.all([ended, killer()]);
  const sum = done.reduce((total, clocks, index) => total + ((index + 1) * clocks * (clocks + 1)) / 2, 0);
  expect(killed).toBe(kills);
  expect(last).toEqual(new Array(15).fill(sum));
});
