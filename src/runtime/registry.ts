/** @module Executors by name: which there are, which one runs, and what they hold. */
import type { Machine } from "../cost/index.ts";
import type { ExecutorPasses } from "../passes/pass.ts";
import type { Mesh } from "../plan/mesh.ts";
import { HeddleError, invariant } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { readEnvironment } from "../util/settings.ts";
import { shown } from "../util/show.ts";

import type { Runtime } from "./devices.ts";
import type { Executor, ExecutorOptions } from "./executor.ts";

/** The name of a registered executor. */
export type ExecutorName = "native" | "reference" | (string & Record<never, never>);

/** What `memory` gives. Arenas of devices count as buffers. */
export interface MemoryUse {
  /** Buffers that values of this process hold. */
  readonly liveBuffers: number;
  /** Their bytes, rounding of the allocator included. */
  readonly liveBytes: number;
  /** The most bytes that were live at one time; of the reference executor those live now. */
  readonly peakBytes: number;
}

/** What can run programs, as it is registered: everything that depends on no mesh. */
export interface ExecutorPlugin {
  /** As in `HEDDLE_EXECUTOR`, `--executor` and the option `executor`. */
  readonly name: string;
  /** Why it cannot be used in this process; undefined where it can. */
  readonly unavailable: () => string | undefined;
  /** Its cost model: what the planner assumes of its devices and links. Default: what it assumes of any. */
  readonly machine?: Machine;
  /** The passes of its compiles, as its {@link Executor}s have them. */
  readonly passes?: ExecutorPasses;
  /** Devices in this process. Absent: it has none, and cannot be asked for by its name. */
  readonly make?: (options: ExecutorOptions) => Executor;
  /**
   * The runtime of several processes that the environment asks for; undefined where it asks for none. Absent: all devices are in
   * one process.
   */
  readonly join?: (mesh: Mesh, attempt: number) => Promise<Runtime> | undefined;
  /** What its buffers in this process take; undefined where it cannot be used. Absent: they are in JavaScript's heap. */
  readonly memory?: () => MemoryUse | undefined;
}

/** One with devices in this process. */
export type LocalPlugin = ExecutorPlugin & Required<Pick<ExecutorPlugin, "make">>;

/** Asks for no executor in particular. */
const anyExecutor = "auto";

const plugins = new Map<string, ExecutorPlugin>();

/**
 * Enters an executor, which can be asked for by its name from then on. Where nobody asks, the first that can be used runs.
 *
 * @throws HeddleError `executor` when the name is taken; `argument` for what is no executor.
 */
export function registerExecutor(plugin: ExecutorPlugin): void {
  const { name, make, join, unavailable } = (plugin ?? {}) as Partial<ExecutorPlugin>;
  if (
    typeof name !== "string" ||
    name === "" ||
    typeof (make ?? join) !== "function" ||
    typeof unavailable !== "function"
  )
    throw new HeddleError("argument", `registerExecutor: takes { name, unavailable, make }, got ${shown(plugin)}`, {
      hint: "unavailable and make are functions; examples/extend/executor.ts has a whole one",
    });
  if (plugins.has(plugin.name) || plugin.name === anyExecutor)
    throw new HeddleError("executor", `there is an executor '${plugin.name}' already`);
  plugins.set(plugin.name, plugin);
}

const hasDevices = (plugin: ExecutorPlugin): plugin is LocalPlugin => plugin.make !== undefined;

/** Names of the executors that can be asked for: those with devices in this process, in order of registration. */
export const executorNames = (): readonly string[] => [...plugins.values()].filter(hasDevices).map(({ name }) => name);

/** The executor of this name; undefined for `"auto"`. @throws HeddleError `executor` when there is none. */
export function executorNamed(name: string): ExecutorPlugin | undefined {
  const plugin = plugins.get(name);
  if (plugin !== undefined || name === anyExecutor) return plugin;
  const names = [...executorNames(), anyExecutor];
  const near = nearest(name, names);
  throw new HeddleError("executor", `there is no executor '${name}'`, {
    hint: `${near === undefined ? "" : `did you mean ${near}? `}there are ${names.join(", ")}; registerExecutor of heddle/runtime adds one`,
  });
}

/** The first that is registered, whether it can be used or not: for it a compile plans that is for no runtime. */
export function defaultExecutor(): ExecutorPlugin {
  const [first] = plugins.values();
  invariant(first !== undefined, "no executor is registered");
  return first;
}

/**
 * The executor that is asked for; without a name, and for `"auto"`, the first that can be used.
 *
 * @throws HeddleError `executor` when there is none of that name, or it cannot be used here.
 */
export function chooseExecutor(wanted?: string): LocalPlugin {
  const plugin = wanted === undefined ? undefined : executorNamed(wanted);
  if (plugin === undefined) {
    for (const one of plugins.values()) if (hasDevices(one) && one.unavailable() === undefined) return one;
    throw new HeddleError("executor", "no executor can be used", { hint: "run heddle doctor" });
  }
  const reason = plugin.unavailable();
  if (reason === undefined && hasDevices(plugin)) return plugin;
  throw new HeddleError("executor", `the ${wanted} executor cannot be used: ${reason}`, {
    hint: "run heddle doctor, or use the reference executor",
  });
}

/** The runtime of several processes that the environment asks for; undefined where all devices are in this process. */
export function joinRuntime(mesh: Mesh, attempt: number): Promise<Runtime> | undefined {
  const { executor } = readEnvironment();
  const named = executor === undefined ? undefined : executorNamed(executor);
  for (const one of [named, ...plugins.values()]) {
    const runtime = one?.join?.(mesh, attempt);
    if (runtime !== undefined) return runtime;
  }
  return undefined;
}

/**
 * The memory that tensors and programs of this process hold, outside of JavaScript's heap on the native executor. A value
 * is let go of by `using`, by a step that it is donated to, or by the garbage collector: until that has run, dropped ones
 * still count.
 */
export function memory(): MemoryUse {
  const sum = { liveBuffers: 0, liveBytes: 0, peakBytes: 0 };
  for (const { memory: use } of plugins.values()) {
    const held = use?.();
    if (held === undefined) continue;
    sum.liveBuffers += held.liveBuffers;
    sum.liveBytes += held.liveBytes;
    sum.peakBytes += held.peakBytes;
  }
  return sum;
}
