/** @module The processes of a run: joining, groups, barriers, and reporting a failure to the others. */
import { meetInEpoch } from "../../elastic/waits.ts";
import { exchangeOver, latestAttempt } from "../../hosts/exchange.ts";
import { findMeetingPlace } from "../../hosts/interfaces.ts";
import type { Meeting } from "../../hosts/meeting.ts";
import { joinSame } from "../../hosts/meshes.ts";
import { onLeaving } from "../../hosts/store.ts";
import { range } from "../../ir/shape.ts";
import type { World } from "../../runtime/world.ts";
import { HeddleError } from "../../util/errors.ts";
import { reasonOf } from "../../util/faults.ts";
import { readEnvironment } from "../../util/settings.ts";
import { loadNative, type NativeStore, type NativeWorld } from "./binding.ts";
import { nativeError, rethrowNative } from "./error.ts";

/** Options of joining a world. */
export interface WorldOptions extends Meeting {
  /** Distinguishes worlds of one run. */
  readonly name: string;
  /** The smallest attempt; default 0. The largest of all ranks counts. */
  readonly attempt?: number;
  /** The mesh in words, which all ranks must join. */
  readonly mesh?: string;
  /** Default: that of `HEDDLE_TRANSPORT`. */
  readonly transport?: "tcp" | "shared" | "mpi" | "checked";
}

/** Membership by the native core, whose links devices use. */
export interface JoinedWorld extends World {
  readonly native: NativeWorld;
}

/**
 * Joins the world.
 *
 * @throws HeddleError `world` when the store or a rank cannot be reached in time, or not by that transport.
 */
export async function joinWorld(options: WorldOptions): Promise<JoinedWorld> {
  const binding = loadNative();
  if ("error" in binding) throw new HeddleError("world", `several workers need the native core: ${binding.error}`);
  const { rank, size, port, runId, epoch, secret, timeout } = options;
  const { networkInterface: choice, ports, transport = "auto", mpi } = readEnvironment();
  let native: NativeWorld;
  let store: NativeStore;
  let { name, attempt = 0 } = options;
  try {
    const { host, bind } = await findMeetingPlace(options.host, port, { choice, seconds: timeout });
    store = await binding.NativeStore.connect({ host, port, secret, runId, timeout });
    attempt = await latestAttempt(store, `attempt/${epoch}/${name}`, attempt);
    if (attempt > 0) name = `${name}/${attempt}`;
    await meetInEpoch(store, { prefix: `meeting/${epoch}/${name}`, rank, size, timeout, epoch });
    const joining = binding.NativeWorld.connect({
      ...{ runId, epoch, name, rank, size, host, port, secret, timeout },
      transport: options.transport ?? transport,
      ...(bind === undefined ? {} : { bind }),
      ...(ports === undefined ? {} : { ports }),
      ...(mpi === undefined ? {} : { mpi }),
      ...(options.flight === undefined ? {} : { flight: options.flight }),
    });
    native = await joinSame(store, { rank, size, epoch, mesh: options.mesh }, joining);
  } catch (error) {
    if (error instanceof HeddleError && error.code === "mismatch") throw error;
    const cause = nativeError(error);
    throw new HeddleError("world", `rank ${rank} of ${size} cannot join at ${options.host}:${port}: ${cause.message}`, {
      cause,
    });
  }
  const everyone = native.group(range(size), "everyone");
  if (native.warning !== null) {
    process.emitWarning(`rank ${rank} goes on without its flight recorder: ${reasonOf(native.warning)}`, {
      code: "HEDDLE_FLIGHT",
    });
  }
  if (native.fallback !== null) process.emitWarning(`rank ${rank}: ${native.fallback}`, { code: "HEDDLE_TRANSPORT" });
  const exchange = exchangeOver(store, {
    rank,
    size,
    timeout,
    epoch,
    prefix: `exchange/${epoch}/${name}`,
    rethrow: rethrowNative,
  });
  onLeaving(() => store.rest());
  return {
    native,
    rank,
    size,
    setStep: (step) => native.setStep(step),
    barrier: (label) => everyone.barrier(label).catch(rethrowNative),
    agree: exchange.agree,
    together: exchange.together,
    allGather: (bytes, label) => everyone.allGather(bytes, label).catch(rethrowNative),
    broadcast: (bytes, root, label) => everyone.broadcast(bytes, root, label).catch(rethrowNative),
    attempt,
    get failed() {
      return native.failed;
    },
    abort: (reason) => native.abort(reason),
    close: () => native.close(),
  };
}
