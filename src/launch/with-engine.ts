/** @module Starts the workers of a run by an engine: the engine starts an agent for each worker, wherever it has room, and each starts its worker. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { HeddleError } from "../util/errors.ts";
import { ownVariables, readEnvironment } from "../util/settings.ts";
import { channelCarrier } from "./carrier.ts";
import { threadsPerWorker } from "./cores.ts";
import type { Crew } from "./crew.ts";
import { openDoorway } from "./dial.ts";
import type { Engine, EngineCommand } from "./engines/engine.ts";
import { HostLink } from "./host-link.ts";
import { type HostShare, ownCommand } from "./host-list.ts";
import type { AgentSeat, HelloMessage } from "./host-messages.ts";
import { type Linked, type LinkedOptions, type Machine, startLinked } from "./linked-crew.ts";
import { wordsOf } from "./words.ts";

/** Options of {@link startWithEngine}. */
export interface EngineOptions extends LinkedOptions {
  /** Arguments for the engine, separated by spaces. */
  readonly engineArgs?: string;
}

/** An agent that has come. */
interface Arrival {
  readonly link: HostLink;
  readonly hello: HelloMessage & { readonly seat: AgentSeat };
}

/** Refuses an engine that cannot be used here. @throws HeddleError `launcher` naming what is missing and how to install it. */
export async function checkEngine(engine: Engine): Promise<void> {
  const missing = await engine.missing();
  if (missing === undefined) return;
  throw new HeddleError("launcher", `--with ${engine.name}: ${missing.message}`, { hint: missing.hint });
}

/**
 * Lets an engine start an agent for each worker, opens the store on rank 0's host, and starts the workers.
 *
 * @param stopped ends the start
 * @throws HeddleError `launcher` if the engine ends before all agents have come, `world` if some do not come in time, or differ in version.
 */
export async function startWithEngine(
  engine: Engine,
  hosts: readonly HostShare[] | undefined,
  options: EngineOptions,
  stopped: Promise<unknown>,
): Promise<Crew> {
  const { networkInterface: choice, ports, timeout: byVariable } = readEnvironment();
  const timeout = options.timeout ?? byVariable ?? 60;
  const starter = engine.agents as NonNullable<Engine["agents"]>;
  const secret = randomBytes(32).toString("hex");
  const arrivals = new Arrivals(engine, options.size, timeout);
  const here = starter.here(hosts);
  const doorway = await openDoorway({
    secret,
    here,
    choice,
    ports,
    take: (channel, from) => arrivals.take(channel, from),
  });
  const agent = ownCommand("agent", "--dial", doorway.addresses, "--rank-of", starter.rankVariables.join(","));
  const args = wordsOf(options.engineArgs);
  const running = new RunningEngine(starter.command({ count: options.size, hosts, command: agent, args }), secret);
  const kill = (): void => {
    arrivals.kill();
    running.kill();
  };
  process.once("exit", kill);
  try {
    void stopped.then(() => arrivals.fail(new HeddleError("aborted", "the run was stopped")));
    void running.ended.then((how) =>
      arrivals.fail(
        new HeddleError("launcher", `${engine.title}: ${how} before all ${options.size} workers were there`),
      ),
    );
    const agents = await arrivals.all;
    running.silence();
    const { linked, machines } = seated(agents, options.threads);
    const crew = await startLinked(linked, machines, options);
    const { close } = crew;
    crew.close = async () => {
      await close();
      await running.leave();
      process.off("exit", kill);
    };
    return crew;
  } catch (error) {
    kill();
    await running.leave();
    process.off("exit", kill);
    throw error;
  } finally {
    doorway.close();
  }
}

/** The agents that have come so far. */
class Arrivals {
  /** Resolves when all have come, in order of their ranks. */
  readonly all: Promise<readonly Arrival[]>;
  private readonly engine: Engine;
  private readonly count: number;
  private readonly timeout: number;
  private readonly links: HostLink[] = [];
  private readonly come = new Map<number, Arrival>();
  private late: NodeJS.Timeout | undefined;
  private resolve: (agents: readonly Arrival[]) => void = () => {};
  private reject: (error: unknown) => void = () => {};

  constructor(engine: Engine, count: number, timeout: number) {
    this.engine = engine;
    this.count = count;
    this.timeout = timeout;
    this.all = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.all.catch(() => {});
  }

  take(channel: Parameters<typeof channelCarrier>[1], from: string): void {
    // An engine may have no room at first, as a queue: only when one agent is there must the others follow in time.
    this.late ??= setTimeout(() => this.giveUp(), 1000 * this.timeout);
    const link = new HostLink(
      from,
      channelCarrier(`an agent of ${this.engine.title} at ${from}`, channel),
      this.timeout,
    );
    this.links.push(link);
    link.greet().then(
      (hello) => this.seat(link, hello),
      (error: unknown) => this.fail(error),
    );
  }

  private seat(link: HostLink, hello: HelloMessage): void {
    const { seat } = hello;
    if (seat === undefined || seat.rank >= this.count || this.come.has(seat.rank)) {
      const said = `${this.engine.title} has started an agent of rank ${seat?.rank}`;
      const hint = `it was asked for ranks 0 to ${this.count - 1}, each once: do --engine-args change their number?`;
      this.fail(new HeddleError("launcher", said, { hint }));
      return;
    }
    link.host = seat.host;
    this.come.set(seat.rank, { link, hello: { ...hello, seat } });
    if (this.come.size < this.count) return;
    clearTimeout(this.late);
    this.resolve([...this.come.values()].sort((a, b) => a.hello.seat.rank - b.hello.seat.rank));
  }

  private giveUp(): void {
    const absent = Array.from({ length: this.count }, (_unused, rank) => rank).filter((rank) => !this.come.has(rank));
    this.fail(
      new HeddleError(
        "world",
        `${this.engine.title} has started ${this.come.size} of ${this.count} workers in ${this.timeout} s; ranks ${absent.join(", ")} are missing`,
        { hint: "are all workers' hosts able to reach this one? HEDDLE_INTERFACE, HEDDLE_PORTS (docs/hosts.md)" },
      ),
    );
  }

  fail(error: unknown): void {
    clearTimeout(this.late);
    this.reject(error);
  }

  kill(): void {
    for (const link of this.links) link.kill();
  }
}

/** Machines and places by the agents, which are in order of ranks. */
function seated(agents: readonly Arrival[], threads: number | undefined): { linked: Linked[]; machines: Machine[] } {
  const byMachine = new Map<string, Arrival[]>();
  for (const agent of agents) {
    const { machine } = agent.hello.seat;
    byMachine.set(machine, [...(byMachine.get(machine) ?? []), agent]);
  }
  const machines = [...byMachine.values()].map(([first]) => ({
    host: (first as Arrival).hello.seat.host,
    addresses: (first as Arrival).hello.addresses,
  }));
  const linked = agents.map((agent) => {
    const neighbours = byMachine.get(agent.hello.seat.machine) as Arrival[];
    // An engine may bind each process to processors of its own.
    const own = new Set(neighbours.map(({ hello }) => hello.seat.processors)).size > 1;
    const share = threadsPerWorker(agent.hello.cores, own ? 1 : neighbours.length);
    const place = {
      rank: agent.hello.seat.rank,
      localRank: neighbours.indexOf(agent),
      localSize: neighbours.length,
      threads: threads ?? share,
    };
    return { link: agent.link, places: [place] };
  });
  return { linked, machines };
}

/** The engine's process, which stays until its agents have ended. */
class RunningEngine {
  /** Resolves with how it has ended. */
  readonly ended: Promise<string>;
  private readonly child: ChildProcess;
  private silent = false;

  constructor({ program, args, variables }: EngineCommand, secret: string) {
    // In a group of its own: Ctrl-C at a terminal must reach the workers by the launcher alone.
    this.child = spawn(program, args, {
      env: { ...ownVariables(), ...variables, HEDDLE_SECRET: secret },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.on("data", (bytes: Buffer) => {
        // What the engine says of the start is for the user; later it only repeats what the launcher knows.
        if (!this.silent) process.stderr.write(bytes);
      });
    this.ended = new Promise((resolve) => {
      this.child.once("error", ({ message }) => resolve(`${program} could not be started (${message})`));
      this.child.once("close", (code, signal) => resolve(`${program} ended with ${signal ?? `status ${code}`}`));
    });
  }

  silence(): void {
    this.silent = true;
  }

  /** Waits until the engine has seen its agents end; ends it if it does not. */
  async leave(): Promise<void> {
    this.silent = true;
    const steps = (["SIGTERM", "SIGKILL"] as const).map((signal, index) =>
      setTimeout(() => this.child.kill(signal), 5000 * (index + 1)),
    );
    await this.ended;
    for (const step of steps) clearTimeout(step);
  }

  kill(): void {
    this.child.kill("SIGTERM");
  }
}
