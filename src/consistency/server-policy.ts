/** @module Whether `train` on parameter servers takes a policy. */
import { HeddleError } from "../util/errors.ts";
import type { Policy } from "./policy.ts";

/** Whether workers train copies of their own between two exchanges. */
export const trainsLocally = ({ worker: { carries, fetchEvery, pushEvery } }: Policy): boolean =>
  carries === "difference" || fetchEvery > 1 || pushEvery > 1;

/**
 * Refuses a policy that a training on parameter servers cannot run.
 *
 * @param policy the policy
 * @param workers the number of workers at the start, at least 1
 * @throws HeddleError `option` for a policy whose workers have several clocks under way, and for as many backups as workers
 */
export function checkServerPolicy({ spec, worker, backups = 0 }: Policy, workers: number): void {
  if (worker.outstanding !== 1)
    throw new HeddleError("option", `policy '${spec}' has a worker begin clocks before its last one has ended`, {
      hint: "a worker of train() ends each clock before the next: ssp lets it lead as far",
    });
  if (backups >= workers)
    throw new HeddleError("option", `policy '${spec}' needs more than ${backups} workers, and there are ${workers}`, {
      hint: "a step waits for all workers but the backups: for one at least",
    });
}
