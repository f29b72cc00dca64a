/** @module The clock table of a parameter server: which clock each worker has begun and finished, and how old its copy of the parameters is. */
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** A worker in the table. */
export interface WorkerClock {
  readonly worker: number;
  /** Clocks that the worker has begun. */
  readonly begun: number;
  /** Clocks that the worker has finished: its update arrived. At most {@link WorkerClock.begun}. */
  readonly done: number;
  /** Whether the worker waits for the parameters. */
  readonly waiting: boolean;
  /** The slowest worker's clock at the time of the worker's newest copy of the parameters. */
  readonly held: number;
  /** The last clock that the worker may begin with its newest copy, without a pull. */
  readonly until: number;
  /** Seconds that the worker takes for a clock: a running mean; NaN before its first update. */
  readonly seconds: number;
  /** When the worker's last update arrived, or when it began, in seconds. */
  readonly at: number;
}

type Entry = { -readonly [name in keyof WorkerClock]: WorkerClock[name] };

/** How much of a running mean a new measurement is. */
const newShare = 0.3;

/** The clocks of all live workers. Policies read it; only `Consistency` changes it. */
export class ClockTable {
  private readonly entries = new Map<number, Entry>();
  private floor = 0;
  /** Clocks that the fastest worker ever has finished. */
  private top = 0;
  /** The time of the newest event, in seconds. */
  now = 0;

  /** Live workers, in the order in which they joined. */
  get workers(): readonly WorkerClock[] {
    return [...this.entries.values()];
  }

  /** The number of live workers. */
  get size(): number {
    return this.entries.size;
  }

  /** Clocks that the slowest live worker has finished. Never falls. Without workers: those of the fastest that was there. */
  get slowest(): number {
    for (const { done } of this.entries.values()) if (done === this.floor) return this.floor;
    if (this.entries.size > 0) {
      let least = Infinity;
      for (const { done } of this.entries.values()) least = Math.min(least, done);
      this.floor = least;
    }
    return this.floor;
  }

  /** A live worker, or undefined. */
  get(worker: number): WorkerClock | undefined {
    return this.entries.get(worker);
  }

  /** Adds a worker at the slowest worker's clock: it neither waits for a lead nor holds others back. */
  add(worker: number): void {
    if (!Number.isSafeInteger(worker) || worker < 0)
      throw new HeddleError("argument", `a worker is a whole number from 0, got ${shown(worker)}`);
    if (this.entries.has(worker)) throw new HeddleError("protocol", `worker ${worker} joins, but it is there`);
    const clock = this.slowest;
    const fresh = { begun: clock, done: clock, waiting: false, held: clock, until: -1, seconds: NaN, at: this.now };
    this.entries.set(worker, { worker, ...fresh });
  }

  /** Removes a worker. */
  delete(worker: number): void {
    this.entries.delete(worker);
    // What the last worker leaves is whole: who comes later begins after it.
    this.floor = this.entries.size === 0 ? this.top : this.slowest;
  }

  /** The worker waits. */
  wait(worker: number): void {
    this.entry(worker).waiting = true;
  }

  /** The worker begins its next clock with a new copy, which may serve until clock `until`. */
  begin(worker: number, until: number): void {
    const entry = this.entry(worker);
    entry.waiting = false;
    entry.begun++;
    entry.held = this.slowest;
    entry.until = until;
    if (entry.begun === entry.done + 1) entry.at = this.now;
  }

  /** The worker leaves out the clocks before this one, if it has none under way. */
  skip(worker: number, clock: number): void {
    const entry = this.entry(worker);
    if (entry.begun === entry.done && entry.done < clock) entry.begun = entry.done = clock;
  }

  /** The worker has a new copy. */
  refresh(worker: number, until: number): void {
    const entry = this.entry(worker);
    entry.held = this.slowest;
    entry.until = Math.max(entry.until, until);
  }

  /** The worker begins its next clock with the copy that it has. */
  beginFromCopy(worker: number): void {
    this.entry(worker).begun++;
  }

  /** The worker's oldest begun clock has ended. Returns that clock. */
  finish(worker: number): number {
    const entry = this.entry(worker);
    const seconds = this.now - entry.at;
    entry.seconds = Number.isNaN(entry.seconds) ? seconds : entry.seconds + newShare * (seconds - entry.seconds);
    entry.at = this.now;
    this.top = Math.max(this.top, entry.done + 1);
    return entry.done++;
  }

  private entry(worker: number): Entry {
    const entry = this.entries.get(worker);
    if (entry === undefined) throw new HeddleError("protocol", `worker ${worker} is not among the workers`);
    return entry;
  }
}
