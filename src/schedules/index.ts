/** @module Schedules of collectives as data: made, checked, printed, simulated, chosen. */
export { chooseSchedule, rankedSchedules, registerSchedule, scheduleNamed, scheduleNames } from "./choose.ts";
export type { ScheduleMaker } from "./makers.ts";
export { checkSchedule, type Message, printSchedule, type Schedule, type Scheduled, type Task } from "./schedule.ts";
export { type Simulated, simulate } from "./simulate.ts";
export { synthesize } from "./synthesize.ts";
export { type HostLinks, hostsOf, type Link, type Topology, uniform } from "./topology.ts";
