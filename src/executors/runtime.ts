/** @module Runtimes of this process alone: the chosen executor with all devices of a mesh. */
import "./registered.ts";
import { environmentMachine } from "../cost/index.ts";
import type { ProgramAxis } from "../program/program.ts";
import { allDevices, type Runtime } from "../runtime/devices.ts";
import { chooseExecutor, type ExecutorName } from "../runtime/registry.ts";

export type { Runtime } from "../runtime/devices.ts";

export interface RuntimeOptions {
  /** Axes of the mesh, whose devices are all in this process. Default: one device, no axes. */
  readonly axes?: readonly ProgramAxis[];
  /** The executor's name. Default: native if it loads, otherwise reference. */
  readonly executor?: ExecutorName | undefined;
  /** Threads per device. Default: HEDDLE_THREADS, or the cores of this process divided among its devices. */
  readonly threads?: number | undefined;
}

/**
 * A runtime whose devices all live in this process: one device, or virtual devices of a mesh.
 *
 * @throws HeddleError `executor` for an unknown name, or an executor that cannot be used here.
 */
export function localRuntime({ axes = [], executor: executorName, threads }: RuntimeOptions = {}): Runtime {
  const local = allDevices(axes);
  const plugin = chooseExecutor(executorName);
  const machine = environmentMachine() ?? plugin.machine;
  const executor = plugin.make({ axes, devices: local, threads, machine });
  return { axes, local, executor, rank: 0, world: 1, processes: undefined, machine, close: () => executor.close() };
}
