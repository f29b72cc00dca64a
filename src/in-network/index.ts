/** @module Sums made in the network, after SwitchML: a simulated switch with slots on this machine, and the workers' links to it. */
export { boundOf } from "./fixed-point.ts";
export type { Losses } from "./lossy.ts";
export { type Switch, type SwitchOptions, startSwitch } from "./switch.ts";
export { type Aggregator, type JoinOptions, joinSwitch } from "./worker.ts";
