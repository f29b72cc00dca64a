/** @module Whether `train` on parameter servers takes a policy. */
import { HeddleError } from "../util/errors.ts";
import type { Policy } from "./policy.ts";

/**
 * Refuses a policy that a training on parameter servers cannot run.
 *
 * @param policy the policy
 * @param workers the number of workers at the start, at least 1
 * @throws HeddleError `option` for a policy whose workers do more than push each gradient, and for as many backups as workers
 */
export function checkServerPolicy({ spec, worker, backups = 0 }: Policy, workers: number): void {
  const { carries, pushEvery, outstanding } = worker;
  if (carries !== "gradient" || pushEvery !== 1 || outstanding !== 1)
    throw new HeddleError(
      "option",
      `policy '${spec}' changes what a worker does, which train() does not do with servers`,
      {
        hint: "bsp, ssp:3 and async are policies whose workers push each gradient",
      },
    );
  if (backups >= workers)
    throw new HeddleError("option", `policy '${spec}' needs more than ${backups} workers, and there are ${workers}`, {
      hint: "a step waits for all workers but the backups: for one at least",
    });
}
