/** @module The interface of executors, which run programs, and of their memory. */

import type { Machine } from "../cost/index.ts";
import type { Graph } from "../ir/node.ts";
import type { ExecutorPasses } from "../passes/pass.ts";
import type { Program, ProgramAxis } from "../program/program.ts";

/** Memory of one device, filled by the host or by a run. */
export interface DeviceBuffer {
  readonly bytes: number;
  /** Whether reading the contents would wait for no run. */
  readonly ready: boolean;
  /** Copies data from the host. No queued run may use the buffer. */
  write(data: Uint8Array): void;
  /** A copy of the contents, once the runs that write them are done; rejects with the error of such a run. `into` has their length, and may be used. */
  read(into?: Uint8Array): Promise<Uint8Array>;
  /** Like `read`, blocking. */
  readSync(): Uint8Array;
  /**
   * A part of the contents as a buffer of its own that shares the memory; the memory lives as long as either. A run that such a buffer
   * is donated to works on a copy. Absent if memory cannot be shared.
   */
  readonly part?: (offset: number, bytes: number) => DeviceBuffer;
  /**
   * Keeps the contents as they are until the buffer is collected: a run that it is donated to works on a copy, and `dispose` leaves it
   * alone. Absent if that cannot be. Throws the error of the run that should have made the contents.
   */
  readonly keep?: () => void;
  /** Gives the memory back; harmless when repeated. Without it, the garbage collector does. */
  dispose(): void;
}

/** A program made ready for the devices of an executor. */
export interface Executable {
  /** The program of the first local device. */
  readonly program: Program;
  /** Bytes of the arena per device (the largest); absent where what a run takes beside its buffers is not known before it. */
  readonly arenaBytes?: number;
  /**
   * Enqueues a run on every local device: `inputs[device][input]`. Returns immediately with the outputs, whose contents are
   * ready when the run is done. Buffers of donated inputs become outputs and must not be used again.
   */
  run(inputs: readonly (readonly DeviceBuffer[])[]): Run;
}

export interface Run {
  /** `outputs[device][output]`. */
  readonly outputs: readonly (readonly DeviceBuffer[])[];
  /** Settles when all local devices are done. */
  readonly done: Promise<void>;
  /** Whether a failed run ended before it wrote over any donated input of this process. */
  readonly unchanged?: (error: unknown) => boolean;
}

/** Runs programs on local devices. */
export interface Executor {
  /** The name of its plug-in. */
  readonly name: string;
  /** Number of devices that this process addresses. */
  readonly devices: number;
  /** Whether its devices are in other processes, so that their values cannot be read synchronously. */
  readonly elsewhere?: boolean;
  /** Passes for its compiles, besides those of every graph. */
  readonly passes?: ExecutorPasses;
  /** Threads per device; absent: the calling thread. */
  readonly threads?: number;
  /** Memory of a device, by default the first. */
  allocate(bytes: number, device?: number): DeviceBuffer;
  /**
   * Compiles a program, or one program per local device if they differ. `graphs` describe the same work as one graph per local device,
   * for executors that compile graphs; absent for work without a single graph, such as a pipeline's stages.
   */
  compile(program: Program | readonly Program[], graphs?: readonly Graph[]): Executable;
  /**
   * Copies the chosen rows of `source`, each of `rowBytes` bytes, one after another to the start of `target`, off the
   * event loop. Absent if the host does it as well.
   */
  readonly gatherRows?: (
    source: DeviceBuffer,
    rowBytes: number,
    rows: Int32Array,
    target: DeviceBuffer,
  ) => Promise<void>;
  /** Ends queued work with an error that carries the reason. */
  abort(reason: string): void;
  close(): void;
}

/** A device that lives in this process: its coordinates on the axes of the mesh. */
export interface LocalDevice {
  readonly coordinates: readonly number[];
}

/** Options of an executor. */
export interface ExecutorOptions {
  readonly axes: readonly ProgramAxis[];
  readonly devices: readonly LocalDevice[];
  /** Threads per device, if the executor has threads; default its own choice. */
  readonly threads?: number | undefined;
  /** The machine that the planner assumed; undefined: the default machine. */
  readonly machine?: Machine | undefined;
}

/** The program of each local device. */
export const programsFor = (program: Program | readonly Program[], devices: number): readonly Program[] =>
  "steps" in program ? Array.from({ length: devices }, () => program) : program;
