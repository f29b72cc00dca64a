/** Consistency policies under virtual time: how far apart workers come, who waits for whom, what failures do. */
import { Consistency, policyKinds, policyNamed, specForm, staleSynchronous, VirtualTime } from "heddle/consistency";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../support/tensors.ts";

interface Outcome {
  /** Most clocks that a worker was ahead of the slowest when it was let go. */
  readonly ahead: number;
  readonly seconds: number;
  readonly order: readonly string[];
}

/** Lets workers compute for so many seconds a clock, until each has done `clocks`. */
function simulate(
  workers: number,
  staleness: number,
  clocks: number,
  seconds: (worker: number, clock: number) => number,
  leaves: { readonly worker: number; readonly at: number } = { worker: -1, at: 0 },
): Outcome {
  const time = new VirtualTime();
  const policy = new Consistency(staleSynchronous(staleness), { workers });
  const done = new Array<number>(workers).fill(0);
  const order: string[] = [];
  let ahead = 0;
  const gone = new Set<number>();
  const start = (grants: readonly { worker: number; clock: number }[]): void => {
    for (const { worker, clock } of grants) {
      expect(clock).toBe(done[worker]);
      ahead = Math.max(ahead, clock - Math.min(...done.filter((_count, other) => !gone.has(other))));
      time.after(seconds(worker, clock), () => {
        if (gone.has(worker)) return;
        order.push(`${worker}:${clock}`);
        (done[worker] as number)++;
        start(policy.push(worker));
        if (done[worker] === clocks) {
          gone.add(worker);
          start(policy.leave(worker));
        } else start(policy.pull(worker));
      });
    }
  };
  if (leaves.worker >= 0) {
    time.after(leaves.at, () => {
      gone.add(leaves.worker);
      start(policy.leave(leaves.worker));
    });
  }
  for (let worker = 0; worker < workers; worker++) start(policy.pull(worker));
  time.run();
  for (let worker = 0; worker < workers; worker++) if (worker !== leaves.worker) expect(done[worker]).toBe(clocks);
  return { ahead, seconds: time.now, order };
}

// Every fifth clock of worker 0 takes ten times as long; the others are steady.
const straggling = (worker: number, clock: number): number => (worker === 0 && clock % 5 === 0 ? 10 : 1);

describe("two workers", () => {
  test.each([
    // Waits for every slow clock at once.
    [0, 0, 20 + 4 * 9],
    [1, 1, 20 + 4 * 9],
    [Infinity, 20, 20 + 4 * 9],
  ])("staleness %d: at most that far ahead", (staleness, most, seconds) => {
    const { ahead, seconds: taken } = simulate(2, staleness, 20, straggling);
    expect(ahead).toBeLessThanOrEqual(most);
    expect(taken).toBe(seconds);
  });

  test("the fast one finishes earlier the staler it may be", () => {
    const finish = [0, 1, 4, Infinity].map((staleness) => {
      const { order } = simulate(2, staleness, 20, straggling);
      return order.indexOf("1:19");
    });
    expect(finish).toEqual([...finish].sort((left, right) => right - left));
    expect(finish[3]).toBeLessThan(finish[0] as number);
  });

  test("who is slow in turn costs a bulk-synchronous run more than a stale one", () => {
    const turns = (worker: number, clock: number): number => (clock % 2 === worker ? 3 : 1);
    const [bulk, stale, free] = [0, 1, Infinity].map((staleness) => simulate(2, staleness, 20, turns).seconds);
    expect(bulk).toBe(60);
    expect(free).toBe(40);
    expect(stale).toBeLessThan(bulk as number);
  });
});

test.each([1, 2, 3, 8])("%i workers of any pace: the bound holds, all finish, twice in the same order", (workers) => {
  for (const staleness of [0, 1, 3]) {
    const run = (): Outcome => {
      const random = randomFrom(workers * 10 + staleness);
      return simulate(workers, staleness, 30, () => random() ** 4 * 10);
    };
    const outcome = run();
    expect(outcome.ahead).toBeLessThanOrEqual(staleness);
    expect(run()).toEqual(outcome);
  }
});

test("a worker that is gone is waited for no more", () => {
  const { seconds } = simulate(3, 1, 10, (worker) => (worker === 2 ? 1000 : 1), { worker: 2, at: 50 });
  // Both others came two clocks far, waited until the third was given up, and went on.
  expect(seconds).toBe(1000);
  const { order } = simulate(3, 1, 10, (worker) => (worker === 2 ? 1000 : 1), { worker: 2, at: 50 });
  expect(order.filter((entry) => entry.startsWith("0:"))).toHaveLength(10);
});

/** Pulls once and pushes so many times with the same copy. */
function pushes(spec: string, times: number): void {
  const policy = new Consistency(spec, { workers: 2 });
  policy.pull(0);
  for (let push = 0; push < times; push++) policy.push(0);
}

test("a copy serves as long as its bound holds", () => {
  pushes("ssp:2", 3);
  expect(() => pushes("bsp", 2)).toThrow(/is idle/);
});

test("every registered spec gives a policy of that spec", () => {
  for (const kind of policyKinds()) {
    const spec = [kind.name, ...(kind.numbers ?? []).map((number) => number.default ?? 2)].join(":");
    expect(policyNamed(spec).spec).toBe(spec);
    expect(specForm(kind)).toContain(kind.name);
  }
});

describe("mistakes", () => {
  const policy = (): Consistency => new Consistency("ssp:1", { workers: 2 });
  test.each<[string, () => unknown, RegExp]>([
    ["a push without a pull", () => policy().push(0), /worker 0 pushes, but it is idle/],
    [
      "two pulls",
      () => {
        const one = policy();
        one.pull(1);
        one.pull(1);
      },
      /worker 1 pulls, but it is working/,
    ],
    ["a worker that is not there", () => policy().pull(2), /worker 2 pulls, but it is not among the workers/],
    ["no workers", () => new Consistency("bsp", { workers: 0 }), /at least one worker, got 0/],
    ["a negative staleness", () => policyNamed("ssp:-1"), /'-1' for STALENESS: it must be a whole number from 0/],
    ["a fraction", () => policyNamed("ssp:1.5"), /'1.5' for STALENESS/],
    ["a missing number", () => policyNamed("ssp"), /'ssp' lacks STALENESS/],
    ["too many numbers", () => policyNamed("bsp:1"), /'bsp:1' takes no numbers/],
    ["a misspelt name", () => policyNamed("asink"), /there is no policy 'asink'/],
    ["a worker that joins twice", () => policy().join(1), /worker 1 joins, but it is there/],
    ["a push with a copy that is too old", () => pushes("ssp:2", 4), /worker 0 pushes, but it is idle/],
  ])("%s", (_what, act, message) => {
    expect(act).toThrow(message);
  });
});
