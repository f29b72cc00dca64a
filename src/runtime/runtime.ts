/** @module A runtime: the mesh, this process's place in it, and the executor of its local devices. */

import { environmentMachine, type Machine, parseMachine } from "../cost/index.ts";
import type { ProgramAxis } from "../program/program.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import type { Executor, LocalDevice } from "./executor.ts";
import { loadNative } from "./native/binding.ts";
import { nativeExecutor } from "./native/executor.ts";
import { joinWorld, type World, type WorldOptions } from "./native/world.ts";
import { referenceExecutor } from "./reference.ts";

/** Devices of a mesh, of which some live in this process. */
export interface Runtime {
  readonly axes: readonly ProgramAxis[];
  readonly local: readonly LocalDevice[];
  readonly executor: Executor;
  /** This process's number and the number of processes. */
  readonly rank: number;
  readonly world: number;
  /** The processes' meeting place; undefined for one process. */
  readonly processes: World | undefined;
  /** What all processes assume of devices and links when they plan; undefined: what plans assume. */
  readonly machine: Machine | undefined;
  close(): void;
}

export interface RuntimeOptions {
  /** Axes of the mesh; all devices in this process. Default: one device, no axes. */
  readonly axes?: readonly ProgramAxis[];
  /** Default: native when it loads, else reference. */
  readonly executor?: "native" | "reference" | undefined;
  /** Threads per device. Default: HEDDLE_THREADS, or the cores of this process divided among its devices. */
  readonly threads?: number | undefined;
}

/** All devices of a mesh, by row-major coordinates. */
export function allDevices(axes: readonly ProgramAxis[]): LocalDevice[] {
  return axes
    .reduce<number[][]>(
      (prefixes, { size }) =>
        prefixes.flatMap((prefix) => Array.from({ length: size }, (_unused, place) => [...prefix, place])),
      [[]],
    )
    .map((coordinates) => ({ coordinates }));
}

function chooseExecutor(wanted: RuntimeOptions["executor"]): "native" | "reference" {
  if (wanted === "reference") return wanted;
  const native = loadNative();
  if (!("error" in native)) return "native";
  if (wanted === "native") {
    throw new HeddleError("executor", `the native executor cannot be used: ${native.error}`, {
      hint: "run heddle doctor, or use the reference executor",
    });
  }
  return "reference";
}

/** A runtime whose devices all live in this process: one device, or virtual devices of a mesh. */
export function localRuntime(options: RuntimeOptions = {}): Runtime {
  const axes = options.axes ?? [];
  const local = allDevices(axes);
  const machine = environmentMachine();
  const executor =
    chooseExecutor(options.executor) === "reference"
      ? referenceExecutor({ axes, devices: local })
      : nativeExecutor({
          axes,
          devices: local,
          threads: options.threads ?? defaultThreads(local.length),
          world: undefined,
          machine,
        });
  return { axes, local, executor, rank: 0, world: 1, processes: undefined, machine, close: () => executor.close() };
}

/** Cores of this process for each of its devices. */
export function defaultThreads(devices: number): number {
  const native = loadNative();
  const cores = readEnvironment().threads ?? ("error" in native ? 1 : native.info().cores);
  return Math.max(1, Math.floor(cores / devices));
}

/**
 * Joins the other processes of a run: one device each, in row-major order of the mesh.
 *
 * @throws HeddleError `world` when they cannot be reached in time.
 */
export async function distributedRuntime(
  axes: readonly ProgramAxis[],
  options: WorldOptions & { threads?: number | undefined },
): Promise<Runtime> {
  const devices = allDevices(axes);
  if (devices.length !== options.size) {
    throw new HeddleError(
      "mesh",
      `a mesh of ${devices.length} devices needs as many workers, there are ${options.size}`,
    );
  }
  const world = await joinWorld(options);
  const local = [devices[options.rank] as LocalDevice];
  // Plans and the order of collectives follow from it, so rank 0's is that of all.
  const described = await world.together("machine", async () => readEnvironment().machine ?? "");
  const machine = described === "" ? undefined : parseMachine(described, "the machine of rank 0");
  const threads = options.threads ?? defaultThreads(1);
  const executor = nativeExecutor({ axes, devices: local, threads, world, machine });
  return {
    axes,
    local,
    executor,
    rank: options.rank,
    world: options.size,
    processes: world,
    machine,
    close: () => {
      executor.close();
      world.close();
    },
  };
}
