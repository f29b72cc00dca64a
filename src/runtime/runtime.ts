/** @module Runtimes of this process alone: the executor that is asked for, with all devices of a mesh. */
import "./executors.ts";
import { environmentMachine } from "../cost/index.ts";
import type { ProgramAxis } from "../program/program.ts";
import { allDevices, type Runtime } from "./devices.ts";
import { chooseExecutor, type ExecutorName } from "./registry.ts";

export type { Runtime } from "./devices.ts";

export interface RuntimeOptions {
  /** Axes of the mesh; all devices in this process. Default: one device, no axes. */
  readonly axes?: readonly ProgramAxis[];
  /** Default: native when it loads, else reference. */
  readonly executor?: ExecutorName | undefined;
  /** Threads per device. Default: HEDDLE_THREADS, or the cores of this process divided among its devices. */
  readonly threads?: number | undefined;
}

/**
 * A runtime whose devices all live in this process: one device, or virtual devices of a mesh.
 *
 * @throws HeddleError `executor` when there is none of that name, or it cannot be used here.
 */
export function localRuntime({ axes = [], executor: wanted, threads }: RuntimeOptions = {}): Runtime {
  const local = allDevices(axes);
  const plugin = chooseExecutor(wanted);
  const machine = environmentMachine() ?? plugin.machine;
  const executor = plugin.make({ axes, devices: local, threads, machine });
  return { axes, local, executor, rank: 0, world: 1, processes: undefined, machine, close: () => executor.close() };
}
