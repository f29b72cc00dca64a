/** @module The runtime that eager operations use, and the one that the environment asks for. */

import { type Mesh, mesh as makeMesh } from "../plan/mesh.ts";
import { distributedRuntime, localRuntime, type Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";
import { readEnvironment } from "../util/settings.ts";

let ownDevice: Runtime | undefined;

/** The one-device runtime of this process, made when first needed. HEDDLE_EXECUTOR chooses its executor. */
export function deviceRuntime(): Runtime {
  ownDevice ??= localRuntime({ executor: readEnvironment().executor });
  return ownDevice;
}

const joined = new Map<string, Promise<Runtime>>();

/**
 * The runtime of this run: with the variables of `heddle run` (or torchrun) for several workers, all of them on the mesh
 * (default: one axis `data`); else this process's device. Several calls share one runtime per mesh.
 *
 * @param mesh default: `data` over all workers
 * @throws HeddleError `world` when a variable is missing or the others cannot be reached in time.
 */
export function connect(mesh?: Mesh): Promise<Runtime> {
  const { world, executor } = readEnvironment();
  const wanted = mesh ?? makeMesh({ data: world });
  const key = wanted.axes.map(({ name, size }) => `${name}=${size}`).join(",");
  const known = joined.get(key);
  if (known !== undefined) return known;
  const runtime =
    world > 1 ? joinFromEnvironment(wanted, world) : Promise.resolve(localRuntime({ axes: wanted.axes, executor }));
  joined.set(key, runtime);
  return runtime;
}

async function joinFromEnvironment(mesh: Mesh, size: number): Promise<Runtime> {
  const environment = readEnvironment();
  if (environment.executor === "reference") {
    throw new HeddleError("executor", "the reference executor runs in one process only", { hint: "use --workers 1" });
  }
  const needed = <Value>(name: string, value: Value | undefined): Value => {
    if (value !== undefined) return value;
    throw new HeddleError("world", `WORLD_SIZE is ${size}, but ${name} is not set`, {
      hint: "start the workers with heddle run",
    });
  };
  const rank = needed("RANK", environment.rank);
  const { runDirectory } = environment;
  return distributedRuntime(mesh.axes, {
    rank,
    size,
    host: needed("MASTER_ADDR", environment.host),
    port: needed("MASTER_PORT", environment.port),
    runId: environment.runId ?? "default",
    epoch: environment.epoch,
    secret: needed("HEDDLE_SECRET", environment.secret),
    timeout: environment.timeout ?? 60,
    flight: runDirectory === undefined ? undefined : `${runDirectory}/rank-${rank}.flight`,
    // Ranks that disagree on the mesh must not exchange anything.
    name: `mesh-${fingerprint(JSON.stringify(mesh))}`,
  });
}

/** The mesh of a runtime. */
export const meshOf = (runtime: Runtime): Mesh => ({ axes: runtime.axes });
