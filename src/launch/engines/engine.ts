/** @module What an engine is: a system that starts the processes of a run, such as MPI, Slurm, Ray or Kubernetes. */
import type { HostShare } from "../host-list.ts";
import type { StopSignal } from "../supervise.ts";

/** What a machine lacks. */
export interface Missing {
  readonly message: string;
  /** How to install it. */
  readonly hint: string;
}

/** The agents that an engine is to start: one for each worker. */
export interface AgentsWanted {
  readonly count: number;
  /** The hosts of the agents, if the user has named any. */
  readonly hosts: readonly HostShare[] | undefined;
  /** The command of an agent: the same for all. */
  readonly command: readonly string[];
  /** Further arguments of the user's for the engine. */
  readonly args: readonly string[];
}

/** A command that starts agents and stays until they have ended. */
export interface EngineCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** Variables beside this process's own; the engine hands on HEDDLE_SECRET. */
  readonly variables?: { readonly [name: string]: string };
}

/** How an engine starts agents for a launcher that stays. */
export interface AgentStarter {
  /** The variables in which the engine tells each agent its number, from 0 on; the first that is set counts. */
  readonly rankVariables: readonly string[];
  /** Whether the user may name hosts. */
  readonly takesHosts: boolean;
  /** Whether all agents will be on this host. */
  here(hosts: readonly HostShare[] | undefined): boolean;
  command(wanted: AgentsWanted): EngineCommand;
}

/** A whole run for an engine that takes it from this machine. */
export interface Submission {
  /** The arguments of `heddle`, as they were given. */
  readonly heddle: readonly string[];
  /** The user's file, as it was given, and its arguments. */
  readonly file: string;
  readonly args: readonly string[];
  readonly workers: number;
  readonly restarts: number;
  /** Seconds that workers get to end after they were asked to. */
  readonly grace: number;
  /** Seconds in which a request that fails is tried again. */
  readonly patience: number;
  /** The variables `HEDDLE_…` of this process, without secrets. */
  readonly variables: { readonly [name: string]: string };
  /** Further arguments of the user's for the engine. */
  readonly engineArgs: readonly string[];
  /** Resolves when the run is to stop. */
  readonly stopped: Promise<StopSignal>;
  /** Takes the run's output. */
  readonly write: (text: string) => void;
}

/** What `heddle launch` writes a job from. */
export interface JobWanted {
  readonly file: string;
  readonly args: readonly string[];
  readonly workers: number;
  readonly options: { readonly [name: string]: string | undefined };
}

/** A file that `heddle launch` prints, for the engine's own commands. */
export interface JobWriter {
  /** Options beside the common ones, as commander takes them: flags, what they say, and the default. */
  readonly options: readonly { readonly flags: string; readonly says: string; readonly default?: string }[];
  /** How the file is used. */
  readonly use: string;
  /** @throws HeddleError `option` */
  write(job: JobWanted): string;
}

/** A system that starts the processes of a run. */
export interface Engine {
  /** The name in `--with`. */
  readonly name: string;
  readonly title: string;
  /** A line of `--help`. */
  readonly summary: string;
  /** What this machine lacks for `heddle run --with`; undefined if nothing. */
  missing(): Promise<Missing | undefined>;
  /** How it starts agents; undefined if it takes whole runs only. */
  readonly agents?: AgentStarter;
  /** Runs the whole run elsewhere, and resolves to the exit status; undefined if the launcher runs here. */
  submit?(job: Submission): Promise<number>;
  /** Whether this process should submit, if the engine does both. */
  submits?(): boolean;
  /** How `heddle launch` writes a job for it. */
  readonly job?: JobWriter;
}
