/** @module The workers of a run behind agents: opens the store on rank 0's host, and starts the workers. */
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import type { OwnAddress } from "../hosts/interfaces.ts";
import { ownVariables, readEnvironment } from "../util/settings.ts";
import type { Crew } from "./crew.ts";
import { type EnvironmentVariables, type RunEnvironment, type WorkerPlace, workerEnvironment } from "./environment.ts";
import type { HostLink } from "./host-link.ts";
import { masterAddress } from "./host-list.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** What the workers of a run behind agents are to do. */
export interface LinkedOptions extends Omit<Partial<RunEnvironment>, "size"> {
  readonly file: string;
  readonly args?: readonly string[];
  readonly size: number;
  readonly threads?: number;
  readonly port?: number;
  readonly prefix?: "others" | "all";
  readonly outputToErrors?: boolean;
}

/** An agent, and the workers that it starts. */
export interface Linked {
  readonly link: HostLink;
  readonly places: readonly WorkerPlace[];
}

/** A machine of a run. */
export interface Machine {
  readonly host: string;
  readonly addresses: readonly OwnAddress[];
}

/**
 * Opens the store and starts the workers.
 *
 * @param machines rank 0's first
 * @throws HeddleError `world` or `port` if the store cannot be opened.
 */
export async function startLinked(
  linked: readonly Linked[],
  machines: readonly Machine[],
  options: LinkedOptions,
): Promise<Crew> {
  const { networkInterface: choice, ports } = readEnvironment();
  const masterHost = masterAddress(machines, choice);
  const [runId, secret] = [randomBytes(8).toString("hex"), randomBytes(32).toString("hex")];
  const store = { host: masterHost, port: options.port ?? 0, secret, runId, choice, ports };
  const first = linked.find(({ places }) => places.some(({ rank }) => rank === 0)) as Linked;
  const masterPort = await first.link.openStore({ type: "store", ...store });
  const run: RunEnvironment = { ...options, masterHost, masterPort, runId, secret, runDirectory: "" };
  const processes: WorkerProcess[] = linked
    .flatMap((agent) => startWorkers(agent, run, options))
    .sort((a, b) => a.rank - b.rank);
  const room = new Room(linked, processes);
  const crew: Crew = {
    processes,
    failed: false,
    // Its rank and the number of workers are told when it is welcomed.
    add: (worker) => {
      const [process] = startWorkers(room.take(worker), { ...run, elastic: "new", size: worker + 1 }, options);
      processes.push(process as WorkerProcess);
      return process as WorkerProcess;
    },
    kill: () => {
      for (const worker of processes) if (!worker.gone) worker.kill("SIGKILL");
    },
    close: async () => void (await Promise.all(linked.map(({ link }) => link.close(crew.stopped !== true)))),
    records: () =>
      linked.flatMap(({ link: { host, records } }) => (records === undefined ? [] : [`${host}:${records}`])),
  };
  return crew;
}

/** Where the agents have room for workers in the place of lost ones. */
class Room {
  private readonly linked: readonly Linked[];
  private readonly processes: readonly WorkerProcess[];
  private readonly lost = new Set<HostLink>();
  private readonly homes = new Map<number, { readonly link: HostLink; readonly localRank: number }>();

  constructor(linked: readonly Linked[], processes: readonly WorkerProcess[]) {
    this.linked = linked;
    this.processes = processes;
    for (const { link, places } of linked) {
      void link.gone.then(() => this.lost.add(link));
      for (const { rank, localRank } of places) this.homes.set(rank, { link, localRank });
    }
  }

  /** The place of a new worker: a free one of the agent that misses most workers, of those that are there. */
  take(worker: number): Linked {
    const here = this.linked.filter(({ link }) => !this.lost.has(link));
    const [agent] = [...(here.length === 0 ? this.linked : here)].sort((a, b) => this.free(b) - this.free(a));
    const { link, places } = agent as Linked;
    const taken = this.localRanks(link);
    const place = places.find(({ localRank }) => !taken.includes(localRank)) ?? (places.at(-1) as WorkerPlace);
    this.homes.set(worker, { link, localRank: place.localRank });
    return { link, places: [{ ...place, rank: worker }] };
  }

  private free({ link, places }: Linked): number {
    return places.length - this.localRanks(link).length;
  }

  /** The places of an agent's living workers. */
  private localRanks(link: HostLink): number[] {
    const alive = this.processes.filter(({ gone }) => !gone).map(({ rank }) => this.homes.get(rank));
    return alive.flatMap((home) => (home?.link === link ? [home.localRank] : []));
  }
}

function startWorkers({ link, places }: Linked, run: RunEnvironment, options: LinkedOptions): WorkerProcess[] {
  const outputToErrors = options.plan !== undefined || options.outputToErrors === true;
  const processes = places.map(({ rank }) =>
    link.worker(rank, { prefixed: rank !== 0 || options.prefix === "all", outputToErrors }),
  );
  const workers = places.map((place) => ({ rank: place.rank, variables: workerEnvironment(run, place, handedOn()) }));
  const { file, args = [] } = options;
  link.tell({ type: "start", folder: process.cwd(), file: resolve(file), args, outputToErrors, workers });
  return processes;
}

/** The variables that workers behind an agent get: Heddle's own. */
export function handedOn(): EnvironmentVariables {
  const own = Object.entries(ownVariables()).filter(([name]) => name.startsWith("HEDDLE_") || name === "NO_COLOR");
  return Object.fromEntries(own);
}
