/**
 * A seeded simulation in virtual time of launchers that share the log of one run, over a store that cuts off launchers, loses answers and is
 * slow. The log is the real {@link RunLog}, and the members are those of the real {@link Membership}.
 */
import { setImmediate as settled } from "node:timers/promises";
import { Membership } from "../../src/elastic/membership.ts";
import { type Clock, openLog, RunLog } from "../../src/quorum/log.ts";
import type { Condition, QuorumStore } from "../../src/quorum/store.ts";
import { numbers } from "../elastic/simulator.ts";

/** What happens, as chances for each second and launcher. */
export interface Trouble {
  readonly cuts: number;
  readonly crashes: number;
  readonly deaths: number;
}

/** Virtual time for promises. */
class Time {
  now = 0;
  private readonly timers: { readonly at: number; readonly wake: () => void }[] = [];

  sleep(seconds: number): Promise<void> {
    return new Promise((wake) => {
      const at = this.now + seconds;
      let index = this.timers.length;
      while (index > 0 && (this.timers[index - 1] as { at: number }).at > at) index--;
      this.timers.splice(index, 0, { at, wake });
    });
  }

  async run(until: number): Promise<void> {
    for (;;) {
      await settled();
      const [next] = this.timers;
      if (next === undefined || next.at > until) return;
      this.timers.shift();
      this.now = next.at;
      next.wake();
    }
  }
}

/** The store itself: one machine, since a majority acts as one. */
class Table {
  private readonly values = new Map<string, { value: string; lease: string | undefined }>();
  private readonly leases = new Map<string, { until: number; seconds: number }>();
  private readonly time: Time;
  constructor(time: Time) {
    this.time = time;
  }

  private expire(): void {
    for (const [lease, { until }] of this.leases) if (this.time.now >= until) this.revoke(lease);
  }

  grant(seconds: number): string {
    const lease = String(this.leases.size + this.time.now);
    this.leases.set(lease, { until: this.time.now + seconds, seconds });
    return lease;
  }

  keepAlive(lease: string): boolean {
    this.expire();
    const held = this.leases.get(lease);
    if (held !== undefined) held.until = this.time.now + held.seconds;
    return held !== undefined;
  }

  revoke(lease: string): void {
    this.leases.delete(lease);
    for (const [key, entry] of this.values) if (entry.lease === lease) this.values.delete(key);
  }

  put(key: string, value: string, conditions: readonly Condition[], lease?: string): boolean {
    this.expire();
    if (conditions.some((condition) => this.values.get(condition.key)?.value !== condition.value)) return false;
    if (lease !== undefined && !this.leases.has(lease)) throw new Error("no such lease");
    this.values.set(key, { value, lease });
    return true;
  }

  read(prefix: string): [string, string][] {
    this.expire();
    const found = [...this.values].filter(([key]) => key.startsWith(prefix));
    return found
      .map(([key, { value }]): [string, string] => [key, value])
      .sort(([one], [other]) => (one < other ? -1 : 1));
  }
}

const lease = 9;

/** Runs three launchers; throws where an invariant is broken. */
export async function simulateLog(seed: number, trouble: Trouble, seconds = 200) {
  const next = numbers(seed);
  const time = new Time();
  const table = new Table(time);
  const history: string[] = [];
  const announced = new Map<number, string>();
  let highest = -1;
  const acting = new Set<string>();
  const cutUntil = new Map<number, number>();
  const broken = (what: string): Error => new Error(`seed ${seed}: ${what}\n${history.slice(-30).join("\n")}`);
  const note = (text: string): void => void history.push(`${time.now.toFixed(2)} ${text}`);
  let problem: Error | undefined;

  /** A process: nothing wakes it after its crash. */
  const start = (place: number, life: number): void => {
    const name = `launcher ${place}.${life}`;
    let dead = false;
    const forever = new Promise<never>(() => {});
    const clock: Clock = {
      now: () => time.now,
      sleep: async (pause) => {
        await time.sleep(pause);
        if (dead) await forever;
      },
    };
    const cut = (): boolean => time.now < (cutUntil.get(place) ?? 0);
    const call = async <Result>(work: () => Result): Promise<Result> => {
      await clock.sleep(0.3 * next());
      if (cut()) {
        await clock.sleep(1);
        throw new Error("no answer");
      }
      const result = work();
      await clock.sleep(0.3 * next());
      if (cut() || next() < 0.02) {
        await clock.sleep(1);
        throw new Error("the answer is lost");
      }
      return result;
    };
    const store: QuorumStore = {
      grant: (ttl) => call(() => table.grant(ttl)),
      keepAlive: (id) => call(() => table.keepAlive(id)),
      revoke: (id) => call(() => table.revoke(id)),
      put: (...given) => call(() => table.put(...given)),
      read: (prefix) => call(() => table.read(prefix)),
    };

    const announce = async (log: RunLog, epoch: number, members: readonly number[]): Promise<void> => {
      if (!(await log.append({ type: "epoch", epoch, members }))) return;
      const other = announced.get(epoch);
      if (other !== undefined) throw broken(`${name} and ${other} announce epoch ${epoch}`);
      if (epoch <= highest) throw broken(`${name} announces epoch ${epoch} after ${highest}`);
      highest = epoch;
      announced.set(epoch, name);
      note(`${name} announces epoch ${epoch} of ${members}`);
    };

    const lead = async (log: RunLog): Promise<void> => {
      if (acting.size > 0) throw broken(`${name} leads beside ${[...acting]}`);
      acting.add(name);
      note(`${name} leads`);
      const membership = new Membership({ min: 1, max: 4, restarts: 1000 }, log.nextEpoch);
      await announce(log, membership.epoch, membership.members);
      membership.take({ type: "training", worker: membership.members[0] as number, call: 1 });
      let over = false;
      void log.lost.then((reason) => {
        over = true;
        acting.delete(name);
        note(`${name} stops: ${reason}`);
      });
      while (!over) {
        await clock.sleep(1);
        if (over || next() >= trouble.deaths) continue;
        const [worker] = membership.members;
        const actions = worker === undefined ? [] : membership.take({ type: "ended", worker, how: "lost" });
        for (const action of actions) {
          if (action.type === "announce") await announce(log, action.epoch, action.members);
          if (action.type === "start") membership.take({ type: "ready", worker: action.worker });
        }
      }
    };

    const live = async (): Promise<void> => {
      for (;;) {
        const log = await openLog({ ...{ store, run: "run", holder: name, lease, clock }, say: () => {} }).catch(
          () => undefined,
        );
        if (log instanceof RunLog) await lead(log);
        await clock.sleep(5 * next());
      }
    };
    void live().catch((error: unknown) => {
      problem ??= error as Error;
    });
    void (async () => {
      while (time.now < seconds) {
        await time.sleep(1);
        if (next() < trouble.cuts) {
          cutUntil.set(place, time.now + 20 * next());
          note(`${name} is cut until ${cutUntil.get(place)?.toFixed(2)}`);
        }
        if (next() >= trouble.crashes) continue;
        dead = true;
        acting.delete(name);
        note(`${name} crashes`);
        await time.sleep(3 * next());
        return start(place, life + 1);
      }
    })();
  };

  for (let place = 0; place < 3; place++) start(place, 0);
  await time.run(seconds);
  if (problem !== undefined) throw problem;
  // All are reachable again from now on: one of them leads.
  cutUntil.clear();
  await time.run(seconds + 10 * lease);
  if (problem !== undefined) throw problem;
  if (acting.size !== 1) throw broken(`${acting.size} launchers lead at the end`);
  return { epochs: announced.size, launchers: new Set(announced.values()).size, history };
}
