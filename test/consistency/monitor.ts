/**
 * What must hold in every training under a policy, checked over the simulation with the policy's real code. A copy of the parameters is
 * the number of updates that were applied before it, and the worker's own updates on top; all updates are kept, in the order in
 * which they were applied.
 */
import { type Consistency, policyNamed, type SimulatedEvent, simulate, type Update } from "heddle/consistency";
import { randomFrom } from "../support/tensors.ts";

/** What is checked besides that each update counts once, and that every wait ends. */
export interface Bounds {
  /** No worker begins a clock more than so many ahead of the slowest, and its copy has all updates older than that. */
  readonly lead?: number;
  /** All workers that begin a clock read the same parameters. */
  readonly inStep?: boolean;
  /** A worker's own updates are in what it reads. */
  readonly ownWrites?: boolean;
  /** A worker's updates that others do not see stay within the bound over the root of the clock. */
  readonly value?: number;
}

/** Trainings to simulate. */
export interface Scenario {
  readonly spec: string;
  readonly bounds: Bounds;
  readonly kills: boolean;
  readonly joins: boolean;
  /** The policy that takes over in the middle. */
  readonly then?: string;
}

interface Read {
  readonly worker: number;
  readonly clock: number;
  readonly prefix: number;
  readonly own: readonly number[];
}

interface Copy {
  readonly prefix: number;
  /** Own updates on top of the prefix. */
  readonly own: number[];
}

type Payload = { readonly size: number; readonly steps: readonly number[] };

/** Runs one training; throws an error that names a broken rule. Gives its log, to compare two runs. */
export function check(scenario: Scenario, seed: number): string {
  const random = randomFrom(seed);
  const workers = 1 + Math.floor(random() * 6);
  const applied: { readonly update: Update<Payload> }[] = [];
  const reads: Read[] = [];
  const log: string[] = [];
  let steps = 0;
  let arrived = 0;
  const fail = (what: string): never => {
    throw new Error(`${scenario.spec} seed ${seed}: ${what}\n${log.slice(-30).join("\n")}`);
  };
  const pace = Array.from({ length: 12 }, () => 0.2 + random() ** 3 * 5);
  const limits = Array.from({ length: 12 }, () => 1 + Math.floor(random() * 25));
  const { events, change } = eventsOf(scenario, workers, random);
  /** Clocks from here on began under the second policy. */
  let from = scenario.then === undefined ? 0 : Infinity;
  const values = new ValueMonitor(scenario.bounds.value ?? Infinity, fail);

  const granted = (worker: number, clock: number, prefix: number, { clocks }: Consistency<Payload>): void => {
    log.push(`grant ${worker}:${clock} at ${prefix}`);
    const { lead = Infinity, value } = scenario.bounds;
    if (clock >= from && clock - clocks.slowest > lead)
      fail(`worker ${worker} begins clock ${clock}, and the slowest is at ${clocks.slowest}`);
    if (value !== undefined) values.began(worker, clock, prefix, clocks.workers);
  };

  const result = simulate<Copy, Payload>({
    policy: scenario.spec,
    workers,
    clocks: (worker) => limits[worker % limits.length] as number,
    // One in eight steps takes long: who is slow changes.
    seconds: (worker) => (pace[worker % pace.length] as number) * (random() < 0.125 ? 10 * random() : 0.5 + random()),
    delay: () => random() ** 2,
    notice: 3,
    events,
    model: {
      copy: () => ({ prefix: applied.length, own: [] }),
      gradient: (_copy, _worker, step) => ({ size: random(), steps: [step] }),
      add: (left, right) => ({ size: left.size + right.size, steps: [...left.steps, ...right.steps] }),
      applyLocally: ({ own }, { steps: local }) => own.push(...local),
      exchange: (_copy, _server, _elasticity) => ({ size: 0, steps: [] }),
      size: ({ size }) => size,
      apply(step) {
        const sum = step.parts.reduce((total, { weight }) => total + weight, 0);
        if (scenario.bounds.inStep === true && scenario.then === undefined && Math.abs(sum - 1) > 1e-12)
          fail(`a step has the weight ${sum}`);
        for (const { update } of step.parts) {
          log.push(`apply ${update.worker}:${update.clock} in step ${steps}`);
          applied.push({ update });
          values.applied(update.worker, update.size);
        }
        steps++;
      },
    },
    granted: ({ worker, clock }, copy, consistency) => granted(worker, clock, copy.prefix, consistency),
    read(worker, clock, { prefix, own }, { clocks, policy }) {
      if (from < Infinity) reads.push({ worker, clock, prefix, own: [...own] });
      if (policy.spec === change && from === Infinity)
        from =
          1 +
          Math.max(
            ...clocks.workers.map(({ begun, until }) => Math.max(begun, until)),
            ...applied.map(({ update }) => update.clock),
          );
    },
    updated() {
      arrived++;
      return false;
    },
  });

  if (result.stuck.length > 0) fail(`workers ${result.stuck} wait for ever`);
  if (result.pending > 0) fail(`${result.pending} updates are neither applied nor dropped`);
  if (applied.length + result.dropped !== arrived)
    fail(`${arrived} updates came, ${applied.length} were applied and ${result.dropped} dropped`);
  // Backup workers lose their late updates; each step has one of at most nine workers at least.
  const least = /backup/.test(`${scenario.spec} ${scenario.then}`) ? arrived / 9 : arrived;
  if (applied.length < least) fail(`only ${applied.length} of ${arrived} updates were applied`);
  if (new Set(applied.map(({ update }) => update)).size !== applied.length) fail("an update was applied twice");
  checkReads(scenario, reads, applied, from, fail);
  return log.join("\n");
}

function eventsOf({ kills, joins, then }: Scenario, workers: number, random: () => number) {
  const events: SimulatedEvent[] = [];
  // Worker 0 lives, so that a run never ends because all have died.
  if (kills) for (let kill = 1; kill < workers; kill++) if (random() < 0.5) events.push({ at: random() * 40, kill });
  if (joins) for (let join = 6; join < 9; join++) if (random() < 0.7) events.push({ at: random() * 40, join });
  if (joins && kills && random() < 0.5) events.push({ at: 20 + random() * 30, kill: 6 });
  if (then !== undefined) events.push({ at: random() * 40, change: then });
  return { events, change: then === undefined ? undefined : policyNamed(then).spec };
}

function checkReads(
  { bounds }: Scenario,
  reads: readonly Read[],
  applied: readonly { readonly update: Update<Payload> }[],
  from: number,
  fail: (what: string) => never,
): void {
  const { lead = Infinity, inStep = false, ownWrites = false } = bounds;
  const prefixes = new Map<number, number>();
  for (const { worker, clock, prefix, own } of reads) {
    if (clock < from) continue;
    for (let index = prefix; index < applied.length; index++) {
      const { update } = applied[index] as { readonly update: Update<Payload> };
      if (update.clock < clock - lead)
        fail(`worker ${worker} reads for clock ${clock} without the update ${update.worker}:${update.clock}`);
      const isOwn = update.worker === worker && update.clock < clock;
      if (ownWrites && isOwn && !update.payload?.steps.every((step) => own.includes(step)))
        fail(`worker ${worker} reads for clock ${clock} without its own update of clock ${update.clock}`);
    }
    if (!inStep) continue;
    if ((prefixes.get(clock) ?? prefix) !== prefix) fail(`the step of clock ${clock} is mixed`);
    prefixes.set(clock, prefix);
    const early = applied.slice(0, prefix).find(({ update }) => update.clock >= clock);
    if (early !== undefined) fail(`worker ${worker} reads for clock ${clock} with one of clock ${early.update.clock}`);
  }
}

/** The bound of values, computed anew from what each worker was given last. */
class ValueMonitor {
  private readonly given = new Map<number, { readonly clock: number; readonly prefix: number }>();
  private readonly sizes: { readonly worker: number; readonly size: number }[] = [];
  private readonly bound: number;
  private readonly fail: (what: string) => never;

  constructor(bound: number, fail: (what: string) => never) {
    this.bound = bound;
    this.fail = fail;
  }

  applied(worker: number, size: number): void {
    this.sizes.push({ worker, size });
  }

  began(
    worker: number,
    clock: number,
    prefix: number,
    workers: readonly { readonly worker: number; readonly begun: number; readonly done: number }[],
  ): void {
    const old = workers
      .filter((other) => other.worker !== worker && other.begun > other.done)
      .map((other) => {
        const last = this.given.get(other.worker);
        // Without a grant of the clock that it has begun, the worker began in this event.
        return last === undefined || last.clock < other.begun - 1 ? prefix : last.prefix;
      });
    const least = Math.min(prefix, ...old);
    const sum = this.sizes
      .slice(least)
      .reduce((total, update) => total + (update.worker === worker ? update.size : 0), 0);
    const most = this.bound / Math.sqrt(clock + 1);
    if (sum > most + 1e-9) this.fail(`worker ${worker} begins clock ${clock} with ${sum} unseen, at most ${most}`);
    this.given.set(worker, { clock, prefix });
  }
}
