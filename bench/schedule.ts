/** @module The order of measuring: blocks of steps, one peer after another, again and again. */
import { median } from "./statistics.ts";

/** What is measured in turns. */
export interface Contender {
  readonly name: string;
  steps(count: number): Promise<{ readonly milliseconds: number[]; readonly losses: number[] }>;
}

/** How long to measure. */
export interface Duration {
  /** Seconds of steps of each contender, at least. */
  readonly seconds: number;
  /** Seconds of steps before it is the next one's turn. */
  readonly blockSeconds: number;
  /** Steps of each contender before anything is noted. */
  readonly warmUp: number;
}

/** What was measured of a contender. */
export interface Measured {
  /** Of every step after the warm-up, in order. */
  readonly milliseconds: number[];
  /** Mean of the fastest few steps in a row: with two steps under way, single times are not independent. */
  readonly fastestMilliseconds: number;
  /** Of the very first step, which may compile. */
  readonly firstMilliseconds: number;
  readonly firstLoss: number;
  readonly lastLoss: number;
}

/**
 * Measures all contenders in one run: whatever else happens on the machine meets all of them. The order is turned by
 * one in each round, so that no contender always runs behind the same other one. One that fails is told to `onFailure`
 * and left out from then on.
 */
export async function measureInTurns(
  contenders: readonly Contender[],
  { seconds, blockSeconds, warmUp }: Duration,
  onFailure: (name: string, error: Error) => void,
): Promise<Map<string, Measured>> {
  const found = new Map<string, Measured & { lastLoss: number; fastestMilliseconds: number; perBlock: number }>();
  const guarded = async (name: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      found.delete(name);
      onFailure(name, error as Error);
    }
  };
  for (const contender of contenders) {
    await guarded(contender.name, async () => {
      const first = await contender.steps(1);
      const warm = await contender.steps(Math.max(warmUp, 2));
      found.set(contender.name, {
        milliseconds: [],
        fastestMilliseconds: Infinity,
        firstMilliseconds: first.milliseconds[0] as number,
        firstLoss: first.losses[0] as number,
        lastLoss: warm.losses[1] as number,
        perBlock: Math.max(1, Math.round((1000 * blockSeconds) / Math.max(median(warm.milliseconds), 1e-3))),
      });
    });
  }
  const rounds = Math.max(1, Math.ceil(seconds / blockSeconds));
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      const contender = contenders[(round + turn) % contenders.length] as Contender;
      const own = found.get(contender.name);
      if (own === undefined) continue;
      await guarded(contender.name, async () => {
        const { milliseconds, losses } = await contender.steps(own.perBlock);
        own.milliseconds.push(...milliseconds);
        own.fastestMilliseconds = Math.min(own.fastestMilliseconds, fastestRun(milliseconds));
        own.lastLoss = losses[1] as number;
      });
    }
  }
  return found;
}

/** Steps in a row whose mean counts as one. */
const runLength = 4;

/** The smallest mean of a few values in a row, or of all where there are fewer. */
export function fastestRun(values: readonly number[]): number {
  const length = Math.min(runLength, values.length);
  let fastest = Infinity;
  for (let start = 0; start + length <= values.length; start++) {
    const sum = values.slice(start, start + length).reduce((total, value) => total + value, 0);
    fastest = Math.min(fastest, sum / length);
  }
  return fastest;
}
