/**
 * @module What a training asks of the machine that it runs on: files, a process with signals and a launcher, a place for lines of
 * text. Node has all of it (`host.ts`), a browser has neither files nor processes (`host-browser.ts`, which bundlers put in the place
 * of `host.ts`).
 */

import type { FolderLock } from "../checkpoints/lock.ts";
import type { OpenCheckpoint } from "../checkpoints/types.ts";
import type { Member } from "../elastic/member.ts";
import type { HostTensors, SafetensorsMetadata } from "../io/safetensors.ts";
import type { SavedInput } from "../io/saved-model.ts";
import type { WorkerMessage } from "../launcher-messages/launcher.ts";
import type { Layer } from "../nn/index.ts";
import type { Mesh, Plan, PlanLayouts } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { HeddleError } from "../util/errors.ts";
import type { Partners } from "./neighbours.ts";
import type { Settings } from "./options.ts";
import type { Reporter } from "./progress.ts";
import type { RunState } from "./state.ts";
import type { Training, Updates } from "./updates.ts";
import type { ModelTypes, TrainState } from "./values.ts";

/** What {@link HostFiles.takeFolder} needs besides the settings. */
export interface CheckpointSearch {
  /** Size of a checkpoint of this training in bytes. */
  readonly bytes: number;
  readonly reporter: Reporter;
  /** Called as soon as this process holds the folder. */
  readonly onLock: (lock: FolderLock) => void;
}

/** The checkpoints to resume from, the newest first, until one verifies. */
export interface Candidates {
  /** The next one; undefined if there is none. @throws HeddleError `checkpoint` if all were refused, or there is nothing at the path */
  next(): Promise<string | undefined>;
  /** Leaves one out; the warning for it, if any. @throws the error, if it does not mean that this checkpoint is damaged */
  refuse(path: string, error: unknown): string | undefined;
}

/** What a saver needs. */
export interface SaverOptions {
  readonly settings: Settings;
  readonly runtime: Runtime;
  /** Names of the parameters and of layer state. */
  readonly names: readonly string[];
  /** Names of the training's metrics. */
  readonly metrics: readonly string[];
  /** Whether every process holds all values. */
  readonly whole: boolean;
  /** The checkpoint that the training resumed from, if any; in the same folder the training continues its series. */
  readonly resumedFrom: string | undefined;
  /** Whether the training goes on from the memory of its workers: then its series goes on, too. */
  readonly continues: boolean;
  /** Marks the files of this run, the same on every rank. */
  readonly tag: string;
  /** The folder's lock, on rank 0. */
  readonly lock: FolderLock | undefined;
  readonly warn: (text: string) => void;
}

/** When a checkpoint may be due: after a step, after an epoch, or at the end of the training. */
export type Moment = "step" | "epoch" | "end";

/** Writes the checkpoints of a run while it goes on, one at a time: a save waits for the one before it. */
export interface Saver {
  /** The newest complete checkpoint of this run. */
  readonly path: string | undefined;
  /** Called once, with the number of steps before the first step of this process, of which there is nothing new to save. */
  start(steps: number): void;
  isDue(moment: Moment, steps: number): boolean;
  /**
   * Saves what is due: waits for the previous save and throws its error; copies the values and starts to write. Every rank with a saver must
   * call it.
   */
  save(moment: Moment, state: RunState): Promise<void>;
  /** Waits for the last save and throws its error. Every rank with a saver must call it. */
  finished(): Promise<void>;
  /** Ends the saver of a training that was ended: waits at most this time for the current save, then drops it. */
  end(milliseconds: number): Promise<void>;
  /** Throws the error of a failed save, without waiting. */
  check(): void;
  /** Removes half-written files immediately, before the process ends. */
  removeTemporaries(): void;
}

/** The files of a training. */
export interface HostFiles {
  /**
   * Takes the folder of the option `checkpoint` for this run, and tests whether checkpoints can be written there. Rank 0 calls this function.
   *
   * @throws HeddleError `file` or `disk`
   */
  takeFolder(settings: Pick<Settings, "checkpoint">, search: CheckpointSearch): Promise<void>;
  /** The checkpoints at the option `resume`. Rank 0 calls this function. @throws HeddleError `file` */
  candidates(settings: Settings, warn: (text: string) => void): Promise<Candidates>;
  /** Opens a checkpoint. @throws HeddleError `checkpoint`, `format`, `version` or `file` */
  openCheckpoint(path: string, options: { readonly signal: AbortSignal }): Promise<OpenCheckpoint>;
  /** The error of a checkpoint whose name says another step; undefined for a right one. */
  stepProblem(checkpoint: OpenCheckpoint): HeddleError | undefined;
  /** Whether an error means that a checkpoint is damaged. */
  isDamage(error: unknown): boolean;
  /** Writes the checkpoints of a training; undefined if this rank takes no part. */
  makeSaver(given: SaverOptions): Saver | undefined;
  /** The plan in a file. */
  readPlan(path: string): Plan | PlanLayouts;
  /** Writes tensors for the function `what` that users call; the file appears whole or not at all. */
  writeTensors(what: string, path: string, tensors: HostTensors, metadata: SafetensorsMetadata): Promise<void>;
  readTensors(path: string): Promise<{ readonly tensors: HostTensors; readonly metadata: SafetensorsMetadata }>;
  /** The metadata from which `io.loadModel` makes the layers of a model again. */
  modelMetadata(what: string, model: Layer, input: SavedInput): SafetensorsMetadata;
}

/** A signal that ends a training. */
export type EndSignal = "SIGINT" | "SIGTERM";

/** The process of a training, and the command of Heddle that started it. */
export interface HostProcess {
  /** Calls back at each signal that ends a training; gives the function that stops listening. */
  onSignal(callback: (signal: EndSignal) => void): () => void;
  /** Calls back at SIGUSR2, which announces an end, as before a pre-emption; gives the function that stops listening. */
  onNotice(callback: () => void): () => void;
  /** Ends the process with the status that shells show for the signal: 130 for Ctrl-C. */
  endBy(signal: EndSignal | "SIGUSR2"): never;
  /** Ends the process with status 0. */
  end(): never;
  /** Sends a message to the launcher, if there is one. */
  report(message: WorkerMessage): void;
  /** This process as a worker of an elastic run; undefined in other runs. */
  member(): Member | undefined;
  /** Joins some ranks of an elastic run's epoch by links beside those of the steps. */
  joinPartners(name: string, ranks: readonly number[]): Promise<Partners>;
  /** Whether the training has its parameters on servers. @throws HeddleError `option` for a malformed option `server` */
  isOnServers(settings: Settings): boolean;
  /** The device of a worker of such a training. @throws HeddleError `option` for options that do not go with servers */
  workerRuntime(settings: Settings): Runtime;
  /** Repeats such a training from the log at `server.replay`. */
  replayed(whole: Training, runtime: Runtime, first: RunState): Promise<TrainState>;
  /** Connects a worker to its servers. */
  connectServers(whole: Training, runtime: Runtime): Promise<Updates>;
  /** Adds text to a file in the folder of the run, if the run has one. */
  keep(file: string, text: () => string): void;
  /** The number of steps under `heddle profile`; undefined elsewhere. */
  profiledSteps(): number | undefined;
  /** The same batches; `heddle profile` learns how long each one was waited for. */
  profiledInput<Value>(batches: AsyncGenerator<Value, void>): AsyncGenerator<Value, void>;
  /** Under `heddle plan`: plans a step, hands over the text and ends the process. */
  planAndEnd(settings: Settings, types: ModelTypes, meshes: readonly Mesh[]): Promise<never>;
}

/** The machine of a training. */
export interface Host {
  /** SHA-256 of some bytes, in hexadecimal digits. */
  sha256(bytes: Uint8Array): string;
  /** The reporter for the option `report` of `train`; `unit` is what an example is called. */
  makeReporter(mode: Settings["report"], unit: string): Promise<Reporter>;
  /** Undefined if the machine has no files. */
  readonly files: HostFiles | undefined;
  /** Undefined if the program does not run in a process of its own. */
  readonly process: HostProcess | undefined;
}
