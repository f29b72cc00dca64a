/**
 * @module Consistency of a parameter server: bulk-synchronous, stale-synchronous and asynchronous updates as one state
 * machine. It knows neither time nor network: events go in, grants come out, so it is tested under virtual time.
 *
 * Stale-synchronous (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013):
 * a worker that has finished c clocks may begin the next one while no other worker is more than `staleness` clocks
 * behind it. Staleness 0 is bulk-synchronous, Infinity asynchronous.
 */
import { HeddleError } from "../util/errors.ts";

/** A worker that may pull the parameters now, for its clock. */
export interface Grant {
  readonly worker: number;
  /** The number of clocks that the worker has finished. */
  readonly clock: number;
}

type Phase = "idle" | "waiting" | "working";

/** Decides when workers may pull. */
export class StaleSynchronous {
  /** The clocks that a worker may be ahead of the slowest worker. */
  readonly staleness: number;
  private readonly clocks = new Map<number, number>();
  private readonly phases = new Map<number, Phase>();
  /** Waiting workers, in the order of their requests. */
  private waiting: number[] = [];

  /** @throws HeddleError `option` */
  constructor(workers: number, staleness: number) {
    if (!Number.isInteger(workers) || workers < 1) {
      throw new HeddleError("option", `there must be at least one worker, got ${workers}`);
    }
    if (!(staleness === Infinity || (Number.isInteger(staleness) && staleness >= 0))) {
      throw new HeddleError("option", `staleness must be a whole number of clocks or Infinity, got ${staleness}`);
    }
    this.staleness = staleness;
    for (let worker = 0; worker < workers; worker++) {
      this.clocks.set(worker, 0);
      this.phases.set(worker, "idle");
    }
  }

  /** The number of clocks that the slowest worker has finished. */
  get slowest(): number {
    return Math.min(...this.clocks.values());
  }

  /** A worker requests the parameters. Returns the workers that may have them now: none or this worker. */
  pull(worker: number): Grant[] {
    this.expect(worker, "idle", "pulls");
    this.phases.set(worker, "waiting");
    this.waiting.push(worker);
    return this.release();
  }

  /** A worker's update was applied, so its clock has ended. Returns the workers that may continue because of this. */
  push(worker: number): Grant[] {
    this.expect(worker, "working", "pushes");
    this.phases.set(worker, "idle");
    this.clocks.set(worker, (this.clocks.get(worker) as number) + 1);
    return this.release();
  }

  /** A worker has finished or failed: no worker waits for it any more. */
  leave(worker: number): Grant[] {
    this.clocks.delete(worker);
    this.phases.delete(worker);
    this.waiting = this.waiting.filter((other) => other !== worker);
    return this.release();
  }

  private expect(worker: number, phase: Phase, what: string): void {
    const actual = this.phases.get(worker);
    if (actual === phase) return;
    const problem = actual === undefined ? "is not among the workers" : `is ${actual}`;
    throw new HeddleError("protocol", `worker ${worker} ${what}, but it ${problem}`);
  }

  private release(): Grant[] {
    const { slowest } = this;
    const allowed = this.waiting.filter((worker) => (this.clocks.get(worker) as number) - slowest <= this.staleness);
    this.waiting = this.waiting.filter((worker) => !allowed.includes(worker));
    return allowed.map((worker) => {
      this.phases.set(worker, "working");
      return { worker, clock: this.clocks.get(worker) as number };
    });
  }
}
