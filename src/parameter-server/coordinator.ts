/**
 * @module The server that decides: a policy over the clocks of the workers, and the log of what all servers do with pushes. Every other
 * server has each entry before a worker goes on because of it, so that the log outlives this server.
 */
import { type ClockTable, Consistency, type Policy, policyNamed, type WorkerClock } from "../consistency/index.ts";
import { checkServerPolicy } from "../consistency/server-policy.ts";
import { HeddleError } from "../util/errors.ts";
import type { Entry } from "./requests.ts";
import type { LogLine } from "./update-log.ts";

/** The answer to a worker that may begin a clock. */
export interface Begun {
  /** The clock that the worker begins: later than its next one where the policy leaves out what a late worker has missed. */
  readonly clock: number;
  /** The version of the shards that the worker pulls. */
  readonly version: number;
  /** Whether all workers shall end. */
  readonly stop: boolean;
}

/** What a server that decides starts with. */
export interface CoordinatorOptions {
  readonly workers: number;
  readonly servers: number;
  /** The spec of a policy, such as `ssp:3`. */
  readonly policy: string;
  /** Whether pushes of one step are summed or averaged; default as the policy says. */
  readonly merging?: "sum" | "mean" | undefined;
  /** The number of filters of pushes; default 0. */
  readonly filters?: number;
  /** Resolves when all other servers have so many entries. */
  readonly committed: (version: number) => Promise<void>;
  /** Seconds on a steady clock. */
  readonly now: () => number;
  /** Takes what happens, for the log in the folder of the run. */
  readonly record?: ((line: LogLine) => void) | undefined;
}

/** What a server that decided before has left: its log, and the clocks that the log has named. */
export interface Earlier {
  readonly base: number;
  readonly entries: readonly Entry[];
  readonly steps: number;
  readonly settled: (worker: number) => number;
}

interface Waiting {
  readonly since: number;
  readonly resolve: (begun: Begun) => void;
  readonly reject: (error: HeddleError) => void;
}

/** What was measured of a worker. */
export interface WorkerStatistics {
  readonly worker: number;
  readonly clocks: number;
  readonly rows: number;
  /** Seconds from the begin of a clock to its push: a mean. */
  readonly secondsPerClock: number;
  /** Seconds that the worker waited, by the worker that was slowest meanwhile. */
  readonly waited: { readonly [slowest: number]: number };
}

/** What was measured of a run. */
export interface Statistics {
  readonly policy: string;
  readonly steps: number;
  /** The number of pushes by their staleness: the steps between the pull of a worker and the step with its push. */
  readonly staleness: { readonly [steps: number]: number };
  readonly dropped: number;
  readonly workers: readonly WorkerStatistics[];
}

/** Entries that are kept for servers that are behind. */
const keptEntries = 4096;

/** Decides which worker begins when, and writes the log. */
export class Coordinator {
  /** Entries from the entry `base` on. */
  readonly log: Entry[] = [];
  base = 0;
  private readonly options: CoordinatorOptions;
  /** What the server before has left, if this one goes on for a server that was lost. */
  private readonly earlier: Earlier | undefined;
  private readonly consistency: Consistency<{ readonly rows: number }>;
  private readonly incarnations = new Map<number, number>();
  private readonly waiting = new Map<number, Waiting>();
  /** The last answer to each worker, which a request that is asked again gets, too. */
  private readonly granted = new Map<number, { readonly clocks: Set<number>; readonly begun: Promise<Begun> }>();
  private readonly left = new Set<number>();
  private readonly offsets = new Map<number, number>();
  private readonly lastDone = new Map<number, number>();
  private readonly finishing: (() => void)[] = [];
  private readonly tallies = new Map<number, Map<number, string>>();
  private readonly tallyWaits: { readonly epoch: number; readonly resolve: (sums: string[]) => void }[] = [];
  private readonly staleness = new Map<number, number>();
  private readonly measured = new Map<
    number,
    { clocks: number; rows: number; seconds: number; waited: Map<number, number> }
  >();
  /** The number of steps when a worker was granted its clock, and when that was. */
  private readonly begunAt = new Map<number, { readonly steps: number; readonly at: number }>();
  private steps = 0;
  private dropped = 0;
  private stopped = false;
  private replaying = false;
  /** The workers that begin their next clocks whatever the policy says: a server that was lost has let them begin. */
  private forced: readonly number[] = [];
  private wake: () => void = () => {};

  /** @throws HeddleError `option` for a malformed policy, or one whose workers push values instead of gradients */
  constructor(options: CoordinatorOptions, earlier?: Earlier) {
    this.options = options;
    this.consistency = new Consistency<{ readonly rows: number }>(this.withForce(policyNamed(options.policy)), {
      workers: options.workers,
      ...(options.merging === undefined ? {} : { merging: options.merging }),
      act: (action) => {
        if (this.replaying) return;
        if (action.type === "apply") {
          const { parts, mean } = action.step;
          for (const { update } of parts) this.measureStaleness(update.worker);
          this.append({
            type: "step",
            parts: parts.map(({ update: { worker, clock }, weight }) => ({
              worker,
              clock: this.numbered(worker, clock),
              weight,
            })),
            ...(mean === undefined ? {} : { mean }),
          });
          this.steps++;
        } else if (action.type === "drop") {
          this.dropped++;
          const { worker, clock } = action.update;
          this.append({ type: "drop", worker, clock: this.numbered(worker, clock) });
        } else if (action.type === "close") this.append({ type: "close", group: action.group });
      },
    });
    checkServerPolicy(this.consistency.policy, options.workers);
    const { workers, servers, policy, filters = 0 } = options;
    options.record?.({ workers, servers, policy, ...(filters > 0 && { filters }) });
    this.earlier = earlier;
    if (earlier === undefined) return;
    this.base = earlier.base;
    this.log.push(...earlier.entries);
    this.steps = earlier.steps;
    this.replay(earlier.settled);
  }

  /** The number of entries. */
  get version(): number {
    return this.base + this.log.length;
  }

  /** Whether steps wait for pushes of all workers. */
  get isBarrier(): boolean {
    return this.consistency.policy.settle !== undefined && this.consistency.policy.merging === "mean";
  }

  /** Resolves when there are more entries than so many. */
  more(version: number): Promise<void> {
    if (this.version > version) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.wake;
      this.wake = () => {
        before();
        resolve();
      };
    });
  }

  /**
   * A worker comes, or comes again. Resolves the number of its clocks that count as done.
   *
   * @throws HeddleError `protocol` for an older life of a worker
   */
  hello(worker: number, incarnation: number): number {
    const known = this.incarnations.get(worker);
    if (worker >= this.options.workers)
      throw new HeddleError("protocol", `worker ${worker} is not among the ${this.options.workers} workers`);
    if (known !== undefined && incarnation < known)
      throw new HeddleError("protocol", `worker ${worker} has a newer life than the one that asks`);
    this.incarnations.set(worker, incarnation);
    if (known !== incarnation && this.left.has(worker)) {
      // It was given up, and begins anew where the slowest is.
      this.left.delete(worker);
      this.settle(this.consistency.join(worker, { at: this.options.now() }));
      const { done } = this.consistency.clocks.get(worker) as { readonly done: number };
      // Its pushes are numbered on: those of the last life stay what they are.
      this.offsets.set(worker, Math.max(0, (this.lastDone.get(worker) ?? 0) - done));
    }
    return this.doneOf(worker);
  }

  /**
   * A worker has finished so many clocks, the last from these versions of the shards, with an update of this largest magnitude. Resolves
   * when the worker may begin the next one.
   */
  clock(worker: number, clock: number, rows: number, pulled: readonly number[], size = 0): Promise<Begun> {
    const at = this.options.now();
    const told = { at, samples: rows, size, payload: { rows } };
    const before = this.consistency.clocks.get(worker);
    if (before === undefined) throw new HeddleError("protocol", `worker ${worker} has left the run`);
    const done = this.doneOf(worker);
    const again = this.granted.get(worker);
    if (again?.clocks.has(clock) === true) return again.begun;
    // A server that came back has brought all workers to the step of now: what a worker has pushed before comes too late.
    const isLate = clock < done && this.skips && this.earlier !== undefined;
    if (clock !== done && clock !== done + 1 && !isLate)
      throw new HeddleError("protocol", `worker ${worker} ends clock ${clock} after ${done}`);
    if (clock <= done && rows > 0 && this.skips && clock > (this.earlier?.settled(worker) ?? clock)) {
      this.dropped++;
      this.append({ type: "drop", worker, clock: clock - 1 });
    }
    if (clock === done + 1) {
      // A server that came back does not know what the one before it granted; whatever let the worker begin is in the log.
      if (before.begun === before.done && !before.waiting) {
        this.forced = this.earlier === undefined ? [] : [worker];
        this.settle(this.consistency.pull(worker, { at }));
        this.forced = [];
      }
      this.options.record?.({ begin: { worker, clock: done, versions: pulled } });
      this.measureClock(worker, rows, at);
      this.settle(this.consistency.push(worker, told));
    }
    const begun = new Promise<Begun>((resolve, reject) => {
      this.waiting.set(worker, { since: at, resolve, reject });
    });
    begun.catch(() => {});
    this.granted.set(worker, { clocks: new Set([clock]), begun });
    const entry = this.consistency.clocks.get(worker);
    // After a broken link it may wait already.
    if (entry?.waiting === false && entry.begun === entry.done) this.settle(this.consistency.pull(worker, { at }));
    return begun;
  }

  /** A worker has finished, or is lost: nobody waits for it. */
  leave(worker: number, stop: boolean): void {
    if (stop) this.stopped = true;
    if (this.left.has(worker)) return;
    this.left.add(worker);
    const done = this.doneOf(worker);
    this.lastDone.set(worker, done);
    this.waiting.get(worker)?.reject(new HeddleError("protocol", `worker ${worker} has left the run`));
    this.waiting.delete(worker);
    this.granted.delete(worker);
    if (this.consistency.clocks.get(worker) !== undefined)
      this.settle(this.consistency.leave(worker, { at: this.options.now() }));
    this.append({ type: "left", worker, clock: done });
    if (this.left.size === this.options.workers) for (const resolve of this.finishing.splice(0)) resolve();
    this.answerTallies();
  }

  /** Resolves when all workers have left. */
  async finish(): Promise<number> {
    if (this.left.size < this.options.workers) await new Promise<void>((resolve) => this.finishing.push(resolve));
    await this.options.committed(this.version);
    return this.version;
  }

  /** The workers that have not left. */
  get present(): number[] {
    return Array.from({ length: this.options.workers }, (_unused, worker) => worker).filter(
      (worker) => !this.left.has(worker),
    );
  }

  /** Whether a worker has come. */
  hasCome(worker: number): boolean {
    return this.incarnations.has(worker);
  }

  /** The sums of all workers of an epoch: of those that have told theirs, or under a barrier of all that are left. */
  tally(worker: number, epoch: number, sums: string): Promise<string[]> {
    const known = this.tallies.get(epoch) ?? new Map<number, string>();
    this.tallies.set(epoch, known.set(worker, sums));
    for (const old of this.tallies.keys()) if (old < epoch - keptTallies) this.tallies.delete(old);
    return new Promise((resolve) => {
      this.tallyWaits.push({ epoch, resolve });
      this.answerTallies();
    });
  }

  private answerTallies(): void {
    for (const wait of this.tallyWaits.splice(0)) {
      const known = this.tallies.get(wait.epoch) ?? new Map<number, string>();
      if (this.isBarrier && this.earlier === undefined && this.present.some((worker) => !known.has(worker)))
        this.tallyWaits.push(wait);
      else wait.resolve([...known].sort(([a], [b]) => a - b).map(([, sums]) => sums));
    }
  }

  /** What was measured. */
  get statistics(): Statistics {
    return {
      policy: this.consistency.policy.spec,
      steps: this.steps,
      staleness: Object.fromEntries([...this.staleness].sort(([a], [b]) => a - b)),
      dropped: this.dropped,
      workers: [...this.measured]
        .sort(([a], [b]) => a - b)
        .map(([worker, { clocks, rows, seconds, waited }]) => ({
          worker,
          clocks,
          rows,
          secondsPerClock: seconds / Math.max(1, clocks),
          waited: Object.fromEntries(waited),
        })),
    };
  }

  /** The number of a worker's push, by its clock in the table: a worker that came back after it was given up has another clock. */
  private numbered(worker: number, clock: number): number {
    return clock + (this.offsets.get(worker) ?? 0);
  }

  /** Whether a late worker leaves out the clocks that it has missed. */
  private get skips(): boolean {
    return this.consistency.policy.skipsTo !== undefined;
  }

  private doneOf(worker: number): number {
    return this.numbered(worker, this.consistency.clocks.get(worker)?.done ?? 0);
  }

  private settle(grants: readonly { readonly worker: number; readonly clock: number }[]): void {
    const { version } = this;
    const at = this.options.now();
    for (const grant of grants) {
      const { worker } = grant;
      const waiting = this.waiting.get(worker);
      this.begunAt.set(worker, { steps: this.steps, at });
      this.waiting.delete(worker);
      if (waiting === undefined) continue;
      this.measureWait(worker, at - waiting.since);
      const clock = this.numbered(worker, grant.clock);
      // A new life of the worker is told this clock, and asks for it.
      this.granted.get(worker)?.clocks.add(clock);
      void this.options.committed(version).then(() => waiting.resolve({ clock, version, stop: this.stopped }));
    }
  }

  /** The policy, which is not asked about workers that are {@link forced}. */
  private withForce(policy: Policy): Policy {
    const { mayBegin, skipsTo } = policy;
    return Object.assign(Object.create(policy) as Policy, {
      mayBegin: (entry: WorkerClock, clocks: ClockTable) =>
        this.forced.includes(entry.worker) || mayBegin.call(policy, entry, clocks),
      ...(skipsTo === undefined
        ? {}
        : { skipsTo: (clocks: ClockTable) => (this.forced.length > 0 ? 0 : skipsTo.call(policy, clocks)) }),
    });
  }

  /** Brings the policy to the clocks that the log has named, in rounds. */
  private replay(settled: (worker: number) => number): void {
    this.replaying = true;
    this.forced = this.present;
    const known = this.present.map((worker) => ({ worker, clocks: settled(worker) }));
    const most = Math.max(...known.map((one) => one.clocks));
    // Where late workers leave out what they have missed, all begin at the step of now.
    const clocks = this.skips ? known.map(({ worker }) => ({ worker, clocks: most })) : known;
    for (let round = 0; round < most; round++) {
      const own = clocks.filter((one) => one.clocks > round).map(({ worker }) => worker);
      for (const worker of own) this.consistency.pull(worker);
      for (const worker of own) this.consistency.push(worker, { size: 0 });
    }
    this.replaying = false;
    this.forced = [];
  }

  private append(entry: Entry): void {
    this.options.record?.({ index: this.version, entry });
    this.log.push(entry);
    const wake = this.wake;
    this.wake = () => {};
    wake();
  }

  /** Forgets entries that all servers have. */
  trim(acknowledged: number): void {
    const spare = Math.min(acknowledged, this.version - keptEntries) - this.base;
    if (spare < keptEntries) return;
    this.log.splice(0, spare);
    this.base += spare;
  }

  private of(worker: number) {
    const known = this.measured.get(worker) ?? { clocks: 0, rows: 0, seconds: 0, waited: new Map<number, number>() };
    this.measured.set(worker, known);
    return known;
  }

  private measureClock(worker: number, rows: number, at: number): void {
    const known = this.of(worker);
    known.clocks++;
    known.rows += rows;
    known.seconds += at - (this.begunAt.get(worker)?.at ?? at);
  }

  private measureWait(worker: number, seconds: number): void {
    const { waited } = this.of(worker);
    const { workers, slowest } = this.consistency.clocks;
    const cause = workers.find((other) => other.done === slowest && other.worker !== worker)?.worker ?? worker;
    waited.set(cause, (waited.get(cause) ?? 0) + seconds);
  }

  private measureStaleness(worker: number): void {
    const age = this.steps - (this.begunAt.get(worker)?.steps ?? this.steps);
    this.staleness.set(age, (this.staleness.get(age) ?? 0) + 1);
  }
}

/** Epochs whose sums are kept. */
const keptTallies = 8;
