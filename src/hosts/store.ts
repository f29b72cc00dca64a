/** @module The store of a run, opened by rank 0 where no launcher of Heddle's does. */
import { setTimeout as sleep } from "node:timers/promises";
import { HeddleError } from "../util/errors.ts";
import { reasonOf } from "../util/faults.ts";
import { storeAddresses } from "./interfaces.ts";

/** The native core's server. */
export interface Server {
  start(host: string, port: number, secret: string, runId: string): Promise<number>;
  stop(): void;
  readonly connections: number;
}

/** A store that runs. */
export interface RunStore {
  readonly port: number;
  /** Waits until no other process has a connection, at most for so many seconds, and frees the port. */
  close(seconds: number): Promise<void>;
}

/** Options of {@link openRunStore}. */
export interface RunStoreOptions {
  /** Rank 0's host, as the others name it. */
  readonly host: string;
  /** 0: a port of `ports`, or any free one. */
  readonly port: number;
  readonly ports?: readonly [first: number, last: number] | undefined;
  readonly secret: string;
  readonly runId: string;
  /** Which addresses to listen on if the host's name does not tell. */
  readonly choice?: string | undefined;
  /** What to do if the port cannot be opened. */
  readonly hint?: string;
}

/**
 * Opens the store of a run.
 *
 * @throws HeddleError `port` if the port cannot be opened; `memory` if no thread can be started for it.
 */
export async function openRunStore(makeServer: () => Server, options: RunStoreOptions): Promise<RunStore> {
  const { host, port, secret, runId, choice } = options;
  const { hint = "another program may use the port: set another MASTER_PORT for all processes" } = options;
  const addresses = await storeAddresses(host, choice);
  let cause: unknown;
  const [first, last] = port === 0 && options.ports !== undefined ? options.ports : [port, port];
  for (const address of addresses) {
    for (let tried = first; tried <= last; tried++) {
      const server = makeServer();
      try {
        const opened = await server.start(address, tried, secret, runId);
        return { port: opened, close: (seconds) => closeWhenUnused(server, seconds) };
      } catch (error) {
        cause = error;
      }
    }
  }
  const reason = reasonOf(cause instanceof Error ? cause.message : String(cause));
  if (/could not start (a|the store's) thread/.test(reason))
    throw new HeddleError("memory", `the store of the run could not be opened: ${reason}`, {
      hint: "memory, address space or the number of threads is limited: see ulimit -a, or the container's limits",
      cause,
    });
  const ports = first === last ? port : `${first} to ${last}`;
  throw new HeddleError("port", `port ${ports} of ${addresses.join(" or ")} could not be opened: ${reason}`, {
    hint,
    cause,
  });
}

const leaving: (() => void)[] = [];

/** Registers what ends this process's own connections to the store, before the store is closed. */
export const onLeaving = (callback: () => void): void => void leaving.push(callback);

/** Waits until no other process has a connection to the store, at most for so many seconds, and stops it. */
async function closeWhenUnused(server: Server, seconds: number): Promise<void> {
  for (const callback of leaving.splice(0)) callback();
  const deadline = performance.now() + seconds * 1000;
  while (server.connections > 0 && performance.now() < deadline) await sleep(20);
  server.stop();
}
