/**
 * @module Schedules of pipelines beside `gpipe` and `1f1b`: several stages on each rank, and backward passes in two parts, of which the part by
 * weights fills the time in which a rank would wait.
 */
import { range } from "../ir/shape.ts";
import {
  type Action,
  type ActionKind,
  oneFOneB,
  type Schedule,
  type ScheduleMaker,
  simulate,
} from "../plan/pipeline/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";

function checkSizes(name: string, stages: number, microBatches: number, ranks: number): void {
  checkInteger(name, "stages", stages, 1);
  checkInteger(name, "microBatches", microBatches, 1);
  checkInteger(name, "ranks", ranks, 1);
}

/** Whether every action of a schedule comes to run. */
function runs(schedule: Schedule): boolean {
  try {
    simulate(schedule);
    return true;
  } catch {
    return false;
  }
}

/**
 * One forward, one backward, with several stages on each rank (Narayanan et al., 2021): rank `r` of `p` has the stages `r`, `r + p`, …, so that the
 * pipeline is filled and drained in steps of a smaller stage. Idle share `(p - 1) / (v m + p - 1)` for `v` stages per rank and a number `m` of
 * micro-batches that `p` divides. More activations are kept and sent than by `1f1b`.
 *
 * @param ranks default: half as many as stages where they are even, else as many
 * @throws HeddleError `pipeline` unless each rank has equally many stages
 */
export const interleaved = (
  stages: number,
  microBatches: number,
  ranks = stages % 2 === 0 ? stages / 2 : stages,
): Schedule => {
  checkSizes("interleaved", stages, microBatches, ranks);
  const chunks = stages / ranks;
  if (!Number.isInteger(chunks))
    throw new HeddleError(
      "pipeline",
      `schedule 'interleaved': ${ranks} ranks cannot have equally many of ${stages} stages`,
      {
        hint: `choose a multiple of ${ranks} stages`,
      },
    );
  // Micro-batches go through the stages of a rank in groups of as many as there are ranks.
  const groups = range(Math.ceil(microBatches / ranks)).map((group) =>
    range(Math.min(ranks, microBatches - group * ranks)).map((index) => group * ranks + index),
  );
  const passes = (rank: number, kind: ActionKind, order: readonly number[]): Action[] =>
    groups.flatMap((group) =>
      order.flatMap((chunk) => group.map((microBatch) => ({ stage: chunk * ranks + rank, kind, microBatch }))),
    );
  const total = microBatches * chunks;
  const made = (more: number): Schedule => ({
    name: "interleaved",
    stages,
    microBatches,
    ranks: range(ranks).map((rank) => {
      const [forward, backward] = [passes(rank, "F", range(chunks)), passes(rank, "B", range(chunks).toReversed())];
      const ahead = Math.min(total, (chunks === 1 ? 1 : 2) * (ranks - rank - 1) + (chunks - 1) * ranks + more);
      return [
        ...forward.slice(0, ahead),
        ...range(total - ahead).flatMap((index) => [forward[ahead + index] as Action, backward[index] as Action]),
        ...backward.slice(total - ahead),
      ];
    }),
  });
  // A last group that is smaller than the others needs more forward passes ahead; with all of them ahead every schedule runs.
  for (let more = 0; ; more++) {
    const schedule = made(more);
    if (more >= total || runs(schedule)) return schedule;
  }
};

/**
 * A schedule with backward passes in two parts (Qi et al., 2023).
 *
 * @param ahead the forward passes of a rank before its first `B`
 * @param later the number of `B` by which a rank's `W` follow, so that there are some for the time when it would wait
 */
function zeroBubble(
  name: string,
  stages: number,
  microBatches: number,
  ahead: (rank: number) => number,
  later: (rank: number) => number,
): Schedule {
  checkSizes(name, stages, microBatches, stages);
  const ranks = range(stages).map((stage): Action[] => {
    const action = (kind: ActionKind, microBatch: number): Action[] =>
      microBatch < 0 || microBatch >= microBatches ? [] : [{ stage, kind, microBatch }];
    const [first, wait] = [ahead(stage), later(stage)];
    return [
      ...range(first).flatMap((index) => action("F", index)),
      ...range(microBatches).flatMap((index) => [
        ...action("B", index),
        ...action("W", index - wait),
        ...action("F", first + index),
      ]),
      ...range(wait).flatMap((index) => action("W", microBatches - wait + index)),
    ];
  });
  return { name, stages, microBatches, ranks };
}

/**
 * ZB-H1 (Qi et al., 2023): backward passes in two parts, and no rank keeps more micro-batches than rank 0 does by `1f1b`. The idle time is a third of that
 * of `1f1b` where `F`, `B` and `W` take equally long.
 */
export const zeroBubbleH1 = (stages: number, microBatches: number): Schedule =>
  zeroBubble(
    "zb-h1",
    stages,
    microBatches,
    (rank) => stages - rank,
    (rank) => rank,
  );

/**
 * ZB-H2 (Qi et al., 2023): as ZB-H1 with about twice as many micro-batches kept. No rank waits between its first action and its last one, so a rank
 * can begin the next step while later ranks end this one, where the update needs nothing of them.
 */
export const zeroBubbleH2 = (stages: number, microBatches: number): Schedule =>
  zeroBubble(
    "zb-h2",
    stages,
    microBatches,
    (rank) => 2 * (stages - rank) - 1,
    (rank) => 2 * rank,
  );

/** The order of `1f1b` with an update of each stage after every `each` micro-batches. */
function updatedEvery(
  name: string,
  [stages, microBatches]: readonly [number, number],
  each: number,
  delay?: number,
): Schedule {
  const { ranks } = oneFOneB(stages, microBatches);
  const updated = (action: Action): Action[] =>
    action.kind === "B" && (action.microBatch + 1) % each === 0 ? [action, { ...action, kind: "U" }] : [action];
  return {
    name,
    stages,
    microBatches,
    ranks: ranks.map((actions) => actions.flatMap(updated)),
    ...(delay === undefined ? {} : { delay }),
  };
}

/**
 * PipeDream (Narayanan et al., 2019): the order of `1f1b`, and each stage updates its parameters after each micro-batch. Stage `s` of `p` computes
 * micro-batch `i` with the parameters after `i - (p - s - 1)` updates, forward and backward alike, so gradients are up to `p - s - 1` updates late.
 */
export const pipedream = (stages: number, microBatches: number): Schedule =>
  updatedEvery("pipedream", [stages, microBatches], 1);

/**
 * PipeDream with vertical sync: all stages compute micro-batch `i` with their parameters after `i - (p - 1)` updates, as stage 0 of {@link pipedream} does.
 * Each stage keeps `p` versions.
 */
export const pipedreamVertical = (stages: number, microBatches: number): Schedule =>
  updatedEvery("pipedream-vertical", [stages, microBatches], 1, stages - 1);

/**
 * PipeDream-2BW (Narayanan et al., 2021): each stage updates its parameters after every `each` micro-batches, and goes on without a flush. The
 * micro-batches of update `k` use the parameters after `k - 1` updates on all stages, so there are two versions, and gradients are one update late.
 *
 * @param each default: the smallest divisor of the number of micro-batches that is not below the number of stages
 * @throws HeddleError `pipeline` unless it is such a divisor
 */
export const twoBuffered =
  (each?: number): ScheduleMaker =>
  (stages, microBatches) => {
    const name = "pipedream-2bw";
    checkSizes(name, stages, microBatches, 1);
    const fits = (count: number): boolean => microBatches % count === 0 && count >= Math.min(stages, microBatches);
    const count = each ?? (range(microBatches + 1).find((one) => one > 0 && fits(one)) as number);
    if (!Number.isInteger(count) || count < 1 || !fits(count))
      throw new HeddleError(
        "pipeline",
        `schedule '${name}': ${count} micro-batches for an update do not fit ${microBatches} micro-batches and ${stages} stages`,
        { hint: "take a divisor of the number of micro-batches that is not below the number of stages" },
      );
    return updatedEvery(name, [stages, microBatches], count, 1);
  };
