/** @module The plug-in of workers whose sums are made by a switch: HEDDLE_SWITCH names it. */
import type { ExecutorPlugin } from "../../runtime/registry.ts";
import { readEnvironment } from "../../util/settings.ts";
import { joinWorkers } from "../native/join.ts";
import { nativePasses } from "../passes.ts";
import { switchExecutor } from "./executor.ts";

/** Joins the workers of a run where the environment names a switch; it has no devices in a process of its own. */
export const switchPlugin: ExecutorPlugin = {
  name: "switch",
  unavailable: () => undefined,
  passes: nativePasses,
  join: (mesh, attempt) => {
    const { world, throughSwitch: address, timeout } = readEnvironment();
    if (world === 1 || address === undefined) return undefined;
    return joinWorkers(mesh, attempt, ({ world: joined, ...options }) =>
      switchExecutor({ ...options, world: joined as NonNullable<typeof joined>, address, timeout: timeout ?? 30 }),
    );
  },
};
