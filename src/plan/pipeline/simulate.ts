/**
 * @module Simulation of a pipeline schedule before it runs: is every action there, can each get what it needs, how long
 * does it take, how much is kept.
 */
import { HeddleError } from "../../util/errors.ts";
import { type Action, formatAction, formatGrid, type GridCell, orderGrid, type Schedule } from "./schedule.ts";

/** Time of one action of a stage, in any unit; one number counts for every stage. */
export interface ScheduleCosts {
  readonly F: number | readonly number[];
  readonly B: number | readonly number[];
  /** Time until what one rank sends is on another; it keeps neither from computing. Default 0. */
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
  /** Until the last action ends. */
  readonly time: number;
  /** Idle share of all ranks' time until then. */
  readonly bubble: number;
  /** Per rank, the most micro-batches whose forward values are kept for a backward pass at once. */
  readonly peakLive: readonly number[];
}

/** The actions whose results an action needs. */
export function needsOf({ stage, kind, microBatch }: Action, stages: number): Action[] {
  if (kind === "F") return stage === 0 ? [] : [{ stage: stage - 1, kind, microBatch }];
  const own: Action = { stage, kind: "F", microBatch };
  return stage === stages - 1 ? [own] : [own, { stage: stage + 1, kind, microBatch }];
}

/**
 * Simulates a schedule: every rank runs its actions in order, each as soon as what it needs is there.
 *
 * @param costs default: a backward pass takes twice the time of a forward pass, sending none
 * @throws HeddleError `schedule` when an action is missing, is there twice, comes on its rank before what it needs, or
 * ranks wait for each other in a circle. The message shows the grid with the cell at fault marked.
 */
export function simulate(schedule: Schedule, costs: ScheduleCosts = defaultCosts): Simulation {
  checkComplete(schedule);
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
        const end = start + costOf(next, costs);
        ranks[rank]?.push({ ...next, start, end });
        ends.set(formatAction(next), { end, rank });
        moved = true;
        next = actions[ranks[rank]?.length as number];
      }
    });
  }
  if (ranks.some((done, rank) => done.length < (schedule.ranks[rank]?.length as number)))
    throw stuck(
      schedule,
      ranks.map((done) => done.length),
      ends,
    );
  const time = Math.max(0, ...ranks.flat().map(({ end }) => end));
  const busy = ranks.flat().reduce((total, { start, end }) => total + end - start, 0);
  return { ranks, time, bubble: time === 0 ? 0 : 1 - busy / (time * ranks.length), peakLive: ranks.map(peakLive) };
}

function costOf({ kind, stage }: Action, costs: ScheduleCosts): number {
  const cost = costs[kind];
  return typeof cost === "number" ? cost : (cost[stage] as number);
}

function peakLive(actions: readonly TimedAction[]): number {
  let live = 0;
  let most = 0;
  for (const { kind } of actions) {
    live += kind === "F" ? 1 : -1;
    most = Math.max(most, live);
  }
  return most;
}

function fail(schedule: Schedule, what: string, isMarked: (rank: number, index: number) => boolean): HeddleError {
  return new HeddleError("schedule", `schedule '${schedule.name}': ${what}\n${orderGrid(schedule, isMarked)}`);
}

/** Every action is there once, and all those of a stage on one rank. */
function checkComplete(schedule: Schedule): void {
  const { stages, microBatches } = schedule;
  const places = new Map<string, { rank: number }>();
  const ranks = new Map<number, number>();
  schedule.ranks.forEach((actions, rank) => {
    actions.forEach((action, index) => {
      const here = (at: number, place: number): boolean => at === rank && place === index;
      const name = formatAction(action);
      if (action.stage >= stages || action.microBatch >= microBatches)
        throw fail(schedule, `${name} is not among ${stages} stages and ${microBatches} micro-batches`, here);
      if (places.has(name))
        throw fail(schedule, `${name} is there twice (again as action ${index} of rank ${rank})`, here);
      places.set(name, { rank });
      const home = ranks.get(action.stage) ?? rank;
      if (home !== rank)
        throw fail(
          schedule,
          `${name} is on rank ${rank}, other actions of stage ${action.stage} on rank ${home}`,
          here,
        );
      ranks.set(action.stage, rank);
    });
  });
  for (let stage = 0; stage < stages; stage++)
    for (let microBatch = 0; microBatch < microBatches; microBatch++)
      for (const kind of ["F", "B"] as const) {
        const name = formatAction({ stage, kind, microBatch });
        if (!places.has(name)) throw fail(schedule, `${name} is missing`, missingMark(schedule, stage, microBatch));
      }
}

/** The other action of the same stage and micro-batch, if there is one. */
function missingMark(schedule: Schedule, stage: number, microBatch: number): (rank: number, index: number) => boolean {
  return (rank, index) => {
    const action = schedule.ranks[rank]?.[index];
    return action?.stage === stage && action.microBatch === microBatch;
  };
}

/** Why nothing moves: an action stands before what it needs on its own rank, or ranks wait in a circle. */
function stuck(schedule: Schedule, next: readonly number[], ends: ReadonlyMap<string, unknown>): HeddleError {
  const blocked = (rank: number): { action: Action; need: Action; home: number } | undefined => {
    const action = schedule.ranks[rank]?.[next[rank] as number];
    if (action === undefined) return undefined;
    const need = needsOf(action, schedule.stages).find((one) => !ends.has(formatAction(one))) as Action;
    const home = schedule.ranks.findIndex((row) => row.some((one) => formatAction(one) === formatAction(need)));
    return { action, need, home };
  };
  const at = (rank: number) => (row: number, index: number) => row === rank && index === next[rank];
  for (const rank of schedule.ranks.keys()) {
    const one = blocked(rank);
    if (one?.home === rank)
      return fail(
        schedule,
        `${formatAction(one.action)} needs ${formatAction(one.need)}, which comes later on rank ${rank}`,
        at(rank),
      );
  }
  // Every rank that has not ended waits for another, so following them leads into the circle.
  let rank = schedule.ranks.findIndex((_row, index) => blocked(index) !== undefined);
  const seen: number[] = [];
  while (!seen.includes(rank)) {
    seen.push(rank);
    rank = blocked(rank)?.home as number;
  }
  const circle = seen.slice(seen.indexOf(rank));
  const waits = circle.map((member) => {
    const { action, need } = blocked(member) as { action: Action; need: Action };
    return `rank ${member} at ${formatAction(action)} waits for ${formatAction(need)}`;
  });
  return fail(schedule, `deadlock: ${waits.join(", ")}`, (row, index) => circle.includes(row) && index === next[row]);
}

/**
 * The schedule as a grid: ranks by time, `.` where a rank is idle, `=` where an action goes on.
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
      for (let at = action.start; at < action.end; at++)
        cells[at] = { text: at === action.start ? formatAction(action) : "=" };
    }
    return cells;
  });
  const { name, stages, microBatches } = schedule;
  return `schedule ${name} stages=${stages} microBatches=${microBatches}\n${formatGrid(rows)}\n`;
}
