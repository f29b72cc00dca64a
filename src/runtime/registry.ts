/** @module The registry of executors: their names, the choice of one, and their memory. */
import type { Machine } from "../cost/index.ts";
import type { ExecutorPasses } from "../passes/pass.ts";
import type { Mesh } from "../plan/mesh.ts";
import { HeddleError, invariant } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { readEnvironment, warnOfUnknown } from "../util/settings.ts";
import { shown } from "../util/show.ts";

import type { Runtime } from "./devices.ts";
import type { Executor, ExecutorOptions } from "./executor.ts";

/** The name of a registered executor. */
export type ExecutorName = "native" | "reference" | (string & Record<never, never>);

/** The result of `memory`. Arenas of devices count as buffers. */
export interface MemoryUse {
  /** Number of buffers that values of this process hold. */
  readonly liveBuffers: number;
  /** Bytes of the live buffers, including the allocator's rounding. */
  readonly liveBytes: number;
  /** Largest number of live bytes so far; for the reference executor the bytes that are live now. */
  readonly peakBytes: number;
}

/** An executor as it is registered: everything that does not depend on a mesh. */
export interface ExecutorPlugin {
  /** The executor's name in `HEDDLE_EXECUTOR`, `--executor` and the option `executor`. */
  readonly name: string;
  /** Why the executor cannot be used in this process; undefined if it can. */
  readonly unavailable: () => string | undefined;
  /** The planner's cost model of its devices and links. Default: the default machine. */
  readonly machine?: Machine;
  /** Its passes, as in its {@link Executor}s. */
  readonly passes?: ExecutorPasses;
  /** Devices in this process. Absent: it has none, and cannot be asked for by its name. */
  readonly make?: (options: ExecutorOptions) => Executor;
  /**
   * Joins the runtime of several processes that the environment asks for; undefined if it asks for none. Absent: all devices are in
   * one process.
   */
  readonly join?: (mesh: Mesh, attempt: number) => Promise<Runtime> | undefined;
  /** The memory of its buffers in this process; undefined if it cannot be used. Absent: buffers are in JavaScript's heap. */
  readonly memory?: () => MemoryUse | undefined;
}

/** One with devices in this process. */
export type LocalPlugin = ExecutorPlugin & Required<Pick<ExecutorPlugin, "make">>;

/** Asks for no executor in particular. */
const anyExecutor = "auto";

const plugins = new Map<string, ExecutorPlugin>();

/**
 * Registers an executor, which can be chosen by its name from then on. By default the first executor that can be used runs.
 *
 * @throws HeddleError `executor` when the name is taken; `argument` for a malformed executor.
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
      hint: "unavailable and make are functions; examples/extend/executor.ts is a complete example",
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
  const suggestion = nearest(name, names);
  throw new HeddleError("executor", `there is no executor '${name}'`, {
    hint: `${suggestion === undefined ? "" : `did you mean ${suggestion}? `}there are ${names.join(", ")}; registerExecutor of heddle/runtime adds one`,
  });
}

/** The first registered executor, whether it can be used or not: compiles without a runtime plan for it. */
export function defaultExecutor(): ExecutorPlugin {
  const [first] = plugins.values();
  invariant(first !== undefined, "no executor is registered");
  return first;
}

/**
 * The executor of a name, or without a name the first that can be used.
 *
 * @throws HeddleError `executor` for an unknown name, or an executor that cannot be used here.
 */
export function chooseExecutor(name?: string): LocalPlugin {
  warnOfUnknown();
  const plugin = name === undefined ? undefined : executorNamed(name);
  if (plugin === undefined) {
    for (const entry of plugins.values()) if (hasDevices(entry) && entry.unavailable() === undefined) return entry;
    throw new HeddleError("executor", "no executor can be used", { hint: "run heddle doctor" });
  }
  const reason = plugin.unavailable();
  if (reason === undefined && hasDevices(plugin)) return plugin;
  throw new HeddleError("executor", `the ${name} executor cannot be used: ${reason}`, {
    hint: "run heddle doctor, or use the reference executor",
  });
}

/** Joins the runtime of several processes that the environment asks for; undefined if all devices are in this process. */
export function joinRuntime(mesh: Mesh, attempt: number): Promise<Runtime> | undefined {
  const { executor } = readEnvironment();
  const named = executor === undefined ? undefined : executorNamed(executor);
  for (const plugin of [named, ...plugins.values()]) {
    const runtime = plugin?.join?.(mesh, attempt);
    if (runtime !== undefined) return runtime;
  }
  return undefined;
}

/**
 * The memory that tensors and programs of this process hold; on the native executor it is outside JavaScript's heap. A value is
 * freed by `using`, by a step that it is donated to, or by the garbage collector; unreachable values count until the collector runs.
 */
export function memory(): MemoryUse {
  const sum = { liveBuffers: 0, liveBytes: 0, peakBytes: 0 };
  for (const { memory: use } of plugins.values()) {
    const memoryUse = use?.();
    if (memoryUse === undefined) continue;
    sum.liveBuffers += memoryUse.liveBuffers;
    sum.liveBytes += memoryUse.liveBytes;
    sum.peakBytes += memoryUse.peakBytes;
  }
  return sum;
}
