/** @module A second set of links between the workers of a run, for messages beside those of the steps. */
import { loadNative } from "../executors/native/binding.ts";
import { joinWorld } from "../executors/native/world.ts";
import { meetingOfEnvironment } from "../hosts/meeting.ts";
import { HeddleError } from "../util/errors.ts";
import type { Partners } from "./neighbours.ts";

/**
 * Joins the other workers of this run's epoch by links of their own, for a group of some of them.
 *
 * @param name the same on all workers, and another one for each call of an epoch
 * @param ranks the ranks of the group, with this one
 * @throws HeddleError `world` if the others cannot be reached in time
 */
export async function joinPartners(name: string, ranks: readonly number[]): Promise<Partners> {
  const native = loadNative();
  if ("error" in native) throw new HeddleError("native", `several workers need the native core: ${native.error}`);
  // The links of the steps write the records of the flight.
  const meeting = { ...(await meetingOfEnvironment(() => new native.StoreServer())), flight: undefined };
  const world = await joinWorld({ ...meeting, name });
  const group = world.native.group(ranks, "partners");
  return {
    allGather: (bytes, label) => group.allGather(bytes, label),
    barrier: (label) => world.barrier(label),
    abort: (reason) => world.abort(reason),
    close: () => world.close(),
  };
}
