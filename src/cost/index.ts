/** @module Costs: what a graph has to do, what a machine can do, and how long the one takes on the other. */
export { type Cost, costOfTasks, type Task, type Traffic } from "./cost.ts";
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
export { bytesTouched, type Places, TaskList, tasksOf, totalBytes } from "./tasks.ts";
