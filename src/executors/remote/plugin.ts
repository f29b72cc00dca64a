/** @module The remote executor's plug-in: devices in waiting workers, which the environment names. */
import type { Mesh } from "../../plan/mesh.ts";
import type { Runtime } from "../../runtime/devices.ts";
import type { ExecutorPlugin } from "../../runtime/registry.ts";
import { HeddleError } from "../../util/errors.ts";
import { readEnvironment } from "../../util/settings.ts";
import { nativePasses } from "../passes.ts";
import { remoteRuntime } from "./driver.ts";

/** Devices in waiting workers (`heddle run --on`). */
export const remotePlugin: ExecutorPlugin = {
  name: "remote",
  unavailable: () => "its devices are in waiting workers: heddle run --on, or remoteRuntime of heddle/runtime",
  passes: nativePasses,
  join: (mesh) => {
    const { workers } = readEnvironment();
    return workers === undefined ? undefined : driveWorkers(mesh, workers);
  },
};

async function driveWorkers(mesh: Mesh, workers: readonly string[]): Promise<Runtime> {
  const { workersSecret, timeout } = readEnvironment();
  if (workersSecret === undefined) {
    throw new HeddleError("world", "HEDDLE_WORKERS names workers, but HEDDLE_WORKERS_SECRET is not set", {
      hint: "set it to the workers' secret: heddle worker prints it, or takes it from the same variable",
    });
  }
  return remoteRuntime(mesh.axes, { workers, secret: workersSecret, timeout });
}
