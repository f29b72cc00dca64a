/**
 * @module Simulation of a pipeline schedule before it runs: whether every action is present and can get its inputs, how
 * long the schedule takes, and how many micro-batches it holds at once.
 */
import { HeddleError } from "../../util/errors.ts";
import { formatGrid, type GridCell, orderGrid, scheduleHead } from "./grid.ts";
import { type Action, type ActionKind, formatAction, kindsOf, type Schedule } from "./schedule.ts";

/** Time of one action of a stage, in any unit; one number applies to every stage. */
export interface ScheduleCosts {
  readonly F: number | readonly number[];
  /** The whole backward pass. */
  readonly B: number | readonly number[];
  /** The part of a backward pass that computes the gradients by the weights, where it is an action of its own; default: half. */
  readonly W?: number | readonly number[];
  /** An update after a micro-batch; default 1. */
  readonly U?: number | readonly number[];
  /** Time that a transfer from one rank to another takes; both ranks can compute meanwhile. Default 0. */
  readonly transfer?: number;
}

/** A backward pass computes the gradients of inputs and of weights: twice the forward pass. */
export const defaultCosts: ScheduleCosts = { F: 1, B: 2 };

/** An action and when it runs. */
export interface TimedAction extends Action {
  readonly start: number;
  readonly end: number;
}

/** How a schedule runs. */
export interface Simulation {
  readonly ranks: readonly (readonly TimedAction[])[];
  /** Time until the last action ends. */
  readonly time: number;
  /** Idle share of all ranks' time. */
  readonly bubble: number;
  /** Per rank, the most forward passes whose values are kept at once, until the last part of their backward pass. */
  readonly peakLive: readonly number[];
}

/** The actions whose results an action needs. */
export function needsOf({ stage, kind, microBatch }: Action, stages: number): Action[] {
  if (kind === "W" || kind === "U") return [{ stage, kind: "B", microBatch }];
  if (kind === "F") return stage === 0 ? [] : [{ stage: stage - 1, kind, microBatch }];
  const forward: Action = { stage, kind: "F", microBatch };
  return stage === stages - 1 ? [forward] : [forward, { stage: stage + 1, kind, microBatch }];
}

/**
 * Simulates a schedule: every rank runs its actions in order, each as soon as its inputs are available.
 *
 * @param costs default: a backward pass takes twice the time of a forward pass, and a transfer none
 * @throws HeddleError `schedule` when an action is missing, is present twice, comes on its rank before an action that it
 * needs, or ranks wait for each other in a cycle. The message shows the grid with the cell at fault marked.
 */
export function simulate(schedule: Schedule, costs: ScheduleCosts = defaultCosts): Simulation {
  const kinds = checkComplete(schedule);
  const ends = new Map<string, { end: number; rank: number }>();
  const ranks: TimedAction[][] = schedule.ranks.map(() => []);
  const startOf = (action: Action, rank: number): number | undefined => {
    let start = ranks[rank]?.at(-1)?.end ?? 0;
    for (const need of needsOf(action, schedule.stages)) {
      const done = ends.get(formatAction(need));
      if (done === undefined) return undefined;
      start = Math.max(start, done.end + (done.rank === rank ? 0 : (costs.transfer ?? 0)));
    }
    return start;
  };
  for (let moved = true; moved; ) {
    moved = false;
    schedule.ranks.forEach((actions, rank) => {
      for (let next = actions[ranks[rank]?.length as number]; next !== undefined; ) {
        const start = startOf(next, rank);
        if (start === undefined) break;
        const end = start + costOf(next, costs, kinds);
        ranks[rank]?.push({ ...next, start, end });
        ends.set(formatAction(next), { end, rank });
        moved = true;
        next = actions[ranks[rank]?.length as number];
      }
    });
  }
  if (ranks.some((timed, rank) => timed.length < (schedule.ranks[rank]?.length as number)))
    throw stuck(
      schedule,
      ranks.map((timed) => timed.length),
      ends,
    );
  const time = Math.max(0, ...ranks.flat().map(({ end }) => end));
  const busy = ranks.flat().reduce((total, { start, end }) => total + end - start, 0);
  return {
    ranks,
    time,
    bubble: time === 0 ? 0 : 1 - busy / (time * ranks.length),
    peakLive: ranks.map((actions) => peakLive(actions, kinds.includes("W") ? "W" : "B")),
  };
}

function costOf({ kind, stage }: Action, costs: ScheduleCosts, kinds: readonly ActionKind[]): number {
  const of = (cost: number | readonly number[]): number => (typeof cost === "number" ? cost : (cost[stage] as number));
  if (kind === "F") return of(costs.F);
  if (kind === "U") return of(costs.U ?? 1);
  const byWeights = !kinds.includes("W") ? 0 : costs.W === undefined ? of(costs.B) / 2 : of(costs.W);
  return kind === "W" ? byWeights : of(costs.B) - byWeights;
}

function peakLive(actions: readonly TimedAction[], last: ActionKind): number {
  let live = 0;
  let peak = 0;
  for (const { kind } of actions) {
    live += kind === "F" ? 1 : kind === last ? -1 : 0;
    peak = Math.max(peak, live);
  }
  return peak;
}

function scheduleError(
  schedule: Schedule,
  what: string,
  isMarked: (rank: number, index: number) => boolean,
): HeddleError {
  return new HeddleError("schedule", `schedule '${schedule.name}': ${what}\n${orderGrid(schedule, isMarked)}`);
}

/** Checks that every action is present once, and that all actions of a stage are on one rank; the kinds of actions. */
function checkComplete(schedule: Schedule): readonly ActionKind[] {
  const { stages, microBatches } = schedule;
  const kinds = kindsOf(schedule);
  const seen = new Set<string>();
  const ranks = new Map<number, number>();
  schedule.ranks.forEach((actions, rank) => {
    actions.forEach((action, index) => {
      const isThis = (row: number, column: number): boolean => row === rank && column === index;
      const name = formatAction(action);
      const fault = (what: string): HeddleError => scheduleError(schedule, `${name} is ${what}`, isThis);
      if (action.stage >= stages || action.microBatch >= microBatches)
        throw fault(`not among ${stages} stages and ${microBatches} micro-batches`);
      if (seen.has(name)) throw fault(`present twice (again as action ${index} of rank ${rank})`);
      seen.add(name);
      const stageRank = ranks.get(action.stage) ?? rank;
      if (stageRank !== rank)
        throw fault(`on rank ${rank}, other actions of stage ${action.stage} on rank ${stageRank}`);
      ranks.set(action.stage, rank);
    });
  });
  for (let stage = 0; stage < stages; stage++)
    for (let microBatch = 0; microBatch < microBatches; microBatch++)
      for (const kind of kinds) {
        const name = formatAction({ stage, kind, microBatch });
        const isNeeded = kind !== "U" || microBatch === microBatches - 1;
        if (isNeeded && !seen.has(name))
          // The other actions of the stage and micro-batch are marked.
          throw scheduleError(schedule, `${name} is missing`, (rank, index) => {
            const action = schedule.ranks[rank]?.[index];
            return action?.stage === stage && action.microBatch === microBatch;
          });
      }
  return kinds;
}

/** The error of a schedule that stops: an action comes before one that it needs on its rank, or ranks wait in a cycle. */
function stuck(schedule: Schedule, next: readonly number[], ends: ReadonlyMap<string, unknown>): HeddleError {
  const blocked = (rank: number): { action: Action; need: Action; needRank: number } | undefined => {
    const action = schedule.ranks[rank]?.[next[rank] as number];
    if (action === undefined) return undefined;
    const need = needsOf(action, schedule.stages).find((other) => !ends.has(formatAction(other))) as Action;
    const home = schedule.ranks.findIndex((row) => row.some((other) => formatAction(other) === formatAction(need)));
    return { action, need, needRank: home };
  };
  const isNext = (rank: number) => (row: number, index: number) => row === rank && index === next[rank];
  for (const rank of schedule.ranks.keys()) {
    const wait = blocked(rank);
    if (wait?.needRank === rank)
      return scheduleError(
        schedule,
        `${formatAction(wait.action)} needs ${formatAction(wait.need)}, which comes later on rank ${rank}`,
        isNext(rank),
      );
  }
  // Every unfinished rank waits for another one, so following the waits leads into the cycle.
  let rank = schedule.ranks.findIndex((_row, index) => blocked(index) !== undefined);
  const seen: number[] = [];
  while (!seen.includes(rank)) {
    seen.push(rank);
    rank = blocked(rank)?.needRank as number;
  }
  const cycle = seen.slice(seen.indexOf(rank));
  const waits = cycle.map((member) => {
    const { action, need } = blocked(member) as { action: Action; need: Action };
    return `rank ${member} at ${formatAction(action)} waits for ${formatAction(need)}`;
  });
  return scheduleError(
    schedule,
    `deadlock: ${waits.join(", ")}`,
    (row, index) => cycle.includes(row) && index === next[row],
  );
}

/**
 * The schedule as a grid: ranks by time, `.` where a rank is idle, `=` where an action continues.
 * {@link parseSchedule} reads it back.
 *
 *     schedule 1f1b stages=2 microBatches=2
 *     time    0   1   2   3   4   5   6
 *     rank 0  0F0 0F1 .   0B0 =   0B1 …
 *
 * @param costs times in whole units; default: a backward pass takes two columns
 */
export function printSchedule(schedule: Schedule, costs: ScheduleCosts = defaultCosts): string {
  const { ranks, time } = simulate(schedule, costs);
  const rows = ranks.map((actions): GridCell[] => {
    const cells: GridCell[] = Array.from({ length: time }, () => ({ text: "." }));
    for (const action of actions) {
      for (let time = action.start; time < action.end; time++)
        cells[time] = { text: time === action.start ? formatAction(action) : "=" };
    }
    return cells;
  });
  return `${scheduleHead(schedule)}\n${formatGrid(rows)}\n`;
}
