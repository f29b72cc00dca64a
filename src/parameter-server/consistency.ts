/**
 * @module When a worker of a parameter server may go on: bulk-synchronous, stale-synchronous and asynchronous updates as
 * one state machine. It knows no time and no network: events go in, grants come out, so it is tested under virtual time.
 *
 * Stale-synchronous (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013):
 * a worker that has finished c clocks may begin the next one while no other worker is more than `staleness` clocks
 * behind it. Staleness 0 is bulk-synchronous, Infinity asynchronous.
 */
import { HeddleError } from "../util/errors.ts";

/** A worker that may have the parameters now, for its clock. */
export interface Grant {
  readonly worker: number;
  /** Clocks that the worker has finished. */
  readonly clock: number;
}

type Phase = "idle" | "waiting" | "working";

/** Decides over pulls. */
export class StaleSynchronous {
  /** Clocks that a worker may be ahead of the slowest. */
  readonly staleness: number;
  private readonly clocks = new Map<number, number>();
  private readonly phases = new Map<number, Phase>();
  /** Workers that wait, in the order in which they asked. */
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

  /** Clocks that the slowest worker has finished. */
  get slowest(): number {
    return Math.min(...this.clocks.values());
  }

  /** A worker asks for the parameters. Gives the workers that may have them now: none or this one. */
  pull(worker: number): Grant[] {
    this.expect(worker, "idle", "pulls");
    this.phases.set(worker, "waiting");
    this.waiting.push(worker);
    return this.release();
  }

  /** A worker's update was applied: its clock has ended. Gives the workers that may go on because of it. */
  push(worker: number): Grant[] {
    this.expect(worker, "working", "pushes");
    this.phases.set(worker, "idle");
    this.clocks.set(worker, (this.clocks.get(worker) as number) + 1);
    return this.release();
  }

  /** A worker has finished or is gone: nobody waits for it any more. */
  leave(worker: number): Grant[] {
    this.clocks.delete(worker);
    this.phases.delete(worker);
    this.waiting = this.waiting.filter((other) => other !== worker);
    return this.release();
  }

  private expect(worker: number, phase: Phase, what: string): void {
    const found = this.phases.get(worker);
    if (found === phase) return;
    const problem = found === undefined ? "is not among the workers" : `is ${found}`;
    throw new HeddleError("protocol", `worker ${worker} ${what}, but it ${problem}`);
  }

  private release(): Grant[] {
    const { slowest } = this;
    const granted = this.waiting.filter((worker) => (this.clocks.get(worker) as number) - slowest <= this.staleness);
    this.waiting = this.waiting.filter((worker) => !granted.includes(worker));
    return granted.map((worker) => {
      this.phases.set(worker, "working");
      return { worker, clock: this.clocks.get(worker) as number };
    });
  }
}
