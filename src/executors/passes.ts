/** @module The passes of the native executor, and of executors that run its plans: the reference executor, for comparison. */
import { channelsLast } from "../passes/channels-last.ts";
import type { ExecutorPasses } from "../passes/pass.ts";
import { simplifyOrder } from "../passes/simplify.ts";
import { touchedRows } from "../passes/touched-rows.ts";

export const nativePasses: ExecutorPasses = {
  beforePlanning: [
    {
      name: "channelsLast",
      why: "native convolutions read channels last; after simplify, so that few transposes are left to move",
      order: simplifyOrder,
      run: channelsLast,
    },
  ],
  afterPlanning: [
    {
      name: "touchedRows",
      why: "a step changes few rows of a large table; here the planner has said how many rows of it and ids a device has",
      run: (graph) => touchedRows(graph),
    },
  ],
};
