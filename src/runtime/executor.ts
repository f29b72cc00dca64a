/** @module What runs programs: the interface that every executor has, and the memory it works on. */

import type { Machine } from "../cost/index.ts";
import type { Graph } from "../ir/node.ts";
import type { ExecutorPasses } from "../passes/pass.ts";
import type { Program, ProgramAxis } from "../program/program.ts";

/** Memory of one device, filled by the host or by a run. */
export interface DeviceBuffer {
  readonly bytes: number;
  /** Whether the contents are there: reading would wait for no run. */
  readonly ready: boolean;
  /** Copies from the host. Only for a buffer that no queued run uses. */
  write(data: Uint8Array): void;
  /** A copy of the contents, once the runs that write them are done; rejects with the error of such a run. */
  read(): Promise<Uint8Array>;
  /** Like `read`, blocking. */
  readSync(): Uint8Array;
  /**
   * A part of the contents as a buffer of its own that shares the memory, which lives as long as either. A run that is given
   * such memory to write over works on a copy. Absent where memory cannot be shared.
   */
  readonly part?: (offset: number, bytes: number) => DeviceBuffer;
  /** Gives the memory back; harmless when repeated. Without it, the garbage collector does. */
  dispose(): void;
}

/** A program made ready for the devices of an executor. */
export interface Executable {
  /** Of the first local device. */
  readonly program: Program;
  /** Bytes of the arena per device (the largest); absent where what a run takes beside its buffers is not known before it. */
  readonly arenaBytes?: number;
  /** Number of kernel calls or nodes per run. */
  readonly calls: number;
  /**
   * Enqueues a run on every local device: `inputs[device][input]`. Returns at once with the outputs, whose contents come
   * when the run is done. Buffers of donated inputs become outputs and must not be used again.
   */
  run(inputs: readonly (readonly DeviceBuffer[])[]): Run;
}

export interface Run {
  /** `outputs[device][output]`. */
  readonly outputs: readonly (readonly DeviceBuffer[])[];
  /** Settles when all local devices are done. */
  readonly done: Promise<void>;
  /** Says, when the run has failed, whether it ended before it wrote over any donated input of this process. */
  readonly unchanged?: (error: unknown) => boolean;
}

/** Local devices and the way to run programs on them. */
export interface Executor {
  /** That of its plug-in. */
  readonly name: string;
  /** Devices that this process addresses. */
  readonly devices: number;
  /** Whether its devices are in other processes, so that nothing they hold can be read at once. */
  readonly elsewhere?: boolean;
  /** The passes of its compiles besides those that every graph goes through. */
  readonly passes?: ExecutorPasses;
  /** Threads per device; absent: the one that calls. */
  readonly threads?: number;
  /** Memory of a device, by default the first. */
  allocate(bytes: number, device?: number): DeviceBuffer;
  /**
   * Makes a program ready; where devices are not alike, one program for each local device. `graphs` are the same work as one
   * graph for each local device, for an executor that compiles graphs; absent for what has no one graph, as a pipeline's stages.
   */
  compile(program: Program | readonly Program[], graphs?: readonly Graph[]): Executable;
  /**
   * Copies the chosen rows of `source`, each of `rowBytes` bytes, one after another to the start of `target`, off the
   * event loop. Absent where the host does it as well.
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

/** What an executor is made for. */
export interface ExecutorOptions {
  readonly axes: readonly ProgramAxis[];
  readonly devices: readonly LocalDevice[];
  /** Threads per device, where the executor has any; default its own choice. */
  readonly threads?: number | undefined;
  /** What the planner assumed of devices and links; undefined: what it assumes of any. */
  readonly machine?: Machine | undefined;
}

/** The program of each local device. */
export const programsFor = (program: Program | readonly Program[], devices: number): readonly Program[] =>
  "steps" in program ? Array.from({ length: devices }, () => program) : program;
