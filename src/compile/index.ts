/** @module From a traced graph to what runs: passes, plan, program, executable. */
export {
  type Compiled,
  compileGraph,
  type Donor,
  loadPlan,
  type Planned,
  type PlannedPrograms,
  planProgram,
  runCompiled,
} from "./compile.ts";
export { withSource } from "./given.ts";
export type { CompileOptions } from "./options.ts";
export {
  type Pass,
  type PassOptions,
  type PassReport,
  type PassSettings,
  passesAfterPlanning,
  passesBeforePlanning,
  runPasses,
} from "./passes.ts";
export type { Value } from "./value.ts";
