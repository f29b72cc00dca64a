/** The server that decides, with late workers in virtual time: no error, no wait without end, and every push settled once. */
import { expect, test } from "vitest";
import { type Begun, Coordinator } from "../../src/parameter-server/coordinator.ts";
import type { Entry } from "../../src/parameter-server/requests.ts";

const workers = 4;
const perEpoch = 7;
const epochs = 3;

/** Numbers from 0 to 1 that follow from a seed. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The pushes that the log names, in order. */
const named = (log: readonly Entry[]): readonly { readonly worker: number; readonly clock: number }[] =>
  log.flatMap((entry): readonly { readonly worker: number; readonly clock: number }[] =>
    entry.type === "step" ? entry.parts : entry.type === "drop" ? [entry] : [],
  );

/** Trains under a policy, with a server that comes back as often as `lives` says. */
class Simulated {
  readonly sent: string[] = [];
  readonly clocks: number[] = [];
  log: readonly Entry[] = [];
  private now = 0;
  private events: { readonly at: number; readonly run: () => void }[] = [];
  private readonly random: () => number;
  private readonly policy: string;
  private failed: unknown;
  private coordinator: Coordinator;
  private lost: () => void = () => {};
  private loss = new Promise<"lost">(() => {});

  constructor(policy: string, seed: number) {
    this.policy = policy;
    this.random = randomFrom(seed);
    this.coordinator = this.made();
  }

  async run(lives: number): Promise<void> {
    let left = workers;
    for (let worker = 0; worker < workers; worker++)
      void this.work(worker).then(
        () => left--,
        (error: unknown) => {
          this.failed = error;
        },
      );
    for (let life = 1; life < lives; life++) this.after(40 * this.random(), () => this.comeBack());
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.failed !== undefined) throw this.failed;
      if (left === 0) break;
      const [next] = this.events;
      if (next === undefined) throw new Error(`${left} workers wait without end`);
      this.events.shift();
      this.now = next.at;
      next.run();
    }
    this.log = this.coordinator.log;
  }

  private made(log?: readonly Entry[]): Coordinator {
    const settled = (worker: number): number =>
      Math.max(
        0,
        ...named(log ?? [])
          .filter((one) => one.worker === worker)
          .map(({ clock }) => clock + 1),
      );
    this.loss = new Promise((resolve) => {
      this.lost = () => resolve("lost");
    });
    const { policy } = this;
    return new Coordinator(
      { workers, servers: 1, policy, committed: () => Promise.resolve(), now: () => this.now },
      log === undefined ? undefined : { base: 0, entries: log, steps: 0, settled },
    );
  }

  private comeBack(): void {
    const { lost } = this;
    this.coordinator = this.made([...this.coordinator.log]);
    lost();
  }

  /** Asks until a server answers. */
  private async ask<Answer>(request: (coordinator: Coordinator) => Promise<Answer>): Promise<Answer> {
    for (;;) {
      const answer = await Promise.race([request(this.coordinator), this.loss]);
      if (answer !== "lost") return answer as Answer;
    }
  }

  private async work(worker: number): Promise<void> {
    const usual = worker === 1 ? 4 : 1;
    const begin = (clock: number, rows: number): Promise<Begun> =>
      this.ask((coordinator) => coordinator.clock(worker, clock, rows, [0], rows / 10));
    let { clock } = await begin(0, 0);
    for (let epoch = 0; epoch < epochs; epoch++) {
      while (clock < (epoch + 1) * perEpoch) {
        // Now and then a worker is late by several clocks.
        await this.sleep(usual * (0.5 + this.random()) * (this.random() < 0.1 ? 5 : 1));
        this.sent.push(`${worker} ${clock}`);
        const next = clock + 1;
        ({ clock } = await begin(next, 10));
        expect(clock).toBeGreaterThanOrEqual(next);
      }
      await this.ask((coordinator) => coordinator.tally(worker, epoch, ""));
    }
    this.clocks[worker] = clock;
    await this.ask((coordinator) => {
      coordinator.leave(worker, false);
      return coordinator.finish();
    });
  }

  private after(seconds: number, run: () => void): void {
    this.events = [...this.events, { at: this.now + seconds, run }].sort((a, b) => a.at - b.at);
  }

  private sleep(seconds: number): Promise<void> {
    return new Promise((resolve) => this.after(seconds, () => resolve()));
  }
}

const policies = [
  "bsp",
  "backup:1",
  "backup:3",
  "dynamic-backup",
  "dynamic-backup:0.5",
  "ssp:2",
  "essp:2",
  "adaptive-ssp:1:4",
  "dssp:1:4",
  "dynsgd:2",
  "mixed:2:3",
  "async",
  "vap:2",
];

test.each(policies)("%s: late workers, and a server that comes back", async (policy) => {
  for (let seed = 0; seed < 12; seed++) {
    const run = new Simulated(policy, seed);
    await run.run(1 + (seed % 3));
    const settled = named(run.log).map(({ worker, clock }) => `${worker} ${clock}`);
    expect(settled.sort(), `seed ${seed}`).toEqual(run.sent.sort());
    expect(run.clocks).toEqual(new Array(workers).fill(perEpoch * epochs));
  }
});

test("a worker that is late by clocks goes on with the step of now", async () => {
  let now = 0;
  const options = { workers: 3, servers: 1, committed: () => Promise.resolve(), now: () => now };
  const coordinator = new Coordinator({ ...options, policy: "backup:1" });
  const clock = (worker: number, done: number) => coordinator.clock(worker, done, done === 0 ? 0 : 4, [0]);
  await Promise.all([0, 1, 2].map((worker) => clock(worker, 0)));
  for (let done = 1; done <= 3; done++) {
    now++;
    await Promise.all([0, 2].map((worker) => clock(worker, done)));
  }
  expect(await clock(1, 1)).toEqual({ clock: 3, version: 4, stop: false });
  // The link broke before the answer; and a new life of the worker is told the same clock.
  expect(await clock(1, 1)).toEqual({ clock: 3, version: 4, stop: false });
  expect(await coordinator.clock(1, coordinator.hello(1, 1), 0, [0])).toEqual({ clock: 3, version: 4, stop: false });
  expect(coordinator.log.at(-1)).toEqual({ type: "drop", worker: 1, clock: 0 });
  expect((await Promise.all([clock(0, 4), clock(1, 4)])).map((begun) => begun.clock)).toEqual([4, 4]);
});
