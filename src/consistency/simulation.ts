/**
 * @module A training under a policy in virtual time: the policy's own code, workers that follow its rule, messages that take a time, deaths and
 * late joiners. What parameters and updates are is the model's: numbers for a benchmark, sets of updates for a check.
 */
import { HeddleError } from "../util/errors.ts";
import { Consistency, type Grant } from "./consistency.ts";
import type { Merging, Policy, Step, WorkerRule } from "./policy.ts";
import { VirtualTime } from "./virtual-time.ts";

/** What is trained: the server's parameters, the workers' copies, and updates. */
export interface SimulatedModel<Copy, Payload> {
  /** A copy of the server's parameters as they are now. */
  readonly copy: () => Copy;
  /** The gradient of a worker's next local step, counted from 0 over all of its clocks. */
  readonly gradient: (copy: Copy, worker: number, step: number) => Payload;
  readonly add: (left: Payload, right: Payload) => Payload;
  /** Applies a worker's own update to its copy, in place. */
  readonly applyLocally: (copy: Copy, update: Payload) => void;
  /** Moves a worker's copy towards the server's and gives what the server adds. */
  readonly exchange: (copy: Copy, server: Copy, elasticity: number) => Payload;
  /** The largest magnitude of what an update changes. */
  readonly size: (update: Payload) => number;
  /** The server's step. */
  readonly apply: (step: Step<Payload>, carries: WorkerRule["carries"]) => void;
  /** No update comes to the running mean of this group any more. */
  readonly close?: (group: number) => void;
}

/** Something that happens at a time. */
export interface SimulatedEvent {
  readonly at: number;
  /** A worker dies; the server notices later. */
  readonly kill?: number;
  /** A worker comes. */
  readonly join?: number;
  /** Training goes on with this policy. */
  readonly change?: Policy | string;
}

/** A training to simulate. */
export interface SimulationOptions<Copy, Payload> {
  readonly policy: Policy | string;
  readonly workers: number;
  readonly model: SimulatedModel<Copy, Payload>;
  /** The clocks that a worker runs before it leaves. */
  readonly clocks: (worker: number) => number;
  /** The seconds of a worker's local step. */
  readonly seconds: (worker: number, step: number) => number;
  /** The seconds of a message; messages of one direction between a worker and the server keep their order. Default 0. */
  readonly delay?: () => number;
  /** Seconds until the server notices a death. Default 1. */
  readonly notice?: number;
  readonly events?: readonly SimulatedEvent[];
  readonly merging?: Merging;
  /** Called when a worker reads a copy for a clock; before the local steps of the clock. */
  readonly read?: (worker: number, clock: number, copy: Copy, consistency: Consistency<Payload>) => void;
  /** Called when a grant leaves the server. */
  readonly granted?: (grant: Grant, copy: Copy, consistency: Consistency<Payload>) => void;
  /** Called after each update that the server took. True ends the simulation. */
  readonly updated?: (seconds: number) => boolean;
}

/** How a simulation went. */
export interface SimulationResult {
  /** Virtual seconds until the end. */
  readonly seconds: number;
  /** Seconds that workers waited for a copy, together. */
  readonly waited: number;
  /** Updates that arrived at the server. */
  readonly updates: number;
  /** Copies that left the server. */
  readonly copies: number;
  /** Updates that were dropped. */
  readonly dropped: number;
  /** Workers that neither finished nor died: they wait for ever. Empty if the policy is right. */
  readonly stuck: readonly number[];
  /** Updates that arrived and were neither applied nor dropped. */
  readonly pending: number;
}

/** Runs a training to its end, in virtual time. @throws HeddleError `option` for a malformed policy */
export function simulate<Copy, Payload>(options: SimulationOptions<Copy, Payload>): SimulationResult {
  return new Simulation(options).run();
}

/** The most events of a simulation; a run of the tests has thousands. */
const mostEvents = 20_000_000;

/** The server, the links and the time. */
class Simulation<Copy, Payload> {
  readonly options: SimulationOptions<Copy, Payload>;
  readonly time = new VirtualTime();
  readonly consistency: Consistency<Payload>;
  private readonly workers = new Map<number, SimulatedWorker<Copy, Payload>>();
  private readonly arrivals = new Map<string, number>();
  private ended = -1;
  waited = 0;
  private updates = 0;
  private copies = 0;
  private dropped = 0;

  constructor(options: SimulationOptions<Copy, Payload>) {
    this.options = options;
    const { policy, workers, model, merging } = options;
    this.consistency = new Consistency<Payload>(policy, {
      workers,
      ...(merging !== undefined && { merging }),
      act: (action) => {
        if (action.type === "apply") model.apply(action.step, this.consistency.policy.worker.carries);
        else if (action.type === "drop") this.dropped++;
        else if (action.type === "close") model.close?.(action.group);
        else for (const copy of action.copies) this.reply(copy, true);
      },
    });
    for (let worker = 0; worker < workers; worker++) this.workers.set(worker, new SimulatedWorker(this, worker));
  }

  run(): SimulationResult {
    for (const worker of this.workers.values()) worker.proceed();
    for (const event of this.options.events ?? []) this.later(event.at, () => this.happen(event));
    this.time.run(mostEvents);
    const { waited, updates, copies, dropped } = this;
    const stuck = this.ended >= 0 ? [] : [...this.workers.values()].filter((one) => !one.over).map(({ id }) => id);
    const seconds = this.ended >= 0 ? this.ended : this.time.now;
    return { seconds, waited, updates, copies, dropped, stuck, pending: this.consistency.pending };
  }

  later(seconds: number, run: () => void): void {
    this.time.after(seconds, () => {
      if (this.ended < 0) run();
    });
  }

  /** A message to the server; the server takes messages of its live workers only. */
  send(worker: number, what: "join" | "pull" | "refresh" | "push" | "leave", payload?: Payload): void {
    this.message(`from ${worker}`, () => {
      const at = this.time.now;
      if (what === "join") return this.grant(this.consistency.join(worker, { at }));
      if (this.consistency.clocks.get(worker) === undefined) return;
      if (what === "leave") return this.grant(this.consistency.leave(worker, { at }));
      if (what !== "push") return this.grant(this.consistency.pull(worker, { at, refresh: what === "refresh" }));
      this.updates++;
      const grants = this.consistency.push(worker, {
        at,
        payload: payload as Payload,
        size: this.options.model.size(payload as Payload),
      });
      if (this.options.updated?.(at) === true) this.ended = at;
      this.grant(grants);
    });
  }

  private happen({ kill, join, change }: SimulatedEvent): void {
    if (kill !== undefined) {
      const victim = this.workers.get(kill);
      if (victim?.over !== false) return;
      victim.over = true;
      this.later(this.options.notice ?? 1, () => {
        if (this.consistency.clocks.get(kill) !== undefined)
          this.grant(this.consistency.leave(kill, { at: this.time.now }));
      });
    }
    if (join !== undefined) {
      if (this.workers.has(join)) throw new HeddleError("option", `worker ${join} is there`);
      const worker = new SimulatedWorker(this, join);
      this.workers.set(join, worker);
      this.send(join, "join");
      worker.proceed();
    }
    if (change !== undefined) this.grant(this.consistency.change(change, { at: this.time.now }));
  }

  private grant(grants: readonly Grant[]): void {
    for (const grant of grants) this.reply(grant, false);
  }

  private reply(grant: Grant, sent: boolean): void {
    this.copies++;
    const copy = this.options.model.copy();
    const rule = this.consistency.policy.worker;
    if (!sent) this.options.granted?.(grant, copy, this.consistency);
    this.message(`to ${grant.worker}`, () => this.workers.get(grant.worker)?.take(grant, copy, rule, sent));
  }

  private message(link: string, run: () => void): void {
    const seconds = this.options.delay?.() ?? 0;
    const at = Math.max(this.arrivals.get(link) ?? 0, this.time.now + seconds);
    this.arrivals.set(link, at);
    this.later(at - this.time.now, run);
  }
}

/** A worker that follows the rule of its policy. */
class SimulatedWorker<Copy, Payload> {
  readonly id: number;
  /** Whether the worker has finished or died. */
  over = false;
  private readonly run: Simulation<Copy, Payload>;
  private rule: WorkerRule;
  private copy: Copy | undefined;
  private until = -1;
  /** The clock that comes next. */
  private clock = 0;
  /** Clocks that were run, and local steps. */
  private ran = 0;
  private steps = 0;
  private busy = false;
  private readonly granted: { readonly grant: Grant; readonly copy: Copy }[] = [];
  private asking = false;
  private askedAt = 0;
  /** Own updates that a new copy may lack. */
  private own: { readonly clock: number; readonly payload: Payload }[] = [];
  /** What goes on when a refreshed copy is there. */
  private refreshed: (() => void) | undefined;

  constructor(run: Simulation<Copy, Payload>, id: number) {
    this.run = run;
    this.id = id;
    this.rule = run.consistency.policy.worker;
  }

  /** Begins the next clock, asks for a copy, or leaves. */
  proceed(): void {
    if (this.over || this.busy) return;
    const next = this.granted.shift();
    if (next !== undefined) {
      this.run.waited += this.run.time.now - this.askedAt;
      if (this.rule.carries === "gradient" || this.copy === undefined) this.adopt(next.copy, next.grant);
      this.clock = next.grant.clock;
      this.begin(next.copy);
    } else if (this.ran === this.run.options.clocks(this.id)) {
      this.over = true;
      this.run.send(this.id, "leave");
    } else if (!this.asking && this.copy !== undefined && this.until >= this.clock) {
      this.begin(this.copy);
    } else this.ask();
  }

  /** A copy has come. */
  take(grant: Grant, copy: Copy, rule: WorkerRule, sent: boolean): void {
    if (this.over) return;
    if (sent) {
      // A copy of its own accord serves until it is older than the bound; a clock under way goes on with the copy that it has.
      if (this.copy !== undefined) this.adopt(copy, grant);
      return;
    }
    const { refreshed } = this;
    if (refreshed !== undefined) {
      this.refreshed = undefined;
      this.adopt(copy, grant);
      refreshed();
    } else {
      this.rule = rule;
      this.asking = false;
      this.granted.push({ grant, copy });
      this.proceed();
      if (rule.outstanding > 1) this.ask();
    }
  }

  /** Takes a copy, with the own updates that the server did not have when the copy was made. */
  private adopt(copy: Copy, { own, until }: Grant): void {
    this.copy = copy;
    this.until = until;
    this.own = this.own.filter(({ clock }) => clock >= own);
    if (this.rule.local) for (const { payload } of this.own) this.run.options.model.applyLocally(copy, payload);
  }

  /** Asks for a copy for the next clock, if the rule and the worker's data allow one and none is asked for. */
  private ask(): void {
    const { run, rule, ran, busy, granted } = this;
    const begun = (busy ? 1 : 0) + granted.length;
    if (this.asking || begun >= Math.min(rule.outstanding, run.options.clocks(this.id) - ran)) return;
    this.asking = true;
    this.askedAt = run.time.now;
    run.send(this.id, "pull");
  }

  private begin(server: Copy): void {
    const { id, run, rule, clock } = this;
    this.busy = true;
    const copy = this.copy as Copy;
    run.options.read?.(id, clock, copy, run.consistency);
    if (rule.carries === "difference") this.push(run.options.model.exchange(copy, server, rule.elasticity));
    this.localStep(rule.pushEvery, undefined);
  }

  private localStep(left: number, sum: Payload | undefined): void {
    const { run, rule, id } = this;
    const { model, seconds } = run.options;
    if (left === 0) {
      if (rule.carries === "gradient") this.push(sum as Payload);
      this.busy = false;
      this.clock++;
      this.ran++;
      this.proceed();
      return;
    }
    const compute = (): void => {
      const copy = this.copy as Copy;
      run.later(seconds(id, this.steps), () => {
        if (this.over) return;
        const gradient = model.gradient(copy, id, this.steps++);
        // Steps in the middle of a clock are the worker's own, and so are those of a copy of its own.
        if (rule.local && (rule.carries === "difference" || rule.pushEvery > 1))
          model.applyLocally(this.copy as Copy, gradient);
        this.localStep(left - 1, sum === undefined ? gradient : model.add(sum, gradient));
      });
    };
    if (rule.fetchEvery !== rule.pushEvery && this.steps > 0 && this.steps % rule.fetchEvery === 0) {
      this.refreshed = compute;
      run.send(id, "refresh");
    } else compute();
  }

  private push(payload: Payload): void {
    const { run, rule, clock } = this;
    if (rule.local && rule.carries === "gradient") {
      this.own.push({ clock, payload });
      if (rule.pushEvery === 1) run.options.model.applyLocally(this.copy as Copy, payload);
    }
    run.send(this.id, "push", payload);
  }
}
