/**
 * @module Reports about plans, as text and as data: layouts, collectives, memory, cost, passes, and how two plans
 * differ.
 */
export { diffPlans } from "./diff.ts";
export { deviceBytes, localBytes, type TrainingMemory } from "./memory.ts";
export { graphsAfter, passesText } from "./passes.ts";
export {
  bytesKept,
  bytesSentByRank,
  predictedWaits,
  printPipeline,
  printPrediction,
  printRankMemory,
} from "./pipeline.ts";
export {
  formatOperations,
  formatPlanReport,
  formatRanking,
  type PlanReport,
  planReport,
  type ReportInput,
  type UnusedAxis,
} from "./plan.ts";
