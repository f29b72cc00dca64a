/**
 * @module Who takes part in an elastic run: a state machine without clock, input or output. The launcher drives it with what it sees of
 * the workers and does what it says; a simulator in the tests does the same in virtual time.
 *
 * A worker has a number for as long as it lives. The members of an epoch are some of the workers, in an order that gives their ranks.
 * Epochs only grow; a member belongs to the highest epoch that was announced to it.
 */

/** The bounds of an elastic run. */
export interface ElasticLimits {
  /** The run fails with fewer workers. */
  readonly min: number;
  /** As many workers take part at most; as many are started first. */
  readonly max: number;
  /** How often a lost worker is replaced, or an epoch is formed again without a loss. */
  readonly restarts: number;
  /** Whether workers can be started in the place of lost ones; default true. */
  readonly replaces?: boolean;
}

/** What the launcher sees. */
export type MembershipEvent =
  /** The worker's process is gone: it finished the script, an error of its own ended it, or it was lost. */
  | { readonly type: "ended"; readonly worker: number; readonly how: "finished" | "failed" | "lost" }
  /** A member cannot go on in the epoch: another member is gone or late. */
  | { readonly type: "broken"; readonly worker: number; readonly epoch: number }
  /** A worker that was started later has come as far as the training. */
  | { readonly type: "ready"; readonly worker: number }
  /** A member has begun a training; a script may have several, counted from 1. */
  | { readonly type: "training"; readonly worker: number; readonly call: number; readonly unit?: number }
  /** A member has the values of the training, as all do that were there from the start. */
  | { readonly type: "holds"; readonly worker: number }
  /** A member has ended a training with its result. */
  | { readonly type: "trained"; readonly worker: number }
  /** The run is being stopped: nobody is started or welcomed any more. */
  | { readonly type: "stopping" }
  /** The time for other members to say that an epoch is broken is over. */
  | { readonly type: "overdue"; readonly epoch: number };

/** What the launcher is to do. */
export type MembershipAction =
  /** Tell the members of their epoch. */
  | { readonly type: "announce"; readonly epoch: number; readonly members: readonly number[] }
  /** Start a worker. */
  | { readonly type: "start"; readonly worker: number }
  /** End a worker that can no longer take part: it is no loss. */
  | { readonly type: "dismiss"; readonly worker: number }
  /** Kill a member that neither works nor says why. */
  | { readonly type: "kill"; readonly worker: number }
  /** Say `overdue` after the usual time. */
  | { readonly type: "await"; readonly epoch: number }
  /** All workers have ended, and the last of them has finished. */
  | { readonly type: "finish" }
  /** The run has failed. */
  | { readonly type: "fail"; readonly reason: string };

/** The membership of a run. */
export class Membership {
  private readonly limits: ElasticLimits;
  private current: number;
  private ranks: readonly number[];
  /** Workers that were started later and have not come to the training yet. */
  private readonly coming = new Set<number>();
  /** Workers that wait to be welcomed. */
  private readonly waiting = new Set<number>();
  /** Members that cannot go on in the current epoch. */
  private readonly broken = new Set<number>();
  /** Members that have ended a training, and have begun no other: nobody can do in their place what they do now. */
  private readonly past = new Set<number>();
  /** Workers with the values of the training, or from its start. */
  private readonly holders: Set<number>;
  private restarts: number;
  private next: number;
  /** Whether nobody can join any more: a member has finished, or is past the first training, which newcomers begin with. */
  private closed = false;
  /** Whether the members wait for newcomers, since there are too few. */
  private short = false;
  /** Members take part in multiples of this number, as a mesh has them. */
  private unit = 1;
  /** Whether a member has begun a training, and whether one has ended before its training did. */
  private begun = false;
  private hasGap = false;
  /** Whether a worker has finished the script, or the run is being stopped. */
  private ends = false;

  constructor(limits: ElasticLimits, epoch = 0) {
    this.limits = limits;
    this.current = epoch;
    this.restarts = limits.restarts;
    this.next = limits.max;
    this.ranks = Array.from({ length: limits.max }, (_unused, worker) => worker);
    this.holders = new Set(this.ranks);
  }

  /** The current epoch. */
  get epoch(): number {
    return this.current;
  }

  /** The members of the current epoch in order of their ranks. */
  get members(): readonly number[] {
    return this.ranks;
  }

  /** Whether a member that ends now leaves others behind: a training has begun, and the member's has not ended. */
  isMissed(worker: number): boolean {
    return this.begun && this.ranks.includes(worker) && !this.past.has(worker);
  }

  /** Takes an event; gives what is to be done, in order. */
  take(event: MembershipEvent): MembershipAction[] {
    switch (event.type) {
      case "ended":
        return this.ended(event.worker, event.how);
      case "broken":
        return this.fails(event.worker, event.epoch);
      case "ready":
        return this.arrived(event.worker);
      case "training":
        return this.begins(event.worker, event.call, event.unit ?? 1);
      case "trained":
        this.past.add(event.worker);
        return this.close();
      case "holds":
        this.holders.add(event.worker);
        return [];
      case "stopping":
        this.ends = true;
        return this.close();
      case "overdue":
        return this.overdue(event.epoch);
    }
  }

  private begins(worker: number, call: number, unit: number): MembershipAction[] {
    // Others may have formed an epoch while it was past its training.
    const isBack = this.past.delete(worker) && !this.ranks.includes(worker);
    if (isBack) this.waiting.add(worker);
    this.begun = true;
    this.unit = unit;
    const closing = call > 1 && this.ranks.includes(worker) ? this.close() : [];
    const isOdd = this.ranks.length % unit !== 0;
    return this.hasGap || isOdd || isBack ? [...closing, ...this.form()] : closing;
  }

  private ended(worker: number, how: "finished" | "failed" | "lost"): MembershipAction[] {
    const isMissed = this.isMissed(worker);
    const [wasMember, wasPast] = [this.ranks.includes(worker), this.past.delete(worker)];
    const isKnown = wasMember || wasPast || this.coming.delete(worker) || this.waiting.delete(worker);
    if (!isKnown) return [];
    this.ranks = this.ranks.filter((member) => member !== worker);
    this.broken.delete(worker);
    if (how === "failed") return [{ type: "fail", reason: `an error of worker ${worker} ends the run` }];
    if (how === "finished") return this.finished(wasMember && !wasPast, isMissed);
    if (wasPast) return [{ type: "fail", reason: `worker ${worker} was lost after its training` }];
    const started = this.replace();
    return [...started, ...(wasMember || this.short ? this.form() : [])];
  }

  /** A worker has finished; `isEarly`: it has left before its training ended, so that the others do not wait for it. */
  private finished(isEarly: boolean, isMissed: boolean): MembershipAction[] {
    this.ends = true;
    if (this.ranks.length + this.past.size + this.coming.size + this.waiting.size === 0) return [{ type: "finish" }];
    this.hasGap ||= isEarly;
    // The others can end their training without this worker only in an epoch of their own.
    return isMissed || this.broken.size > 0 ? this.form() : [];
  }

  /** Starts a worker in the place of a lost one. */
  private replace(): MembershipAction[] {
    const alive = this.ranks.length + this.coming.size + this.waiting.size;
    if (this.closed || this.limits.replaces === false || this.restarts === 0 || alive >= this.limits.max) return [];
    this.restarts--;
    const worker = this.next++;
    this.coming.add(worker);
    return [{ type: "start", worker }];
  }

  private fails(worker: number, epoch: number): MembershipAction[] {
    if (epoch !== this.current || !this.ranks.includes(worker) || this.broken.has(worker)) return [];
    const first = this.broken.size === 0;
    this.broken.add(worker);
    if (this.broken.size < this.working.length) return first && !this.short ? [{ type: "await", epoch }] : [];
    if (this.short) return [];
    // All live: a link was cut, or one was late. Without a bound this could go on for ever.
    if (!this.isEnding) {
      if (this.restarts === 0)
        return [{ type: "fail", reason: "the workers cannot reach each other, and no restart is left" }];
      this.restarts--;
    }
    return this.form();
  }

  private overdue(epoch: number): MembershipAction[] {
    if (epoch !== this.current || this.broken.size === 0) return [];
    return this.working.filter((member) => !this.broken.has(member)).map((worker) => ({ type: "kill", worker }));
  }

  /** The members whose training has not ended. */
  private get working(): readonly number[] {
    return this.ranks.filter((member) => !this.past.has(member));
  }

  /** Whether a member is done with the training, so that the others only end what they have begun. */
  private get isEnding(): boolean {
    return this.ends || this.past.size > 0;
  }

  private arrived(worker: number): MembershipAction[] {
    if (!this.coming.delete(worker)) return [];
    if (this.closed) return [{ type: "dismiss", worker }];
    this.waiting.add(worker);
    // Where an epoch is broken, the next event of a member forms a new epoch with this worker.
    return this.short || this.broken.size === 0 ? this.form() : [];
  }

  /** No newcomers from now on: alone they would begin the training again. */
  private close(): MembershipAction[] {
    this.closed = true;
    const fresh = this.ranks.filter((member) => !this.holders.has(member));
    const late = [...this.coming, ...this.waiting, ...fresh];
    this.coming.clear();
    this.waiting.clear();
    this.ranks = this.ranks.filter((member) => this.holders.has(member));
    const dismissed = late.map((worker): MembershipAction => ({ type: "dismiss", worker }));
    const waits = this.short || fresh.length > 0;
    return waits && this.ranks.length > 0 ? [...dismissed, ...this.form()] : dismissed;
  }

  /** A new epoch of the members that are left and the newcomers that wait. */
  private form(): MembershipAction[] {
    const all = [...this.working, ...this.waiting];
    const members = all.slice(0, all.length - (all.length % this.unit));
    if (members.length === 0 && all.length > 0) {
      this.short = this.coming.size > 0;
      return this.short ? [] : [{ type: "fail", reason: `${count(all.length)} left, and the mesh needs ${this.unit}` }];
    }
    if (members.length === 0)
      return this.coming.size + this.past.size > 0 ? [] : [{ type: "fail", reason: "no worker is left" }];
    if (members.length < this.limits.min && !this.isEnding) {
      this.short = this.coming.size > 0;
      if (this.short) return [];
      return [{ type: "fail", reason: `${count(members.length)} left, and the run needs ${this.limits.min}` }];
    }
    this.short = false;
    this.hasGap = false;
    this.waiting.clear();
    // They wait until there are enough for one more unit.
    for (const spare of all.slice(members.length)) this.waiting.add(spare);
    this.broken.clear();
    this.ranks = members;
    this.current++;
    return [{ type: "announce", epoch: this.current, members }];
  }
}

const count = (workers: number): string => (workers === 1 ? "1 worker is" : `${workers} workers are`);
