/**
 * @module The null executor: counts a program's work without running it. It shows in milliseconds what a program would do on any
 * number of devices.
 */

import type { Cost } from "../cost/index.ts";
import { bytesOf } from "../ir/shape.ts";
import { costOf, type Program } from "../program/index.ts";
import {
  type DeviceBuffer,
  type Executable,
  type Executor,
  type ExecutorOptions,
  programsFor,
} from "../runtime/executor.ts";
import { HeddleError } from "../util/errors.ts";

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

const emptyBuffer = (bytes: number): DeviceBuffer => {
  const refuse = (): never => {
    throw new HeddleError("executor", "the null executor computes nothing: there is no value to read");
  };
  return {
    bytes,
    // There is never a value to read.
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
    allocate: emptyBuffer,
    compile: (program) => compileEach(programsFor(program, devices), counts),
    abort: () => undefined,
    close: () => undefined,
  };
}

function compileEach(programs: readonly Program[], counts: Counts): Executable {
  const costs = programs.map((program) => costOf(program));
  const sum = (field: (cost: Cost) => number): number => costs.reduce((total, cost) => total + field(cost), 0);
  const program = programs[0] as Program;
  return {
    program,
    run: () => {
      counts.runs++;
      counts.operations += sum(({ flops }) => flops);
      counts.bytesMoved += sum(({ bytes }) => bytes);
      counts.bytesSent += sum(({ sent }) => sent);
      counts.collectives += (costs[0] as Cost).collectives.reduce((total, { times }) => total + times, 0);
      return {
        outputs: programs.map(({ outputs }) => outputs.map(({ type }) => emptyBuffer(bytesOf(type)))),
        done: Promise.resolve(),
      };
    },
  };
}
