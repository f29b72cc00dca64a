/**
 * A seeded simulation of elastic runs in virtual time. The launcher's part is the real {@link Membership}. A worker is a model of a
 * training: a step needs all members of its epoch, and changes each member that hears of its end; a member that does not, tells the launcher and
 * waits, and an epoch begins with the newest step that a member holds.
 */

import { VirtualTime } from "../../src/consistency/virtual-time.ts";
import { Membership, type MembershipAction } from "../../src/elastic/membership.ts";

/** A run to simulate. */
export interface Scenario {
  readonly seed: number;
  readonly min: number;
  readonly max: number;
  readonly restarts: number;
  /** Members take part in multiples of it; default 1. */
  readonly unit?: number;
  /** Steps of the training. */
  readonly steps: number;
  /** The chance of a member's death, of a cut link and of a member that stops for good, in each step. */
  readonly deaths: number;
  readonly cuts: number;
  readonly stalls: number;
}

/** How a simulated run ended. */
export interface Outcome {
  readonly how: "finished" | "failed";
  readonly reason: string;
  readonly log: readonly string[];
  readonly epochs: number;
}

/** Numbers in [0, 1) that a seed decides (mulberry32). */
export function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Phase = "starting" | "ready" | "joining" | "working" | "waiting" | "stalled" | "past" | "gone" | "done";

interface Worker {
  readonly id: number;
  phase: Phase;
  /** The epoch that the worker has taken up, and the highest that it was told of. */
  epoch: number;
  called: number;
  members: readonly number[];
  /** Steps that the worker has finished; -1 for a newcomer. */
  step: number;
}

/** Simulates a run to its end; throws an error that names a broken invariant. */
export function simulate(scenario: Scenario): Outcome {
  return new Simulation(scenario).run();
}

class Simulation {
  private readonly scenario: Scenario;
  private readonly next: () => number;
  private readonly membership: Membership;
  private readonly workers: Worker[] = [];
  private readonly log: string[] = [];
  private readonly time = new VirtualTime();
  private unitIsKnown = false;
  private outcome: { how: "finished" | "failed"; reason: string } | undefined;
  /** The newest step that any worker ever finished: none may be lost while a holder lives. */
  private readonly announced = new Map<number, string>();

  constructor(scenario: Scenario) {
    this.scenario = scenario;
    this.next = numbers(scenario.seed);
    const { min, max, restarts } = scenario;
    this.membership = new Membership({ min, max, restarts });
    for (const id of this.membership.members) {
      this.workers.push({ id, phase: "joining", epoch: 0, called: 0, members: this.membership.members, step: 0 });
    }
  }

  run(): Outcome {
    const { unit = 1 } = this.scenario;
    for (const { id } of this.workers)
      this.send(`from ${id}`, () => this.tell({ type: "training", worker: id, call: 1, unit }));
    this.later(1, () => this.tick());
    try {
      this.time.run(200_000);
    } catch (error) {
      if (error instanceof RangeError) throw this.broken("the run never ends");
      throw error;
    }
    if (this.outcome === undefined) throw this.broken("all wait for ever");
    return { ...this.outcome, log: this.log, epochs: this.membership.epoch };
  }

  private later(after: number, run: () => void): void {
    this.time.after(after, () => {
      if (this.outcome === undefined) run();
    });
  }

  /** A message that takes a random time; messages of one worker to the launcher keep their order, as those of a channel do. */
  private readonly arrival = new Map<string, number>();
  private send(link: string, run: () => void): void {
    const at = Math.max(this.arrival.get(link) ?? 0, this.time.now + this.next() * 3) + 1e-6;
    this.arrival.set(link, at);
    this.later(at - this.time.now, run);
  }

  private broken(what: string): Error {
    const state = this.workers.map(
      ({ id, phase, epoch, called, step }) => `${id}:${phase} epoch ${epoch}/${called} step ${step}`,
    );
    return new Error(`seed ${this.scenario.seed}: ${what}\n${[...this.log.slice(-30), ...state].join("\n")}`);
  }

  private note(text: string): void {
    this.log.push(`${this.time.now.toFixed(2)} ${text}`);
  }

  // ---- the launcher

  private tell(event: Parameters<Membership["take"]>[0]): void {
    if (this.outcome !== undefined) return;
    this.note(JSON.stringify(event));
    this.unitIsKnown ||= event.type === "training";
    for (const action of this.membership.take(event)) this.act(action);
  }

  private act(action: MembershipAction): void {
    this.note(`→ ${JSON.stringify(action)}`);
    switch (action.type) {
      case "announce": {
        const { epoch, members } = action;
        if (this.announced.has(epoch)) throw this.broken(`epoch ${epoch} was announced twice`);
        this.announced.set(epoch, members.join());
        if (members.length % (this.scenario.unit ?? 1) !== 0 && this.unitIsKnown)
          throw this.broken(`epoch ${epoch} has ${members.length} members`);
        if (new Set(members).size !== members.length || members.length > this.scenario.max)
          throw this.broken(`epoch ${epoch} has members ${members}`);
        for (const id of members) this.send(`to ${id}`, () => this.called(this.worker(id), epoch, members));
        break;
      }
      case "start":
        this.workers.push({ id: action.worker, phase: "starting", epoch: -1, called: -1, members: [], step: -1 });
        this.later(5 + this.next() * 20, () => {
          const worker = this.worker(action.worker);
          if (worker.phase !== "starting") return;
          worker.phase = "ready";
          this.send(`from ${worker.id}`, () => this.tell({ type: "ready", worker: worker.id }));
        });
        break;
      case "dismiss":
      case "kill":
        this.send(`to ${action.worker}`, () => this.die(this.worker(action.worker)));
        break;
      case "await":
        this.later(20, () => this.tell({ type: "overdue", epoch: action.epoch }));
        break;
      case "finish":
        this.finish("finished", "");
        break;
      case "fail":
        this.finish("failed", action.reason);
        break;
    }
  }

  private finish(how: "finished" | "failed", reason: string): void {
    this.outcome ??= { how, reason };
    const { steps } = this.scenario;
    if (how === "finished" && !this.workers.some(({ phase, step }) => phase === "done" && step === steps))
      throw this.broken("the run finished, but no worker has done all steps");
  }

  // ---- the workers

  private worker(id: number): Worker {
    return this.workers.find((worker) => worker.id === id) as Worker;
  }

  private die(worker: Worker): void {
    if (worker.phase === "gone" || worker.phase === "done") return;
    worker.phase = "gone";
    this.send(`from ${worker.id}`, () => this.tell({ type: "ended", worker: worker.id, how: "lost" }));
  }

  private end(worker: Worker): void {
    if (worker.phase !== "past") return;
    worker.phase = "done";
    this.send(`from ${worker.id}`, () => this.tell({ type: "ended", worker: worker.id, how: "finished" }));
  }

  private called(worker: Worker, epoch: number, members: readonly number[]): void {
    if (worker.phase === "gone" || worker.phase === "done" || epoch <= worker.called) return;
    worker.called = epoch;
    worker.members = members;
    // A worker in a step takes the epoch up at the step's end, or when the step fails.
    if (worker.phase === "waiting" || worker.phase === "joining" || worker.phase === "ready") this.join(worker);
  }

  private join(worker: Worker): void {
    worker.phase = "joining";
    worker.epoch = worker.called;
  }

  /** A member cannot go on. */
  private fails(worker: Worker): void {
    if (worker.phase !== "working" && worker.phase !== "joining") return;
    const { id, epoch } = worker;
    this.send(`from ${id}`, () => this.tell({ type: "broken", worker: id, epoch }));
    worker.phase = "waiting";
    if (worker.called > worker.epoch) this.join(worker);
  }

  private tick(): void {
    this.chaos();
    const groups = new Map<number, Worker[]>();
    for (const worker of this.workers) {
      if (worker.phase !== "joining" && worker.phase !== "working") continue;
      groups.set(worker.epoch, [...(groups.get(worker.epoch) ?? []), worker]);
    }
    for (const [epoch, group] of groups) this.advance(epoch, group);
    if (this.outcome === undefined) this.later(1, () => this.tick());
  }

  private chaos(): void {
    const { deaths, cuts, stalls, steps } = this.scenario;
    for (const worker of this.workers) {
      if (worker.phase === "gone" || worker.phase === "done") continue;
      if (this.next() < deaths) this.die(worker);
      else if (worker.phase === "working" && this.next() < cuts) this.fails(worker);
      // Nobody waits for a worker that has done all steps but the launcher, and a script may take its time.
      else if (this.isMissed(worker) && worker.step < steps && this.next() < stalls) worker.phase = "stalled";
    }
  }

  /** Whether another member waits for this one if it stops: where all stop at once, the machine is suspended. */
  private isMissed({ id, phase, members }: Worker): boolean {
    return phase === "working" && members.some((other) => other !== id && this.worker(other).phase === "working");
  }

  /** One step of the members of an epoch, or its beginning. */
  private advance(epoch: number, group: readonly Worker[]): void {
    const members = (group[0] as Worker).members;
    const present = members.map((id) => this.worker(id));
    const here = present.filter(
      ({ phase, epoch: own }) => own === epoch && (phase === "joining" || phase === "working"),
    );
    if (here.length < present.length) {
      // Members that are there notice, sooner or later, that others are not.
      const late = present.some(({ phase, epoch: own }) => own < epoch && phase !== "gone" && phase !== "done");
      if (!late || this.next() < 0.02) for (const worker of group) if (this.next() < 0.5) this.fails(worker);
      return;
    }
    if (here.every(({ phase }) => phase === "joining")) {
      const newest = Math.max(...here.map(({ step }) => step));
      for (const worker of here) {
        worker.phase = "working";
        worker.step = Math.max(newest, 0);
        this.send(`from ${worker.id}`, () => this.tell({ type: "holds", worker: worker.id }));
      }
      return;
    }
    if (here.some(({ phase }) => phase === "joining"))
      throw this.broken(`a worker joined epoch ${epoch} in its middle`);
    const steps = new Set(here.map(({ step }) => step));
    if (steps.size > 1) throw this.broken(`members of epoch ${epoch} are at steps ${[...steps]}`);
    const [at] = steps as unknown as [number];
    // All ask for the end of the epoch in the same step.
    if (here.some(({ called }) => called > epoch) && at < this.scenario.steps) {
      for (const worker of here) {
        worker.phase = "waiting";
        if (worker.called > epoch) this.join(worker);
      }
      return;
    }
    if (at === this.scenario.steps) {
      for (const worker of here) {
        // A script may end late.
        if (this.next() < 0.5) continue;
        worker.phase = "past";
        this.send(`from ${worker.id}`, () => this.tell({ type: "trained", worker: worker.id }));
        this.later(this.next() * 10, () => this.end(worker));
      }
      return;
    }
    for (const worker of here) worker.step++;
    // A worker that dies now may take the news of the step's end with it.
    const dying = here.find(() => this.next() < this.scenario.deaths);
    if (dying === undefined) return;
    this.die(dying);
    for (const worker of here) if (worker !== dying && this.next() < 0.3) worker.step--;
    const others = here.filter((worker) => worker !== dying);
    if (others.some(({ step }) => step === at)) for (const worker of others) if (worker.step === at) this.fails(worker);
  }
}
