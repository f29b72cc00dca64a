/**
 * @module The null executor: runs nothing and counts. It shows what a program would do on any number of devices, in
 * milliseconds.
 */

import type { Cost } from "../cost/index.ts";
import { bytesOf } from "../ir/shape.ts";
import { costOf, type Program } from "../program/index.ts";
import { HeddleError } from "../util/errors.ts";
import { type DeviceBuffer, type Executable, type Executor, type ExecutorOptions, programsFor } from "./executor.ts";

/** What the null executor has counted over all runs and devices. */
export interface Counts {
  runs: number;
  /** Arithmetic operations. */
  operations: number;
  /** Bytes read and written by kernels. */
  bytesMoved: number;
  /** Bytes sent to other devices. */
  bytesSent: number;
  collectives: number;
}

/** An executor without memory, and its counters. */
export interface NullExecutor extends Executor {
  readonly counts: Counts;
}

const nothing = (bytes: number): DeviceBuffer => {
  const refuse = (): never => {
    throw new HeddleError("executor", "the null executor computes nothing: there is no value to read");
  };
  return {
    bytes,
    // There is nothing to read, ever.
    ready: false,
    write: () => undefined,
    read: async () => refuse(),
    readSync: refuse,
    dispose: () => undefined,
  };
};

/** Makes a null executor. The devices need not exist. */
export function nullExecutor(options: ExecutorOptions): NullExecutor {
  const counts: Counts = { runs: 0, operations: 0, bytesMoved: 0, bytesSent: 0, collectives: 0 };
  const devices = options.devices.length;
  return {
    name: "null",
    devices,
    counts,
    allocate: nothing,
    compile: (program) => compileEach(programsFor(program, devices), counts),
    abort: () => undefined,
    close: () => undefined,
  };
}

function compileEach(programs: readonly Program[], counts: Counts): Executable {
  const each = programs.map((program) => costOf(program));
  const sum = (of: (cost: Cost) => number): number => each.reduce((total, one) => total + of(one), 0);
  const program = programs[0] as Program;
  return {
    program,
    calls: program.steps.length,
    run: () => {
      counts.runs++;
      counts.operations += sum(({ flops }) => flops);
      counts.bytesMoved += sum(({ bytes }) => bytes);
      counts.bytesSent += sum(({ sent }) => sent);
      counts.collectives += (each[0] as Cost).collectives.reduce((total, { times }) => total + times, 0);
      return {
        outputs: programs.map(({ outputs }) => outputs.map(({ type }) => nothing(bytesOf(type)))),
        done: Promise.resolve(),
      };
    },
  };
}
