/** @module From a traced graph to what runs: passes, plan, program, executable. */
export {
  type Compiled,
  type CompileOptions,
  compileGraph,
  type Donor,
  type Planned,
  type PlannedPrograms,
  planProgram,
  runCompiled,
} from "./compile.ts";
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
