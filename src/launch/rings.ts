/**
 * @module What the flight recorders of all ranks say together: who has not come to which collective, and who comes last.
 *
 * A recorder (`native/comm/src/flight.rs`) has the last 256 collectives of a rank. The ranks of one host read one clock.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { loadNative, type NativeFlight, type NativeFlightItem } from "../executors/native/binding.ts";

/** The record of a rank. */
export type Ring = Pick<NativeFlight, "rank" | "size" | "step" | "entries">;

/** The records in the folder of a run, by rank. Those that are missing, damaged or half written are left out. */
export function readRings(folder: string): Ring[] {
  const native = loadNative();
  if ("error" in native) return [];
  const files = namesIn(folder).filter((name) => /^rank-\d+\.flight$/.test(name));
  return files
    .flatMap((name) => {
      try {
        return [native.readFlight(join(folder, name))];
      } catch {
        return [];
      }
    })
    .sort((left, right) => left.rank - right.rank);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** A collective that some ranks have begun and not finished. */
export interface Unfinished {
  readonly description: string;
  readonly step: number;
  /** When the first rank came, in milliseconds since the Unix epoch. */
  readonly since: number;
  /** The ranks that are in it. */
  readonly waiting: readonly number[];
  /** The ranks of its group that have not come; empty if all have. */
  readonly missing: readonly number[];
}

/** The collectives that are under way, the one that was begun first at the front; after the end of a run those, too, that `failed`. */
export function unfinished(rings: readonly Ring[], failed = false): Unfinished[] {
  const found = new Map<string, { item: NativeFlightItem; since: number; waiting: number[] }>();
  for (const { rank, entries } of rings)
    for (const item of entries) {
      if (item.finished !== undefined && !(failed && item.failed)) continue;
      const key = `${item.group} ${item.sequence}`;
      const known = found.get(key);
      if (known === undefined) found.set(key, { item, since: item.started, waiting: [rank] });
      else {
        known.waiting.push(rank);
        known.since = Math.min(known.since, item.started);
      }
    }
  return [...found.values()]
    .map(({ item, since, waiting }) => ({
      description: item.description,
      step: item.step,
      since,
      waiting,
      missing: missingFrom(rings, item, waiting),
    }))
    .sort((left, right) => left.since - right.since);
}

/** The ranks of a collective's group that have not begun it. */
function missingFrom(
  rings: readonly Ring[],
  { group, sequence }: NativeFlightItem,
  waiting: readonly number[],
): number[] {
  const absent = rings.filter(({ rank }) => !waiting.includes(rank));
  const lastOf = ({ entries }: Ring): NativeFlightItem | undefined => entries.findLast((item) => item.group === group);
  const known = absent.filter((ring) => lastOf(ring) !== undefined);
  const late = known.filter((ring) => (lastOf(ring) as NativeFlightItem).sequence < sequence);
  // A record has no members of a group: ranks that never were in it may be of another one, unless they are idle and nobody else is missing.
  const strangers = absent.filter(
    (ring) => lastOf(ring) === undefined && ring.entries.every(({ finished }) => finished !== undefined),
  );
  return (known.length > 0 ? late : strangers).map(({ rank }) => rank);
}

/** How long the ranks have waited for the last one to come. */
export class Lateness {
  /** Milliseconds that each rank came later than the one before it. */
  private readonly late = new Map<number, number>();
  /** Milliseconds of the time that was looked at. */
  private looked = 0;
  /** Number of the last collective of each group that was counted. */
  private readonly counted = new Map<string, number>();
  /** When the last collective that was counted began. */
  private lookedTo = 0;

  /** Adds the collectives that are new since the last call. */
  add(rings: readonly Ring[]): void {
    if (rings.length < 2) return;
    const starts = new Map<string, { group: string; sequence: number; at: { rank: number; started: number }[] }>();
    for (const { rank, entries } of rings)
      for (const { group, sequence, started } of entries) {
        if (sequence <= (this.counted.get(group) ?? -1)) continue;
        const key = `${group} ${sequence}`;
        const known = starts.get(key) ?? { group, sequence, at: [] };
        known.at.push({ rank, started });
        starts.set(key, known);
      }
    const before = new Map(this.counted);
    let [first, last] = [Number.POSITIVE_INFINITY, 0];
    for (const { group, sequence, at } of starts.values()) {
      const members = rings.filter(({ entries }) => entries.some((item) => item.group === group));
      // Only those to which all ranks have come, as far as records reach back.
      if (at.length < Math.max(2, members.length)) continue;
      at.sort((left, right) => right.started - left.started);
      const [latest, next] = at as [(typeof at)[number], (typeof at)[number]];
      this.late.set(latest.rank, (this.late.get(latest.rank) ?? 0) + latest.started - next.started);
      this.counted.set(group, Math.max(this.counted.get(group) ?? -1, sequence));
      // Without a gap the time since the last look counts, too: ranks that compute do not wait.
      first = Math.min(
        first,
        sequence === (before.get(group) ?? 0) + 1 && this.lookedTo > 0 ? this.lookedTo : next.started,
      );
      last = Math.max(last, latest.started);
    }
    if (last <= first) return;
    this.looked += last - first;
    this.lookedTo = last;
  }

  /** The rank for which the others waited longest, and the share of the time for which they did; undefined before there was anything. */
  get slowest(): { readonly rank: number; readonly share: number } | undefined {
    const [slowest] = [...this.late].sort(([, left], [, right]) => right - left);
    if (slowest === undefined || this.looked === 0) return undefined;
    return { rank: slowest[0], share: Math.min(1, slowest[1] / this.looked) };
  }

  /** Forgets what was counted, but not up to where. */
  restart(): void {
    this.late.clear();
    this.looked = 0;
  }
}
