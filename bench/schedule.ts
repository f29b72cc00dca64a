/** @module The order of measuring: blocks of steps, one peer after another, again and again. */
import { median } from "./statistics.ts";

/** A contender, measured in turns with others. */
export interface Contender {
  readonly name: string;
  steps(count: number): Promise<{ readonly milliseconds: number[]; readonly losses: number[] }>;
}

/** How long to measure. */
export interface Duration {
  /** Seconds of steps of each contender, at least. */
  readonly seconds: number;
  /** Seconds of steps in a turn. */
  readonly blockSeconds: number;
  /** Warm-up steps of each contender, which are not counted. */
  readonly warmUp: number;
}

/** The times of a contender. */
export interface Measured {
  /** The time of every step after the warm-up, in order. */
  readonly milliseconds: number[];
  /** Mean of the fastest few steps in a row: with two steps queued, single times are not independent. */
  readonly fastestMilliseconds: number;
  /** The time of the very first step, which may compile. */
  readonly firstMilliseconds: number;
  readonly firstLoss: number;
  readonly lastLoss: number;
}

/**
 * Measures all contenders in one run, so that other load on the machine affects all of them. The order rotates by one in
 * each round, so that no contender always runs after the same other one. A failing contender is reported to `onFailure`
 * and left out from then on.
 */
export async function measureInTurns(
  contenders: readonly Contender[],
  { seconds, blockSeconds, warmUp }: Duration,
  onFailure: (name: string, error: Error) => void,
): Promise<Map<string, Measured>> {
  const results = new Map<string, Measured & { lastLoss: number; fastestMilliseconds: number; perBlock: number }>();
  const guarded = async (name: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      results.delete(name);
      onFailure(name, error as Error);
    }
  };
  for (const contender of contenders) {
    await guarded(contender.name, async () => {
      const first = await contender.steps(1);
      const warm = await warmedUp(contender, warmUp);
      results.set(contender.name, {
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
      const contenderResult = results.get(contender.name);
      if (contenderResult === undefined) continue;
      await guarded(contender.name, async () => {
        const { milliseconds, losses } = await contender.steps(contenderResult.perBlock);
        contenderResult.milliseconds.push(...milliseconds);
        contenderResult.fastestMilliseconds = Math.min(contenderResult.fastestMilliseconds, fastestRun(milliseconds));
        contenderResult.lastLoss = losses[1] as number;
      });
    }
  }
  return results;
}

/** Most seconds that a contender warms up: two steps of a slow one are enough. */
const longestWarmUp = 2;

/** The last warm-up steps, at least two. */
async function warmedUp(contender: Contender, steps: number): ReturnType<Contender["steps"]> {
  const two = await contender.steps(2);
  const most = Math.ceil((1000 * longestWarmUp) / Math.max(median(two.milliseconds), 1e-3));
  const left = Math.min(steps - 2, most);
  return left < 2 ? two : contender.steps(left);
}

/** Steps in a row whose mean counts as one value. */
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
