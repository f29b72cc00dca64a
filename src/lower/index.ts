/** @module Lowering: from programs to kernel calls with offsets in one arena. */
export { type CheckReport, checkLowered } from "./check.ts";
export type { FusionLimits } from "./cluster.ts";
export { type CallCost, callCost, type NumberedCall, numberedCalls } from "./cost.ts";
export type { KernelChoice } from "./expand.ts";
export type { Address, LoweredJson, LoweredStep } from "./json.ts";
export { lowerProgram } from "./lower.ts";
export type { ArenaValue, LoweredArgument, LoweredProgram, LowerTarget } from "./lowered.ts";
export type { PeakReport } from "./memory.ts";
export { printCall, printLowered } from "./print.ts";
export { costOf } from "./tasks.ts";
