/** @module The runtime that eager operations use, and the one that the environment asks for. */

import { type Mesh, mesh as makeMesh } from "../plan/mesh.ts";
import { distributedRuntime, localRuntime, type Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";

let ownDevice: Runtime | undefined;

/** The one-device runtime of this process, made when first needed. HEDDLE_EXECUTOR chooses its executor. */
export function deviceRuntime(): Runtime {
  ownDevice ??= localRuntime({ executor: wantedExecutor() });
  return ownDevice;
}

function wantedExecutor(): "native" | "reference" | undefined {
  const wanted = process.env["HEDDLE_EXECUTOR"];
  if (wanted === undefined || wanted === "" || wanted === "auto") return undefined;
  if (wanted === "native" || wanted === "reference") return wanted;
  throw new HeddleError("executor", `HEDDLE_EXECUTOR is '${wanted}'; it can be native or reference`);
}

/** A runtime that was joined or is being joined. */
interface Joined {
  readonly runtime: Promise<Runtime>;
  /** Which one of this mesh it is, as far as is known. */
  attempt: number;
  /** Whether nothing more can be done with it. */
  failed(): boolean;
}

const joined = new Map<string, Joined>();

/**
 * The runtime of this run: with the variables of `heddle run` (or torchrun) for several workers, all of them on the mesh
 * (default: one axis `data`); else this process's device. Several calls share one runtime per mesh, until a rank fails: the
 * next call then joins anew, with all ranks.
 *
 * @param mesh default: `data` over all workers
 * @throws HeddleError `world` when a variable is missing or the others cannot be reached in time.
 */
export function connect(mesh?: Mesh): Promise<Runtime> {
  const world = Number(process.env["WORLD_SIZE"] ?? "1");
  const wanted = mesh ?? makeMesh({ data: world });
  const key = wanted.axes.map(({ name, size }) => `${name}=${size}`).join(",");
  const known = joined.get(key);
  if (known !== undefined && !known.failed()) return known.runtime;
  const attempt = known === undefined ? 0 : known.attempt + 1;
  const runtime =
    world > 1
      ? joinFromEnvironment(wanted, world, attempt)
      : Promise.resolve(localRuntime({ axes: wanted.axes, executor: wantedExecutor() }));
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

async function joinFromEnvironment(mesh: Mesh, size: number, attempt: number): Promise<Runtime> {
  if (wantedExecutor() === "reference") {
    throw new HeddleError("executor", "the reference executor runs in one process only", { hint: "use --workers 1" });
  }
  const variable = (name: string): string => {
    const value = process.env[name];
    if (value === undefined || value === "") {
      throw new HeddleError("world", `WORLD_SIZE is ${size}, but ${name} is not set`, {
        hint: "start the workers with heddle run",
      });
    }
    return value;
  };
  return distributedRuntime(mesh.axes, {
    rank: Number(variable("RANK")),
    size,
    host: variable("MASTER_ADDR"),
    port: Number(variable("MASTER_PORT")),
    runId: process.env["HEDDLE_RUN_ID"] ?? "default",
    epoch: Number(process.env["HEDDLE_EPOCH"] ?? "0"),
    secret: variable("HEDDLE_SECRET"),
    timeout: Number(process.env["HEDDLE_TIMEOUT"] ?? "60"),
    flight:
      process.env["HEDDLE_RUN_DIR"] === undefined
        ? undefined
        : `${process.env["HEDDLE_RUN_DIR"]}/rank-${variable("RANK")}.flight`,
    // Ranks that disagree on the mesh must not exchange anything.
    name: `mesh-${fingerprint(JSON.stringify(mesh))}`,
    attempt,
  });
}

/** The mesh of a runtime. */
export const meshOf = (runtime: Runtime): Mesh => ({ axes: runtime.axes });
