/** @module What the ranks of a run tell each other by its store. */
import { getWhileTogether } from "../elastic/waits.ts";
import type { World } from "../runtime/world.ts";
import type { ErrorCode } from "../util/error-codes.ts";
import { HeddleError } from "../util/errors.ts";

/** The store's operations that are needed here. */
interface Store {
  set(key: string, value: string): Promise<void>;
  get(key: string, timeout: number, waitingFor?: string): Promise<string>;
  tryGet(key: string): Promise<string | null>;
  compareAndSet(key: string, expected: string | null, value: string): Promise<{ swapped: boolean; current?: string }>;
}

/** A rank among others that exchange texts. */
interface Exchanging {
  readonly rank: number;
  readonly size: number;
  /** Seconds. */
  readonly timeout: number;
  /** Membership epoch. */
  readonly epoch: number;
  /** What the store's keys begin with. */
  readonly prefix: string;
  /** Turns an error of the store into a HeddleError. */
  readonly rethrow: (error: unknown) => never;
}

/** Comparing and sharing texts among ranks, by the store. */
export function exchangeOver(
  store: Store,
  { rank, size, timeout, epoch, prefix, rethrow }: Exchanging,
): Pick<World, "agree" | "together"> {
  let exchanges = 0;
  const key = (what: string, from: number): string => `${prefix}/${exchanges}/${what}/${from}`;
  return {
    agree: async (what, text) => {
      exchanges++;
      await store.set(key(what, rank), text).catch(rethrow);
      for (let other = 0; other < size; other++) {
        if (other === rank) continue;
        const answer = await getWhileTogether(
          store,
          key(what, other),
          { timeout, epoch },
          `the ${what} of rank ${other}`,
        ).catch(rethrow);
        if (answer !== text) throw new HeddleError("mismatch", describeDifference(what, rank, text, other, answer));
      }
    },
    together: async (what, work) => {
      exchanges++;
      const tell = (outcome: Outcome): Promise<void> => store.set(key(what, 0), JSON.stringify(outcome)).catch(rethrow);
      if (rank !== 0)
        return outcomeOf(
          await getWhileTogether(store, key(what, 0), { timeout, epoch }, `rank 0 and its ${what}`).catch(rethrow),
        );
      const text = await work().catch(async (error: unknown) => {
        await tell(failedOutcome(error));
        throw error;
      });
      await tell({ text });
      return text;
    },
  };
}

/** The highest attempt that any rank has asked for, including this one. */
export async function latestAttempt(store: Store, key: string, attempt: number): Promise<number> {
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
