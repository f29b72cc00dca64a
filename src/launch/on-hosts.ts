/** @module Starts the workers of a run on several hosts, by an agent on each. */
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { ownVariables, readEnvironment } from "../util/settings.ts";
import { threadsPerWorker } from "./cores.ts";
import type { Crew } from "./crew.ts";
import { type EnvironmentVariables, type RunEnvironment, workerEnvironment } from "./environment.ts";
import { HostLink } from "./host-link.ts";
import { defaultShell, type HostShare, masterAddress, shellCommand } from "./host-list.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** Options of {@link startOnHosts}. */
export interface HostsOptions extends Omit<Partial<RunEnvironment>, "size"> {
  readonly file: string;
  readonly args?: readonly string[];
  readonly size: number;
  readonly threads?: number;
  readonly port?: number;
  readonly shell?: string;
  readonly prefix?: "others" | "all";
  readonly outputToErrors?: boolean;
}

/**
 * Starts an agent on each host, the store on rank 0's host, and the workers.
 *
 * @param stopped ends the start
 * @throws HeddleError `world` naming a host that cannot be reached in time, or whose Heddle has another version.
 */
export async function startOnHosts(
  shares: readonly HostShare[],
  options: HostsOptions,
  stopped: Promise<unknown>,
): Promise<Crew> {
  const { networkInterface: choice, ports, timeout: byVariable } = readEnvironment();
  const timeout = options.timeout ?? byVariable ?? 60;
  const commands = shares.map(({ host }) => shellCommand(options.shell ?? defaultShell, host));
  const links = shares.map(({ host }, index) => new HostLink(host, commands[index] as string[], timeout));
  const kill = (): void => {
    for (const link of links) link.kill();
  };
  process.once("exit", kill);
  let started = false;
  void stopped.then(() => {
    if (!started) kill();
  });
  try {
    const hellos = await Promise.all(links.map((link) => link.greet()));
    const masterHost = masterAddress(
      shares.map(({ host }, index) => ({ host, addresses: hellos[index]?.addresses ?? [] })),
      choice,
    );
    const [runId, secret] = [randomBytes(8).toString("hex"), randomBytes(32).toString("hex")];
    const store = { host: masterHost, port: options.port ?? 0, secret, runId, choice, ports };
    const masterPort = await (links[0] as HostLink).openStore({ type: "store", ...store });
    const run: RunEnvironment = {
      ...options,
      size: options.size,
      masterHost,
      masterPort,
      runId,
      secret,
      runDirectory: "",
    };
    const processes = links.flatMap((link, index) =>
      startShare(link, shares[index] as HostShare, { run, options, cores: hellos[index]?.cores ?? 1 }),
    );
    started = true;
    return {
      processes,
      failed: false,
      kill: () => {
        for (const worker of processes) if (!worker.gone) worker.kill("SIGKILL");
      },
      close: async () => {
        await Promise.all(links.map((link) => link.close()));
        process.off("exit", kill);
      },
      records: () => links.flatMap(({ host, records }) => (records === undefined ? [] : [`${host}:${records}`])),
    };
  } catch (error) {
    kill();
    process.off("exit", kill);
    throw error;
  }
}

interface Start {
  readonly run: RunEnvironment;
  readonly options: HostsOptions;
  readonly cores: number;
}

function startShare(link: HostLink, share: HostShare, { run, options, cores }: Start): WorkerProcess[] {
  const ranks = Array.from({ length: share.workers }, (_unused, index) => share.first + index);
  const threads = options.threads ?? threadsPerWorker(cores, share.workers);
  const outputToErrors = options.plan !== undefined || options.outputToErrors === true;
  const processes = ranks.map((rank) =>
    link.worker(rank, { prefixed: rank !== 0 || options.prefix === "all", outputToErrors }),
  );
  const workers = ranks.map((rank, localRank) => {
    const place = { rank, localRank, localSize: share.workers, threads };
    return { rank, variables: workerEnvironment(run, place, handedOn()) };
  });
  const { file, args = [] } = options;
  link.tell({ type: "start", folder: process.cwd(), file: resolve(file), args, outputToErrors, workers });
  return processes;
}

/** The variables that workers of other hosts get: Heddle's own. */
function handedOn(): EnvironmentVariables {
  const own = Object.entries(ownVariables()).filter(([name]) => name.startsWith("HEDDLE_") || name === "NO_COLOR");
  return Object.fromEntries(own);
}
