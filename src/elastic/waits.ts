/** @module Waiting for what another rank puts into the store of a run, which in an elastic run may never come. */
import { HeddleError } from "../util/errors.ts";
import { parseFault } from "../util/faults.ts";
import { elasticMember } from "./member.ts";

/** What is needed of the store. */
interface Waiting {
  get(key: string, timeout: number, waitingFor?: string): Promise<string>;
}

/** Seconds between two looks at who takes part. */
const slice = 0.25;

/**
 * Waits for a key, at most `timeout` seconds; in an elastic run also no longer than the epoch lasts.
 *
 * @throws the store's error after that time; HeddleError `aborted` if other workers are called
 */
export async function getWhileTogether(
  store: Waiting,
  key: string,
  { timeout, epoch }: { readonly timeout: number; readonly epoch: number },
  waitingFor: string,
): Promise<string> {
  const member = elasticMember();
  if (member === undefined) return store.get(key, timeout, waitingFor);
  const deadline = performance.now() + 1000 * timeout;
  for (;;) {
    if (member.newest > epoch)
      throw new HeddleError("aborted", `other workers are called: nobody waits for ${waitingFor}`);
    const left = (deadline - performance.now()) / 1000;
    try {
      return await store.get(key, Math.max(0.01, Math.min(slice, left)), waitingFor);
    } catch (error) {
      const isLate = parseFault((error as Error).message)?.kind === "timeout";
      if (!isLate || left <= slice) throw error;
    }
  }
}

/** In an elastic run, waits until all ranks of the epoch are there: what they do together next does not wait long for one that is gone. */
export async function meetInEpoch(
  store: Waiting & { set(key: string, value: string): Promise<void> },
  place: { prefix: string; rank: number; size: number; timeout: number; epoch: number },
): Promise<void> {
  if (elasticMember() === undefined) return;
  const { prefix, rank, size } = place;
  await store.set(`${prefix}/${rank}`, "here");
  for (let other = 0; other < size; other++)
    await getWhileTogether(store, `${prefix}/${other}`, place, `rank ${other}`);
}
