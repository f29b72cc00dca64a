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
  const processes: readonly WorkerProcess[] = linked
    .flatMap((agent) => startWorkers(agent, run, options))
    .sort((a, b) => a.rank - b.rank);
  const crew: Crew = {
    processes,
    failed: false,
    kill: () => {
      for (const worker of processes) if (!worker.gone) worker.kill("SIGKILL");
    },
    close: async () => void (await Promise.all(linked.map(({ link }) => link.close(crew.stopped !== true)))),
    records: () =>
      linked.flatMap(({ link: { host, records } }) => (records === undefined ? [] : [`${host}:${records}`])),
  };
  return crew;
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
