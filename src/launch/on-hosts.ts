/** @module Starts the workers of a run on several hosts, by an agent on each. */
import { readEnvironment } from "../util/settings.ts";
import { shellCarrier } from "./carrier.ts";
import { threadsPerWorker } from "./cores.ts";
import type { Crew } from "./crew.ts";
import { HostLink } from "./host-link.ts";
import { defaultShell, type HostShare, shellCommand } from "./host-list.ts";
import { type LinkedOptions, startLinked } from "./linked-crew.ts";

/** Options of {@link startOnHosts}. */
export interface HostsOptions extends LinkedOptions {
  readonly shell?: string;
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
  const timeout = options.timeout ?? readEnvironment().timeout ?? 60;
  const commands = shares.map(({ host }) => shellCommand(options.shell ?? defaultShell, host));
  const links = shares.map(
    ({ host }, index) => new HostLink(host, shellCarrier(host, commands[index] as string[]), timeout),
  );
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
    const machines = shares.map(({ host }, index) => ({ host, addresses: hellos[index]?.addresses ?? [] }));
    const linked = shares.map(({ first, workers: localSize }, index) => {
      const threads = options.threads ?? threadsPerWorker(hellos[index]?.cores ?? 1, localSize);
      const ranks = Array.from({ length: localSize }, (_unused, localRank) => first + localRank);
      return {
        link: links[index] as HostLink,
        places: ranks.map((rank, localRank) => ({ rank, localRank, localSize, threads })),
      };
    });
    const crew = await startLinked(linked, machines, options);
    started = true;
    const { close } = crew;
    crew.close = async () => {
      await close();
      process.off("exit", kill);
    };
    return crew;
  } catch (error) {
    kill();
    process.off("exit", kill);
    throw error;
  }
}
