/** @module Pipeline parallelism as a plan: stages, micro-batches, schedules. */
export { isAccumulation, type MicroOptions, type MicroPlan, noBuckets, planMicroBatches } from "./micro.ts";
export { makeSchedule, type PipelineOptions, planPipeline, stageAxis } from "./plan.ts";
export * from "./schedule.ts";
export * from "./simulate.ts";
export { assignStages, type StageOptions, type StagePlace, type Stages } from "./stages.ts";
