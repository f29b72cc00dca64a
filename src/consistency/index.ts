/** @module Consistency policies of parameter servers: who waits for whom, as state machines without clock or network. */
export type { ClockTable, WorkerClock } from "./clocks.ts";
export { type Action, Consistency, type ConsistencyOptions, type Grant } from "./consistency.ts";
export * from "./gossip/index.ts";
export * from "./policies/index.ts";
export {
  byClock,
  eachAlone,
  type Merging,
  type Policy,
  plainWorker,
  type Settled,
  type Step,
  type Told,
  together,
  type Update,
  type WorkerRule,
} from "./policy.ts";
export { type PolicyKind, policyKinds, policyNamed, registerPolicy } from "./registry.ts";
export {
  type SimulatedEvent,
  type SimulatedModel,
  type SimulationOptions,
  type SimulationResult,
  simulate,
} from "./simulation.ts";
export { type SpecKind, type SpecNumber, specForm } from "./specs.ts";
export { TaskGraph } from "./task-graph.ts";
export { VirtualTime } from "./virtual-time.ts";
