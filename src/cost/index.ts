/** @module Costs: what a graph has to do, what a machine can do, and how long the one takes on the other. */
export { type Cost, costOfTasks, type Task, type Traffic, taskSeconds } from "./cost.ts";
export {
  collectiveSeconds,
  type Link,
  type Machine,
  machineFor,
  type Sending,
  sendingOf,
  sendSeconds,
  type Work,
  workSeconds,
} from "./machine.ts";
export { checkMachine, environmentMachine, parseMachine } from "./machine-data.ts";
export { tasksOf } from "./tasks.ts";
