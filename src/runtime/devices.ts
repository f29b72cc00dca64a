/** @module The devices of a mesh, and those of this process. */
import type { Machine } from "../cost/index.ts";
import type { ProgramAxis } from "../program/program.ts";
import type { Executor, LocalDevice } from "./executor.ts";
import type { World } from "./world.ts";

/** Devices of a mesh, some of them in this process. */
export interface Runtime {
  readonly axes: readonly ProgramAxis[];
  readonly local: readonly LocalDevice[];
  readonly executor: Executor;
  /** This process's number and the number of processes. */
  readonly rank: number;
  readonly world: number;
  /** The processes of the run; undefined for one process. */
  readonly processes: World | undefined;
  /** The machine that all processes plan for; undefined: the default machine. */
  readonly machine: Machine | undefined;
  close(): void;
}

/** All devices of a mesh, by row-major coordinates. */
export function allDevices(axes: readonly ProgramAxis[]): LocalDevice[] {
  return axes
    .reduce<number[][]>(
      (prefixes, { size }) =>
        prefixes.flatMap((prefix) => Array.from({ length: size }, (_unused, coordinate) => [...prefix, coordinate])),
      [[]],
    )
    .map((coordinates) => ({ coordinates }));
}
