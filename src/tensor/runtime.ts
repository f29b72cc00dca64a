/** @module The runtime that eager operations use, and the one that the environment asks for. */

import { onPeerEnded, reportToLauncher } from "../launcher-messages/launcher.ts";
import { checkMesh, formatMesh, type Mesh, mesh as makeMesh, parseMesh } from "../plan/mesh.ts";
import { RunError } from "../runtime/native/error.ts";
import { remoteRuntime } from "../runtime/remote/driver.ts";
import { distributedRuntime, localRuntime, type Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";
import { refuseOtherLaunchers } from "../util/launchers.ts";
import { readEnvironment } from "../util/settings.ts";
import { shown } from "../util/show.ts";

let ownDevice: Runtime | undefined;

/** The one-device runtime of this process, made when first needed. HEDDLE_EXECUTOR chooses its executor. */
export function deviceRuntime(): Runtime {
  ownDevice ??= localRuntime({ executor: readEnvironment().executor });
  return ownDevice;
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
 * The runtime of this run: with the variables of `heddle run` for several workers, all of them on the mesh
 * (default: one axis `data`); with `heddle run --on` the waiting workers named there; else this process's device. Several calls share one runtime per mesh, until a rank fails: the
 * next call then joins anew, with all ranks.
 *
 * @param mesh default: `data` over all workers
 * @throws HeddleError `world` when a variable is missing or the others cannot be reached in time; `launcher` when another
 * launcher than Heddle's has started several of these processes.
 */
export function connect(mesh?: Mesh): Promise<Runtime> {
  refuseOtherLaunchers();
  const { world, executor, workers } = readEnvironment();
  if (mesh !== undefined) checkMesh(mesh);
  const wanted = mesh ?? environmentMesh() ?? makeMesh({ data: workers?.length ?? world });
  const key = formatMesh(wanted);
  const known = joined.get(key);
  if (known !== undefined && !known.failed()) return known.runtime;
  const attempt = known === undefined ? 0 : known.attempt + 1;
  const runtime =
    workers !== undefined
      ? driveWorkers(wanted, workers)
      : world > 1
        ? joinFromEnvironment(wanted, world, attempt)
        : Promise.resolve(localRuntime({ axes: wanted.axes, executor }));
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

/** The mesh that `heddle run --mesh` asks for, if any. */
export function environmentMesh(): Mesh | undefined {
  const { mesh } = readEnvironment();
  return mesh === undefined ? undefined : parseMesh(mesh);
}

async function driveWorkers(mesh: Mesh, workers: readonly string[]): Promise<Runtime> {
  const { workersSecret, timeout } = readEnvironment();
  if (workersSecret === undefined) {
    throw new HeddleError("world", "HEDDLE_WORKERS names workers, but HEDDLE_WORKERS_SECRET is not set", {
      hint: "it must be that of the workers: heddle worker prints it, or takes it from the same variable",
    });
  }
  return remoteRuntime(mesh.axes, { workers, secret: workersSecret, timeout });
}

async function joinFromEnvironment(mesh: Mesh, size: number, attempt: number): Promise<Runtime> {
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
  reportToLauncher({ type: "join" });
  const joining = distributedRuntime(mesh.axes, {
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
    attempt,
  });
  return unlessPeerEnds(joining, rank);
}

/** Time for what was on its way when a rank ended: it may have joined before. */
const graceMilliseconds = 1000;

/** The runtime; an error as soon as it is known that a rank will never join. */
async function unlessPeerEnds(joining: Promise<Runtime>, rank: number): Promise<Runtime> {
  let stop = (): void => {};
  let timer: NodeJS.Timeout | undefined;
  const missing = new Promise<never>((_resolve, reject) => {
    stop = onPeerEnded((peer) => {
      const fault = { kind: "peerMissing", own: rank, rank: peer, during: "joining" } as const;
      timer ??= setTimeout(() => reject(new RunError(fault)), graceMilliseconds);
    });
  });
  try {
    return await Promise.race([joining, missing]);
  } finally {
    stop();
    clearTimeout(timer);
    // Of no interest any more, whatever becomes of it.
    joining.catch(() => {});
  }
}

/** The mesh of a runtime. */
export function meshOf(runtime: Runtime): Mesh {
  if (!Array.isArray(runtime?.axes))
    throw new HeddleError("argument", `takes a runtime, got ${shown(runtime)}`, {
      hint: "await connect(mesh) gives one",
    });
  return { axes: runtime.axes };
}
