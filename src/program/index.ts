/** @module Programs: the list of steps that one device runs. */

export { isCollective } from "../ir/communication.ts";
export type { PartProgram } from "./builder.ts";
export { costOf } from "./cost.ts";
export * from "./parse.ts";
export * from "./print.ts";
export * from "./program.ts";
export { cutPlan, type DeviceProgram } from "./programs.ts";
export { type SplitOptions, splitGraph } from "./split.ts";
export { verifyTransfers } from "./transfers.ts";
export * from "./verify.ts";
