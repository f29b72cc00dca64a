/** @module The time of a schedule on a topology, message by message. */
import { checkBytes, checkIsSchedule, checkTopology } from "./given.ts";
import { chunkLengths, roundsOf, type Schedule } from "./schedule.ts";
import type { Topology } from "./topology.ts";

/** A simulated run. */
export interface Simulated {
  /** Seconds until the last rank is done; infinite where a message has no link. */
  readonly seconds: number;
  /** Bytes that the rank that sends most sends. */
  readonly sent: number;
  readonly rounds: number;
}

/**
 * Runs a schedule of `bytes` (the whole tensor) in virtual time. A rank sends one message after the other and receives likewise, a shared
 * link carries one at a time, and a rank begins a round when its part of the one before is done, as the devices do.
 */
export function simulate(schedule: Schedule, bytes: number, topology: Topology): Simulated {
  checkIsSchedule("simulate", schedule);
  checkBytes("simulate", bytes);
  checkTopology("simulate", topology, schedule.ranks);
  const { ranks, chunks } = schedule;
  const lengths = chunkLengths(bytes, chunks);
  const done = new Array<number>(ranks).fill(0);
  const sent = new Array<number>(ranks).fill(0);
  const sharedFree = new Map<string, number>();
  const rounds = roundsOf(schedule);
  for (const round of rounds) {
    const [sending, receiving] = [[...done], [...done]];
    const starts = [...done];
    // Chunks of one rank for another are one message.
    const messages = new Map<string, { from: number; to: number; bytes: number }>();
    for (const { from, to, chunk } of round) {
      const known = messages.get(`${from} ${to}`) ?? { from, to, bytes: 0 };
      known.bytes += lengths[chunk] as number;
      messages.set(`${from} ${to}`, known);
    }
    for (const { from, to, bytes: size } of messages.values()) {
      const link = topology.link(from, to);
      const name = topology.shared?.(from, to);
      const free = name === undefined ? 0 : (sharedFree.get(name) ?? 0);
      const start = Math.max(sending[from] as number, receiving[to] as number, starts[from] as number, free);
      const busy = link === undefined ? Number.POSITIVE_INFINITY : size / link.bandwidth;
      const arrives = start + busy + (link?.latency ?? 0);
      sending[from] = start + busy;
      receiving[to] = start + busy;
      if (name !== undefined) sharedFree.set(name, start + busy);
      sent[from] = (sent[from] as number) + size;
      done[to] = Math.max(done[to] as number, arrives);
      done[from] = Math.max(done[from] as number, start + busy);
    }
  }
  return { seconds: Math.max(0, ...done), sent: Math.max(0, ...sent), rounds: rounds.length };
}
