/** @module Schedules by name. */
import { type Schedule, type ScheduleMaker, schedules } from "../plan/pipeline/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { isRecord } from "../util/tree.ts";

/**
 * Adds a schedule of pipelines, which the option `schedule` can then name. It is checked and simulated where it is used.
 *
 * @throws HeddleError `argument` unless the name is new and without spaces, and `make` is a function
 */
export function registerPipelineSchedule(name: string, make: ScheduleMaker): void {
  if (typeof name !== "string" || !/^\S+$/.test(name) || typeof make !== "function")
    throw new HeddleError(
      "argument",
      `registerPipelineSchedule: takes a name without spaces and a function, got ${shown(name)} and ${shown(make)}`,
    );
  if (schedules.has(name))
    throw new HeddleError("argument", `registerPipelineSchedule: there is a schedule '${name}' already`);
  schedules.set(name, (...given) => {
    const made: unknown = make(...given);
    if (isRecord(made)) return made as unknown as Schedule;
    throw new HeddleError("schedule", `schedule '${name}': its function must return a schedule, got ${shown(made)}`, {
      hint: "{ name, stages, microBatches, ranks }; docs/pipeline.md has one",
    });
  });
}
