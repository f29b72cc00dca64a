/** @module From a traced graph to what runs: passes, plan, program, executable. */
export { type Compiled, type CompileOptions, compileGraph, type Planned, planProgram, runCompiled } from "./compile.ts";
export { type Pass, type PassReport, type PassResult, runPasses, standardPasses } from "./passes.ts";
export type { Value } from "./value.ts";
