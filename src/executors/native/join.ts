/** @module The native executor in several processes, with one device each; the environment says how they find each other. */
import { parseMachine } from "../../cost/index.ts";
import { meetingOfEnvironment } from "../../hosts/meeting.ts";
import { agreeOnSet } from "../../hosts/traits.ts";
import { onPeerEnded, reportToLauncher } from "../../launcher-messages/launcher.ts";
import { formatMesh, type Mesh } from "../../plan/mesh.ts";
import type { ProgramAxis } from "../../program/program.ts";
import { allDevices, type Runtime } from "../../runtime/devices.ts";
import type { LocalDevice } from "../../runtime/executor.ts";
import { HeddleError } from "../../util/errors.ts";
import { fingerprint } from "../../util/hash.ts";
import { readEnvironment } from "../../util/settings.ts";
import { loadNative, type NativeBinding } from "./binding.ts";
import { RunError } from "./error.ts";
import { nativeExecutor } from "./executor.ts";
import { defaultThreads } from "./threads.ts";
import { joinWorld, type WorldOptions } from "./world.ts";

/**
 * Joins the other processes of a run: one device each, in row-major order of the mesh.
 *
 * @throws HeddleError `world` when the others cannot be reached in time, `mismatch` when their processors or versions do not fit.
 */
export async function distributedRuntime(
  axes: readonly ProgramAxis[],
  options: WorldOptions & { threads?: number | undefined; make?: typeof nativeExecutor },
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
  // Plans and the order of collectives depend on the machine, so all ranks use rank 0's.
  const described = await world.together("machine", async () => readEnvironment().machine ?? "");
  const machine = described === "" ? undefined : parseMachine(described, "the machine of rank 0");
  const threads = options.threads ?? defaultThreads(1);
  const isa = await agreeOnSet(world, (loadNative() as NativeBinding).info().isa);
  const device = { axes, devices: local, threads, world, machine, ...(isa === undefined ? {} : { isa }) };
  const executor = (options.make ?? nativeExecutor)(device);
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

/** The runtime of `heddle run` with several workers; undefined for a single worker. */
export function joinFromEnvironment(mesh: Mesh, attempt: number): Promise<Runtime> | undefined {
  const { world, workers, executor, throughSwitch } = readEnvironment();
  reportToLauncher({ type: "join" });
  if (world === 1 || workers !== undefined || throughSwitch !== undefined) return undefined;
  if (executor !== undefined && executor !== "native") {
    throw new HeddleError("executor", `the ${executor} executor runs in one process only`, { hint: "use --workers 1" });
  }
  return joinWorkers(mesh, attempt);
}

/** Joins the workers of a run, by another executor than the native one if `make` makes it. */
export async function joinWorkers(mesh: Mesh, attempt: number, make = nativeExecutor): Promise<Runtime> {
  const native = loadNative();
  if ("error" in native) throw new HeddleError("native", `several workers need the native core: ${native.error}`);
  reportToLauncher({ type: "doing", what: "joining the other ranks" });
  const meeting = await meetingOfEnvironment(() => new native.StoreServer());
  // Ranks that disagree on the mesh must not exchange anything.
  const name = `mesh-${fingerprint(JSON.stringify(mesh))}`;
  const joined = await unlessPeerEnds(
    distributedRuntime(mesh.axes, { ...meeting, name, mesh: formatMesh(mesh), attempt, make }),
    meeting.rank,
  );
  reportToLauncher({ type: "doing", what: "" });
  return joined;
}

/** Time for messages of a rank that has ended: it may have joined before. */
const graceMilliseconds = 1000;

/** The runtime, or an error as soon as it is known that a rank will never join. */
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
    // The outcome no longer matters.
    joining.catch(() => {});
  }
}
