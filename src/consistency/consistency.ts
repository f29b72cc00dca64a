/**
 * @module Consistency of a parameter server: a policy over a clock table as a state machine. It knows neither time nor network: events go
 * in, grants come out, so it is tested under virtual time.
 */
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { ClockTable, type WorkerClock } from "./clocks.ts";
import { eachAlone, type Merging, type Policy, type Step, type Told, type Update } from "./policy.ts";
import { policyNamed } from "./registry.ts";

/** A worker that may have the parameters now, for its clock. */
export interface Grant {
  readonly worker: number;
  /** The clock that the worker begins, counted from 0. */
  readonly clock: number;
  /** Clocks that the slowest worker has finished: the copy has all updates of earlier clocks. */
  readonly slowest: number;
  /** The worker's own clocks that have arrived: a worker that applies its updates to its copy applies those from here on again. */
  readonly own: number;
  /** The last clock that the worker may begin with this copy, without another pull. */
  readonly until: number;
}

/** What the server does before it answers grants, in order. */
export type Action<Payload = unknown> =
  | { readonly type: "apply"; readonly step: Step<Payload> }
  /** An update is not applied. */
  | { readonly type: "drop"; readonly update: Update<Payload> }
  /** No update comes to the running mean of this group any more. */
  | { readonly type: "close"; readonly group: number }
  /** Workers are sent the parameters, without a pull. */
  | { readonly type: "send"; readonly copies: readonly Grant[] };

/** The options of {@link Consistency}. */
export interface ConsistencyOptions<Payload> {
  /** The number of workers at the start, or their numbers. */
  readonly workers: number | readonly number[];
  /** Takes what the server does, in order, before the grants of the same event are returned. Default: nothing is done. */
  readonly act?: (action: Action<Payload>) => void;
  /** Whether updates are summed or averaged. Default: as the policy says. */
  readonly merging?: Merging;
}

/** Decides when workers may pull, and what becomes of their updates. */
export class Consistency<Payload = undefined> {
  /** The clocks of the live workers. */
  readonly clocks = new ClockTable();
  private current: Policy;
  private readonly act: (action: Action<Payload>) => void;
  private readonly merging: Merging | undefined;
  private arrived: readonly Update<Payload>[] = [];
  /** Waiting workers, in the order of their requests. */
  private waiting: readonly number[] = [];
  private events = 0;
  /** The most clocks in flight that a policy has allowed: workers hear of a change late. */
  private outstanding: number;
  /** Whether a policy has let workers pull in the middle of a clock. */
  private refreshes: boolean;

  /**
   * @param policy a policy, or its spec: `"bsp"`, `"ssp:3"`
   * @throws HeddleError `option` for a malformed spec or malformed options
   */
  constructor(policy: Policy | string, options: ConsistencyOptions<Payload>) {
    checkOptions("Consistency", options, ["workers", "act", "merging"]);
    const { workers, act = () => {}, merging } = options;
    if (merging !== undefined && merging !== "sum" && merging !== "mean")
      throw new HeddleError("option", `merging must be "sum" or "mean", got ${shown(merging)}`);
    if (!Array.isArray(workers) && !(Number.isInteger(workers) && (workers as number) >= 1))
      throw new HeddleError("option", `there must be at least one worker, got ${shown(workers)}`);
    this.current = asPolicy(policy);
    this.outstanding = this.current.worker.outstanding;
    this.refreshes = fetchesApart(this.current);
    this.act = act;
    this.merging = merging;
    const all = Array.isArray(workers) ? (workers as number[]) : Array.from({ length: workers as number }).keys();
    for (const worker of all) this.clocks.add(worker);
  }

  /** The policy of now. */
  get policy(): Policy {
    return this.current;
  }

  /** Updates that have arrived and wait for others. */
  get pending(): number {
    return this.arrived.length;
  }

  /** A worker comes, at the slowest worker's clock. @throws HeddleError `protocol` when it is there */
  join(worker: number, told: Told<Payload> = {}): Grant[] {
    this.tick(told);
    this.clocks.add(worker);
    return this.release(this.clocks.slowest);
  }

  /** A worker requests the parameters. Returns the workers that may have them now. @throws HeddleError `protocol` */
  pull(worker: number, told: Told<Payload> = {}): Grant[] {
    const entry = this.expect(worker, "pulls");
    if (entry.waiting) throw new HeddleError("protocol", `worker ${worker} pulls, but it is waiting`);
    if (told.refresh === true) return this.refresh(entry, told);
    if (entry.begun - entry.done >= this.outstanding)
      throw new HeddleError("protocol", `worker ${worker} pulls, but it is working`);
    this.tick(told);
    this.clocks.wait(worker);
    this.waiting = [...this.waiting, worker];
    return this.release(this.clocks.slowest);
  }

  /**
   * A worker's update has arrived, so its oldest clock has ended. Returns the workers that may continue because of this.
   *
   * @throws HeddleError `protocol` when the worker has begun no clock and its copy is too old to begin one
   */
  push(worker: number, told: Told<Payload> = {}): Grant[] {
    const { begun, done, until, waiting } = this.expect(worker, "pushes");
    if (begun === done) {
      if (waiting) throw new HeddleError("protocol", `worker ${worker} pushes, but it is waiting`);
      if (begun > until) throw new HeddleError("protocol", `worker ${worker} pushes, but it is idle`);
      this.clocks.beginFromCopy(worker);
    }
    this.tick(told);
    const before = this.clocks.slowest;
    const { samples = 1, size = NaN, payload } = told;
    const update = { worker, clock: this.clocks.finish(worker), samples, size, payload };
    this.arrived = [...this.arrived, update];
    this.current.arrived?.(update, this.clocks);
    return this.release(before);
  }

  /** A worker has finished or failed: no worker waits for it any more. Its updates that have arrived stay. */
  leave(worker: number, told: Told<Payload> = {}): Grant[] {
    this.tick(told);
    const before = this.clocks.slowest;
    this.clocks.delete(worker);
    this.waiting = this.waiting.filter((other) => other !== worker);
    this.current.left?.(worker);
    return this.release(before);
  }

  /** Goes on with another policy, from the clocks of now. @throws HeddleError `option` for a malformed spec */
  change(policy: Policy | string, told: Told<Payload> = {}): Grant[] {
    const next = asPolicy(policy);
    this.tick(told);
    this.current = next;
    this.outstanding = Math.max(this.outstanding, next.worker.outstanding);
    this.refreshes ||= fetchesApart(next);
    return this.release(this.clocks.slowest);
  }

  /** A copy that begins no clock. */
  private refresh(entry: WorkerClock, told: Told<Payload>): Grant[] {
    if (!this.refreshes) throw new HeddleError("protocol", `worker ${entry.worker} refreshes, but pulls begin clocks`);
    this.tick(told);
    const copy = this.copyFor(entry);
    this.clocks.refresh(entry.worker, copy.until);
    return [copy];
  }

  private tick({ at }: Told<Payload>): void {
    this.events++;
    this.clocks.now = Math.max(this.clocks.now, at ?? this.events);
  }

  private expect(worker: number, what: string): WorkerClock {
    const entry = this.clocks.get(worker);
    if (entry !== undefined) return entry;
    throw new HeddleError("protocol", `worker ${worker} ${what}, but it is not among the workers`);
  }

  private release(slowestBefore: number): Grant[] {
    this.settle();
    const grants: Grant[] = [];
    for (const worker of this.waiting) {
      const entry = this.clocks.get(worker) as WorkerClock;
      const grant = this.grant(entry);
      if (grant !== undefined) grants.push(grant);
    }
    if (grants.length > 0) {
      const granted = new Set(grants.map(({ worker }) => worker));
      this.waiting = this.waiting.filter((worker) => !granted.has(worker));
    }
    if (this.clocks.slowest > slowestBefore) this.send(grants);
    return grants;
  }

  private grant(entry: WorkerClock): Grant | undefined {
    const { current, clocks } = this;
    const { worker, begun, done } = entry;
    if (begun - done >= current.worker.outstanding || !current.mayBegin(entry, clocks)) return undefined;
    if (current.skipsTo !== undefined) clocks.skip(worker, current.skipsTo(clocks));
    const grant = this.copyFor(entry);
    clocks.begin(worker, grant.until);
    current.began?.(entry, clocks);
    return grant;
  }

  private settle(): void {
    const { current, clocks } = this;
    const merging = this.merging ?? current.merging;
    const settled = current.settle?.(this.arrived, clocks, merging) ?? eachAlone(this.arrived, clocks, merging);
    const { steps, dropped = [], closed = [] } = settled;
    const gone = new Set([...steps.flatMap(({ parts }) => parts.map(({ update }) => update)), ...dropped]);
    if (gone.size > 0) this.arrived = this.arrived.filter((update) => !gone.has(update));
    for (const update of dropped) this.act({ type: "drop", update });
    for (const step of steps) this.act({ type: "apply", step });
    for (const group of closed) this.act({ type: "close", group });
  }

  private send(grants: readonly Grant[]): void {
    const told = new Set(grants.map(({ worker }) => worker));
    const to = (this.current.sends?.(this.clocks) ?? []).filter((worker) => !told.has(worker));
    if (to.length === 0) return;
    const copies = to.map((worker) => this.copyFor(this.clocks.get(worker) as WorkerClock));
    for (const { worker, until } of copies) this.clocks.refresh(worker, until);
    this.act({ type: "send", copies });
  }

  private copyFor(entry: WorkerClock): Grant {
    const until = this.current.until?.(entry, this.clocks) ?? entry.begun;
    return { worker: entry.worker, clock: entry.begun, slowest: this.clocks.slowest, own: entry.done, until };
  }
}

const fetchesApart = ({ worker }: Policy): boolean => worker.fetchEvery !== worker.pushEvery;

const asPolicy = (policy: Policy | string): Policy => (typeof policy === "string" ? policyNamed(policy) : policy);
