/** @module Watches the workers of an elastic run: goes on without lost workers, starts others in their place, and tells all who takes part. */

import { consequences } from "../elastic/losses.ts";
import { type ElasticLimits, Membership, type MembershipAction, type MembershipEvent } from "../elastic/membership.ts";
import type { ElasticMessage } from "../launcher-messages/launcher.ts";
import type { RunLog } from "../quorum/log.ts";
import { listed } from "../util/text.ts";
import type { Crew } from "./crew.ts";
import { type StopRequest, type StopSignal, statusOf, stopAll } from "./supervise.ts";
import type { WorkerExit, WorkerProcess } from "./worker-process.ts";

/** Time for the other members to say that an epoch is broken, before those who do not are killed. */
const patienceMilliseconds = 5000;

/** How an elastic run ended. */
export interface ElasticEnd {
  readonly stoppedBy: StopSignal | undefined;
  /** Workers whose loss did not end the run. */
  readonly forgiven: ReadonlySet<number>;
  /** Why this launcher leads the run no more; its workers are killed. */
  readonly lost: string | undefined;
}

/** Options of {@link superviseElastic}. */
export interface ElasticOptions {
  readonly limits: ElasticLimits;
  /** The epoch of the first members. */
  readonly epoch: number;
  /** Where each epoch is written before it is announced; undefined: nowhere. */
  readonly log: RunLog | undefined;
  /** Milliseconds of {@link stopAll}. */
  readonly grace: number;
  readonly saves: boolean;
  /** Prints a line about the run. */
  readonly say: (line: string) => void;
  /** Called before an epoch is announced. */
  readonly onEpoch: (epoch: number) => void;
  /** Called for each worker that is started later. */
  readonly onStart: (worker: WorkerProcess) => void;
}

/** Waits for the end of an elastic run. */
export async function superviseElastic(crew: Crew, stop: StopRequest, options: ElasticOptions): Promise<ElasticEnd> {
  const run = new ElasticRun(crew, options);
  const lost = options.log?.lost.then((reason) => ({ reason })) ?? new Promise<never>(() => {});
  const outcome = await Promise.race([run.ended, stop.requested, lost]);
  const end = { stoppedBy: undefined, forgiven: run.forgiven, lost: undefined };
  if (outcome === "finished") return end;
  if (typeof outcome === "object") {
    options.say(`${outcome.reason}: the workers are ended, so that another launcher can go on`);
    run.stop(false);
    crew.kill();
    await Promise.all(crew.processes.map(({ ended }) => ended));
    return { ...end, lost: outcome.reason };
  }
  const isSignal = outcome !== "failed";
  if (isSignal) run.stop(options.saves);
  await stopAll(crew.processes, isSignal ? outcome : "SIGTERM", stop, options.grace, isSignal && options.saves);
  return { ...end, stoppedBy: isSignal ? outcome : undefined };
}

class ElasticRun {
  /** Workers whose loss did not end the run. */
  readonly forgiven = new Set<number>();
  /** Workers whose loss the run has not got over yet. */
  private readonly missed = new Set<number>();
  readonly ended: Promise<"finished" | "failed">;
  private readonly crew: Crew;
  private readonly options: ElasticOptions;
  private readonly membership: Membership;
  private end: (how: "finished" | "failed") => void = () => {};
  private over = false;

  constructor(crew: Crew, options: ElasticOptions) {
    this.crew = crew;
    this.options = options;
    const { limits, epoch } = options;
    this.membership = new Membership({ ...limits, replaces: crew.add !== undefined }, epoch);
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
    for (const worker of crew.processes) this.watch(worker);
  }

  /** The run is being stopped: nobody is started; while trainings save, the others still go on without a worker that is lost. */
  stop(saves: boolean): void {
    this.take({ type: "stopping" });
    this.over = !saves;
  }

  private watch(worker: WorkerProcess): void {
    worker.onElastic = (message) => this.heard(worker, message);
    void worker.ended.then((exit) => this.gone(worker, exit));
  }

  private heard({ rank: worker }: WorkerProcess, message: ElasticMessage): void {
    const { epoch, members } = this.membership;
    if (message.type === "broken" && message.epoch === epoch && members.includes(worker))
      this.options.say(`worker ${worker} waits for the others: ${message.reason}`);
    this.take({ ...message, worker } as MembershipEvent);
  }

  private gone(worker: WorkerProcess, exit: WorkerExit): void {
    if (this.over) return;
    const { rank, step } = worker;
    const how = howEnded(worker, exit);
    const isEarly = how === "finished" && this.membership.isMissed(rank);
    if ((how === "lost" || isEarly) && !worker.stopping)
      this.options.say(`worker ${rank} ${endOf(exit)}${step === undefined ? "" : ` after the launch of step ${step}`}`);
    if (how === "lost") this.missed.add(rank);
    // Asked to end, its training has ended, and it has left to the others nothing to do.
    if (how === "finished" && worker.stopping) this.take({ type: "trained", worker: rank });
    this.take({ type: "ended", worker: rank, how });
  }

  private take(event: MembershipEvent): void {
    if (this.over) return;
    for (const action of this.membership.take(event)) this.act(action);
  }

  private act(action: MembershipAction): void {
    switch (action.type) {
      case "announce":
        void this.announce(action.epoch, action.members);
        break;
      case "start": {
        const worker = this.crew.add?.(action.worker) as WorkerProcess;
        this.options.onStart(worker);
        this.watch(worker);
        this.options.say(`worker ${action.worker} is started in its place`);
        break;
      }
      case "dismiss": {
        const worker = this.process(action.worker);
        this.options.say(`worker ${action.worker} comes too late to take part, and is ended`);
        worker.stopping = true;
        this.forgiven.add(action.worker);
        worker.kill("SIGTERM");
        break;
      }
      case "kill":
        this.options.say(`worker ${action.worker} neither works nor says why, and is killed`);
        this.process(action.worker).kill("SIGKILL");
        break;
      case "await":
        setTimeout(() => this.take({ type: "overdue", epoch: action.epoch }), patienceMilliseconds).unref();
        break;
      case "finish":
        this.finish("finished");
        break;
      case "fail":
        this.options.say(action.reason);
        this.finish("failed");
        break;
    }
  }

  /** Announces an epoch as soon as the log has it. */
  private async announce(epoch: number, members: readonly number[]): Promise<void> {
    const { log } = this.options;
    if (log !== undefined && !(await log.append({ type: "epoch", epoch, members }))) return;
    this.options.onEpoch(epoch);
    const names = members.map(String);
    const who = members.length === 1 ? `worker ${names[0]}` : `workers ${listed(names, names.length)}`;
    this.options.say(`going on with ${who}`);
    for (const worker of this.missed) this.forgiven.add(worker);
    this.missed.clear();
    members.forEach((worker, rank) => {
      this.process(worker).send({ type: "membership", epoch, rank, size: members.length });
    });
  }

  private finish(how: "finished" | "failed"): void {
    this.over = true;
    this.end(how);
  }

  private process(worker: number): WorkerProcess {
    return this.crew.processes.find(({ rank }) => rank === worker) as WorkerProcess;
  }
}

/** An error of the worker's own ends the run; an error about others, or none, means that the worker is lost. */
function howEnded(
  { error, stopping }: WorkerProcess,
  { code, startError, hostLost = false }: WorkerExit,
): "finished" | "failed" | "lost" {
  if (hostLost) return "lost";
  const isAsked = stopping && code === statusOf("SIGUSR2");
  if ((code === 0 || isAsked) && startError === undefined) return "finished";
  if (stopping || (error === undefined && startError === undefined)) return "lost";
  return error?.code !== undefined && consequences.has(error.code) ? "lost" : "failed";
}

const endOf = ({ signal, code, hostLost = false }: WorkerExit): string =>
  hostLost ? "is lost with its host" : signal === null ? `ended with exit status ${code}` : `was killed by ${signal}`;
