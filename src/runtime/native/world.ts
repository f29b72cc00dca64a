/** @module The processes of a run: meeting, groups, barriers, and telling the others of a failure. */
import { HeddleError } from "../../util/errors.ts";
import { loadNative, type NativeStore, type NativeWorld } from "./binding.ts";
import { nativeError } from "./error.ts";

export interface WorldOptions {
  readonly rank: number;
  readonly size: number;
  /** Address of the key-value store. */
  readonly host: string;
  readonly port: number;
  readonly runId: string;
  /** Membership epoch: a re-formed world takes a new one. */
  readonly epoch: number;
  readonly secret: string;
  /** Deadline of every wait, in seconds. */
  readonly timeout: number;
  /** File of the flight recorder. */
  readonly flight: string | undefined;
  /** Tells apart worlds of one run. */
  readonly name: string;
}

/** A rank's membership among the processes of a run. */
export interface World {
  readonly native: NativeWorld;
  readonly rank: number;
  readonly size: number;
  /** Notes the step for the flight recorder. */
  setStep(step: number): void;
  /** Waits for all ranks. */
  barrier(label: string): Promise<void>;
  /**
   * Compares a text with that of every other rank.
   *
   * @throws HeddleError `mismatch` naming both sides.
   */
  agree(what: string, text: string): Promise<void>;
  /** Sends a text from rank 0 to all. */
  share(what: string, text: string | undefined): Promise<string>;
  /** Tells the others why this rank ends. */
  abort(reason: string): void;
  close(): void;
}

/** Joins the world. @throws HeddleError `world` when the store or a rank cannot be reached in time. */
export async function joinWorld(options: WorldOptions): Promise<World> {
  const binding = loadNative();
  if ("error" in binding) throw new HeddleError("world", `several workers need the native core: ${binding.error}`);
  const { rank, size, host, port, runId, epoch, secret, timeout } = options;
  let native: NativeWorld;
  let store: NativeStore;
  try {
    store = await binding.NativeStore.connect({ host, port, secret, runId, timeout });
    native = await binding.NativeWorld.connect({
      runId,
      epoch,
      name: options.name,
      rank,
      size,
      host,
      port,
      secret,
      timeout,
      ...(options.flight === undefined ? {} : { flight: options.flight }),
    });
  } catch (error) {
    const cause = nativeError(error);
    throw new HeddleError("world", `rank ${rank} of ${size} cannot join at ${host}:${port}: ${cause.message}`, {
      cause,
    });
  }
  const everyone = native.group(
    Array.from({ length: size }, (_unused, index) => index),
    "everyone",
  );
  let exchanges = 0;
  const key = (what: string, from: number): string => `exchange/${epoch}/${options.name}/${exchanges}/${what}/${from}`;
  const rethrow = (error: unknown): never => {
    throw nativeError(error);
  };
  return {
    native,
    rank,
    size,
    setStep: (step) => native.setStep(step),
    barrier: (label) => everyone.barrier(label).catch(rethrow),
    agree: async (what, text) => {
      exchanges++;
      await store.set(key(what, rank), text).catch(rethrow);
      for (let other = 0; other < size; other++) {
        if (other === rank) continue;
        const theirs: string = await store.get(key(what, other), timeout).catch(rethrow);
        if (theirs !== text) throw new HeddleError("mismatch", describeDifference(what, rank, text, other, theirs));
      }
    },
    share: async (what, text) => {
      exchanges++;
      if (rank === 0) await store.set(key(what, 0), text ?? "").catch(rethrow);
      return rank === 0 ? (text ?? "") : store.get(key(what, 0), timeout).catch(rethrow);
    },
    abort: (reason) => native.abort(reason),
    close: () => native.close(),
  };
}

/** The first line in which two texts differ, with both sides named. */
function describeDifference(what: string, rank: number, mine: string, other: number, theirs: string): string {
  const [left, right] = [mine.split("\n"), theirs.split("\n")];
  const line = left.findIndex((text, index) => text !== right[index]);
  const at = line < 0 ? left.length : line;
  return `ranks ${rank} and ${other} run different ${what}s:\n  rank ${rank}: ${left[at] ?? "(ends)"}\n  rank ${other}: ${right[at] ?? "(ends)"}`;
}
