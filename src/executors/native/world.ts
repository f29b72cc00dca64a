/** @module The processes of a run: joining, groups, barriers, and reporting a failure to the others. */
import type { World } from "../../runtime/world.ts";
import type { ErrorCode } from "../../util/error-codes.ts";
import { HeddleError } from "../../util/errors.ts";
import { reasonOf } from "../../util/faults.ts";
import { readEnvironment } from "../../util/settings.ts";
import { loadNative, type NativeStore, type NativeWorld } from "./binding.ts";
import { nativeError, rethrowNative } from "./error.ts";

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
  /** Distinguishes worlds of one run. */
  readonly name: string;
  /** The smallest attempt; default 0. The largest of all ranks counts. */
  readonly attempt?: number;
}

/** Membership by the native core, whose links devices use. */
export interface JoinedWorld extends World {
  readonly native: NativeWorld;
}

/**
 * Joins the world, with the transport of `HEDDLE_TRANSPORT`.
 *
 * @throws HeddleError `world` when the store or a rank cannot be reached in time, or not by that transport.
 */
export async function joinWorld(options: WorldOptions): Promise<JoinedWorld> {
  const binding = loadNative();
  if ("error" in binding) throw new HeddleError("world", `several workers need the native core: ${binding.error}`);
  const { rank, size, host, port, runId, epoch, secret, timeout } = options;
  let native: NativeWorld;
  let store: NativeStore;
  let name = options.name;
  let attempt = options.attempt ?? 0;
  try {
    store = await binding.NativeStore.connect({ host, port, secret, runId, timeout });
    attempt = await latestAttempt(store, `attempt/${epoch}/${name}`, attempt);
    if (attempt > 0) name = `${name}/${attempt}`;
    native = await binding.NativeWorld.connect({
      runId,
      epoch,
      name,
      rank,
      size,
      host,
      port,
      secret,
      timeout,
      transport: readEnvironment().transport ?? "auto",
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
  if (native.warning !== null) {
    process.emitWarning(`rank ${rank} goes on without its flight recorder: ${reasonOf(native.warning)}`, {
      code: "HEDDLE_FLIGHT",
    });
  }
  if (native.fallback !== null) process.emitWarning(`rank ${rank}: ${native.fallback}`, { code: "HEDDLE_TRANSPORT" });
  let exchanges = 0;
  const key = (what: string, from: number): string => `exchange/${epoch}/${name}/${exchanges}/${what}/${from}`;
  return {
    native,
    rank,
    size,
    setStep: (step) => native.setStep(step),
    barrier: (label) => everyone.barrier(label).catch(rethrowNative),
    agree: async (what, text) => {
      exchanges++;
      await store.set(key(what, rank), text).catch(rethrowNative);
      for (let other = 0; other < size; other++) {
        if (other === rank) continue;
        const answer: string = await store
          .get(key(what, other), timeout, `the ${what} of rank ${other}`)
          .catch(rethrowNative);
        if (answer !== text) throw new HeddleError("mismatch", describeDifference(what, rank, text, other, answer));
      }
    },
    together: async (what, work) => {
      exchanges++;
      const tell = (outcome: Outcome): Promise<void> =>
        store.set(key(what, 0), JSON.stringify(outcome)).catch(rethrowNative);
      if (rank !== 0)
        return outcomeOf(await store.get(key(what, 0), timeout, `rank 0 and its ${what}`).catch(rethrowNative));
      const text = await work().catch(async (error: unknown) => {
        await tell(failedOutcome(error));
        throw error;
      });
      await tell({ text });
      return text;
    },
    allGather: (bytes, label) => everyone.allGather(bytes, label).catch(rethrowNative),
    attempt,
    get failed() {
      return native.failed;
    },
    abort: (reason) => native.abort(reason),
    close: () => native.close(),
  };
}

/** The highest attempt that any rank has asked for, including this one. */
async function latestAttempt(store: NativeStore, key: string, attempt: number): Promise<number> {
  for (;;) {
    const stored = await store.tryGet(key);
    const latest = Number(stored ?? "0");
    if (latest >= attempt) return latest;
    if ((await store.compareAndSet(key, stored, String(attempt))).swapped) return attempt;
  }
}

/** The outcome of rank 0's work. */
interface Outcome {
  readonly text?: string;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

function failedOutcome(error: unknown): Outcome {
  const message = error instanceof Error ? error.message : String(error);
  return { error: { code: error instanceof HeddleError ? error.code : "run", message } };
}

function outcomeOf(json: string): string {
  const { text = "", error } = JSON.parse(json) as Outcome;
  if (error !== undefined) throw new HeddleError(error.code, `rank 0: ${error.message}`);
  return text;
}

/** The first line in which two texts differ, with both sides named. */
function describeDifference(what: string, rank: number, ownText: string, other: number, otherText: string): string {
  const [left, right] = [ownText.split("\n"), otherText.split("\n")];
  const line = left.findIndex((text, index) => text !== right[index]);
  const firstDifference = line < 0 ? left.length : line;
  return `ranks ${rank} and ${other} run different ${what}s:\n  rank ${rank}: ${left[firstDifference] ?? "(ends)"}\n  rank ${other}: ${right[firstDifference] ?? "(ends)"}`;
}
