/**
 * @module What a training asks of the machine that it runs on: files, a process with signals and a launcher, a place for lines of
 * text. Node has all of it (`host.ts`), a browser has neither files nor processes (`host-browser.ts`, which bundlers put in the place
 * of `host.ts`).
 */
import type { Member } from "../elastic/member.ts";
import type { HostTensors, SafetensorsMetadata } from "../io/safetensors.ts";
import type { SavedInput } from "../io/saved-model.ts";
import type { WorkerMessage } from "../launcher-messages/launcher.ts";
import type { Layer } from "../nn/index.ts";
import type { Mesh, Plan, PlanLayouts } from "../plan/index.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { CheckpointOptions, Settings } from "./options.ts";
import type { Reporter } from "./progress.ts";
import type { CheckpointSearch, Saver } from "./saver.ts";
import type { ModelTypes } from "./values.ts";

/** The files of a training. */
export interface HostFiles {
  /**
   * Takes the folder of the option `checkpoint`, tests whether checkpoints can be written there, and reads the checkpoint to resume
   * from; undefined if the training starts at the beginning.
   *
   * @throws HeddleError `file`, `disk` or `checkpoint`
   */
  findCheckpoint(
    settings: Pick<Settings, "checkpoint" | "resumeFrom">,
    search: CheckpointSearch,
  ): Promise<Checkpoint | undefined>;
  /** Reads the checkpoint that rank 0 found. */
  loadCheckpoint(path: string, options: { readonly signal: AbortSignal }): Promise<Checkpoint>;
  /** Writes the checkpoints of a training that resumed from `resumedFrom`, if from any. */
  makeSaver(options: CheckpointOptions, resumedFrom: Checkpoint | undefined, warn: (text: string) => void): Saver;
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
  /** The number of steps under `heddle profile`; undefined elsewhere. */
  profiledSteps(): number | undefined;
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
