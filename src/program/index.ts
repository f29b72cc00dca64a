/** @module Programs: the list of steps that one device runs. */
export type { RankProgram } from "./builder.ts";
export { costOf } from "./cost.ts";
export * from "./parse.ts";
export { type PipelineSource, pipelinePrograms } from "./pipeline.ts";
export {
  bytesSentByRank,
  makeSchedule,
  type PipelinePlan,
  type PipelinePlanOptions,
  type PipelineValue,
  planPipeline,
  printPipeline,
  stageAxis,
} from "./pipeline-plan.ts";
export * from "./print.ts";
export * from "./program.ts";
export * from "./serve.ts";
export { isCollective, type SplitOptions, splitGraph } from "./split.ts";
export { type StableHloOptions, stablehloText } from "./stablehlo.ts";
export { verifyTransfers } from "./transfers.ts";
export * from "./verify.ts";
