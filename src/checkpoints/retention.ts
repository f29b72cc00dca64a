/** @module Which checkpoints are kept: the newest, one for each period of time, and those with the best metric. */

import { manifestName } from "../io/checkpoint-name.ts";
import type { Description } from "./description.ts";
import { openCheckpoint } from "./open.ts";
import type { Storage } from "./storage.ts";
import type { ListedCheckpoint } from "./types.ts";

/** Which checkpoints are kept; one that any rule keeps stays. */
export interface Retention {
  /** How many of the newest; at least 1, `Infinity` for all. */
  readonly newest: number;
  /** Hours of a period, of which the first checkpoint stays; undefined for no such rule. */
  readonly hours?: number | undefined;
  /** How many of the best stay. */
  readonly best?: Best | undefined;
}

/** The best checkpoints by a number. */
export interface Best {
  readonly count: number;
  /** The number of a checkpoint; undefined if it has none. */
  readonly valueOf: (description: Description) => number | undefined;
  readonly better: (value: number, other: number) => boolean;
}

/** A checkpoint with what rules look at. */
export interface Aged extends ListedCheckpoint {
  /** Milliseconds since 1970 when it was written. */
  readonly time: number;
  readonly value: number | undefined;
}

/** The checkpoints that no rule keeps; the newest stand first. */
export function superfluous(all: readonly Aged[], { newest, hours, best }: Retention): Aged[] {
  const kept = new Set(all.slice(0, newest));
  if (hours !== undefined) {
    const periods = new Map<number, Aged>();
    // The oldest of a period comes last.
    for (const one of all) periods.set(Math.floor(one.time / (hours * 3_600_000)), one);
    for (const one of periods.values()) kept.add(one);
  }
  if (best !== undefined) {
    const ranked = all.filter(({ value }) => value !== undefined && !Number.isNaN(value));
    // Of equal ones the newest is kept.
    ranked.sort((left, right) => {
      const [a, b] = [left.value as number, right.value as number];
      return best.better(a, b) ? -1 : best.better(b, a) ? 1 : 0;
    });
    for (const one of ranked.slice(0, best.count)) kept.add(one);
  }
  return all.filter((one) => !kept.has(one));
}

/** Times and numbers of checkpoints, each read once in the life of a run. */
export class Ages {
  private readonly known = new Map<string, Omit<Aged, keyof ListedCheckpoint>>();

  /** The checkpoints with what the rules look at. One that cannot be read has no number. */
  async of(storage: Storage, all: readonly ListedCheckpoint[], { hours, best }: Retention): Promise<Aged[]> {
    const aged: Aged[] = [];
    for (const one of all) {
      let known = this.known.get(one.path);
      if (known === undefined) {
        const file = one.inParts ? `${one.name}/${manifestName}` : one.name;
        const age = hours === undefined ? undefined : await storage.age(file);
        known = { time: Date.now() - (age ?? 0), value: best && (await valueOf(one.path, best)) };
        this.known.set(one.path, known);
      }
      aged.push({ ...one, ...known });
    }
    return aged;
  }
}

async function valueOf(path: string, { valueOf }: Best): Promise<number | undefined> {
  try {
    const checkpoint = await openCheckpoint(path);
    await checkpoint.close();
    return valueOf(checkpoint.description);
  } catch {
    return undefined;
  }
}
