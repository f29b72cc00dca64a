/** @module The choice of a schedule: all that fit are simulated, and the fastest one is taken. */
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { checkBytes, checkTask, checkTopology } from "./given.ts";
import { makers as builtIn, type ScheduleMaker } from "./makers.ts";
import { checkSchedule, type Schedule, type Task } from "./schedule.ts";
import { simulate } from "./simulate.ts";
import { type Topology, uniform } from "./topology.ts";

const makers = new Map(builtIn.map((maker) => [maker.name, maker]));

/** Names of the schedules, in the order in which equally fast ones are preferred. */
export const scheduleNames = (): string[] => [...makers.keys()];

/**
 * Adds a way to carry out collectives, which the choice then takes where it is the fastest.
 *
 * @throws HeddleError `argument` unless it has a name that is not taken, and a function `make`
 */
export function registerSchedule(maker: ScheduleMaker): void {
  const { name, make } = (maker ?? {}) as Partial<ScheduleMaker>;
  if (typeof name !== "string" || !/^[a-z]\w*$/i.test(name) || typeof make !== "function")
    throw new HeddleError("argument", `registerSchedule: takes { name, doc, make }, got ${shown(maker)}`);
  // "auto" is the choice, and "alone" what one rank does.
  if (makers.has(name) || name === "auto" || name === "alone")
    throw new HeddleError("argument", `registerSchedule: there is a schedule '${name}' already`);
  makers.set(name, maker);
}

/** One rank needs no messages. */
const alone = (task: Task): Schedule => ({ name: "alone", ...task, chunks: 1, messages: [] });

/** The schedule of a maker, checked; undefined where it does not fit. */
function made(maker: ScheduleMaker, task: Task, topology: Topology): Schedule | undefined {
  const parts = maker.make(task, topology);
  if (parts === undefined) return undefined;
  const schedule = { name: maker.name, ...task, ...parts };
  checkSchedule(schedule);
  return schedule;
}

/** The same of a maker that may be wrong. */
function madeWell(maker: ScheduleMaker, task: Task, topology: Topology): Schedule | undefined {
  try {
    return made(maker, task, topology);
  } catch {
    return undefined;
  }
}

/**
 * The schedule of this name.
 *
 * @param topology default: equal links; only some schedules depend on it
 * @throws HeddleError `schedule` where there is none, or it does not fit; `option` for an unknown name, and for more than 256 ranks (64 of
 * an all-to-all)
 */
export function scheduleNamed(
  name: string,
  task: Task,
  topology: Topology = uniform(task?.ranks, { latency: 0, bandwidth: 1 }),
): Schedule {
  checkTask("scheduleNamed", task);
  checkTopology("scheduleNamed", topology, task.ranks);
  const maker = makers.get(name);
  if (maker === undefined) {
    const suggestion = typeof name === "string" ? nearest(name, scheduleNames()) : undefined;
    throw new HeddleError("option", `there is no schedule ${shown(name)}`, {
      hint: suggestion === undefined ? `schedules are ${scheduleNames().join(", ")}` : `did you mean '${suggestion}'?`,
    });
  }
  if (task.ranks === 1) return alone(task);
  const schedule = made(maker, task, topology);
  if (schedule !== undefined) return schedule;
  throw new HeddleError(
    "schedule",
    `there is no schedule '${name}' for ${task.collective} of ${task.ranks} ranks on this topology`,
  );
}

/**
 * All schedules that fit, the fastest one first. One that was registered and is wrong is left out; `scheduleNamed` says why.
 *
 * @throws HeddleError `option` for more than 256 ranks (64 of an all-to-all); `argument` for a topology of other ranks
 */
export function rankedSchedules(
  task: Task,
  bytes: number,
  topology: Topology,
): { schedule: Schedule; seconds: number }[] {
  checkTask("rankedSchedules", task);
  checkBytes("rankedSchedules", bytes);
  checkTopology("rankedSchedules", topology, task.ranks);
  if (task.ranks === 1) return [{ schedule: alone(task), seconds: 0 }];
  const all = [...makers.values()].flatMap((maker) => {
    const schedule = builtIn.includes(maker) ? made(maker, task, topology) : madeWell(maker, task, topology);
    return schedule === undefined ? [] : [{ schedule, seconds: simulate(schedule, bytes, topology).seconds }];
  });
  return all.sort((left, right) => left.seconds - right.seconds);
}

/** The fastest schedule for `bytes` (the whole tensor) on a topology; equal arguments give the same one. */
export const chooseSchedule = (task: Task, bytes: number, topology: Topology): Schedule =>
  (rankedSchedules(task, bytes, topology)[0] as { schedule: Schedule }).schedule;
