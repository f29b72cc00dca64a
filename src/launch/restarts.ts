/** @module How often a run was started. */
import { launchers } from "../hosts/launchers.ts";
import { ownVariables, type Variables } from "../util/settings.ts";

/** How often the scheduler has started the job of this process before, as by SLURM_RESTART_COUNT; 0 if none says so. */
export function restartsBefore(variables: Variables = ownVariables()): number {
  const counts = launchers.map(({ restarts }) => Number(variables[restarts ?? ""] || 0));
  return Math.max(0, ...counts.filter((count) => Number.isSafeInteger(count)));
}
