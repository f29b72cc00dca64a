/** @module The runtime that eager operations use, and the one that the environment asks for. */

import { localRuntime } from "../executors/runtime.ts";
import { takePlace } from "../hosts/launchers.ts";
import { checkMesh, formatMesh, type Mesh, mesh as makeMesh, parseMesh } from "../plan/mesh.ts";
import type { Runtime } from "../runtime/devices.ts";
import { joinRuntime } from "../runtime/registry.ts";
import { readEnvironment } from "../util/settings.ts";

let oneDevice: Runtime | undefined;

/** The one-device runtime of this process, made at first use. HEDDLE_EXECUTOR chooses its executor. */
export function deviceRuntime(): Runtime {
  oneDevice ??= localRuntime({ executor: readEnvironment().executor });
  return oneDevice;
}

/** A runtime that was joined or is being joined. */
interface Joined {
  readonly runtime: Promise<Runtime>;
  /** The number of the attempt to join this mesh, as far as is known. */
  attempt: number;
  /** Whether it has failed and can no longer be used. */
  failed(): boolean;
}

const joined = new Map<string, Joined>();

/**
 * The runtime of this run: under `heddle run` with several workers, all workers on the mesh (default: one axis `data`); under
 * `heddle run --on`, the waiting workers named there; else this process's device. Several calls share one runtime per mesh, until a
 * rank fails: the next call then joins again, with all ranks.
 *
 * @param mesh default: `data` over all workers
 * @throws HeddleError `world` if a variable is missing or the other workers cannot be reached in time; `launcher` if another
 * launcher than Heddle's has started several of these processes.
 */
export function connect(mesh?: Mesh): Promise<Runtime> {
  takePlace();
  const { world, executor, workers, epoch } = readEnvironment();
  if (mesh !== undefined) checkMesh(mesh);
  const wanted = mesh ?? environmentMesh() ?? makeMesh({ data: workers?.length ?? world });
  const key = `${epoch}/${formatMesh(wanted)}`;
  const known = joined.get(key);
  if (known !== undefined && !known.failed()) return known.runtime;
  const attempt = known === undefined ? 0 : known.attempt + 1;
  const runtime = joinRuntime(wanted, attempt) ?? Promise.resolve(localRuntime({ axes: wanted.axes, executor }));
  joined.set(key, watched(runtime, attempt));
  return runtime;
}

function watched(runtime: Promise<Runtime>, attempt: number): Joined {
  let failed = (): boolean => false;
  const entry: Joined = { runtime, attempt, failed: () => failed() };
  runtime.then(
    ({ processes }) => {
      if (processes === undefined) return;
      entry.attempt = processes.attempt;
      failed = () => processes.failed;
    },
    () => {
      failed = () => true;
    },
  );
  return entry;
}

/** The mesh of `heddle run --mesh`, if any. */
export function environmentMesh(): Mesh | undefined {
  const { mesh } = readEnvironment();
  return mesh === undefined ? undefined : parseMesh(mesh);
}
