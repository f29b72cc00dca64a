/** @module The workers of a run, wherever they are. */
import type { ParameterServers } from "./parameter-servers.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** The started workers. */
export interface Crew {
  readonly processes: readonly WorkerProcess[];
  /** The parameter servers of the run, if there are any; also where the workers are the servers. */
  readonly servers?: ParameterServers;
  /** Whether the run has failed, so that nothing waits for workers any more. */
  failed: boolean;
  /** Whether a signal has stopped the run: then nobody looks for its records. */
  stopped?: boolean;
  /** Starts a worker in the place of a lost one; undefined if these workers cannot be replaced. */
  add?(worker: number): WorkerProcess;
  /** Kills what still runs. */
  kill(): void;
  /** Gives back everything but the workers: the store, links to hosts. */
  close(): Promise<void>;
  /** Folders with records of a failed run, as `host:path`, once closed. */
  records?(): string[];
}
