/** @module The options of a compile. */
import type { Machine } from "../cost/index.ts";
import type { Layout, PipelineOptions, Plan, PlanLayouts } from "../plan/index.ts";
import type { Executor } from "../runtime/executor.ts";
import type { PassReport } from "./passes.ts";

/** The options of a compile besides the graph. */
export interface CompileOptions {
  /** Layout of each input; undefined: replicated. */
  readonly inputs?: readonly (Layout | undefined)[];
  /** Layout in which each input is used, where it differs from the layout in which it is stored. */
  readonly uses?: readonly (Layout | undefined)[] | undefined;
  readonly outputs?: readonly (Layout | undefined)[];
  readonly outputNames?: readonly string[];
  /** Inputs whose buffers outputs may take over. */
  readonly donate?: readonly number[];
  /** The machine that the planner assumes; default: the runtime's, or that of `--machine`. */
  readonly machine?: Machine | undefined;
  /** The executor whose passes run; default: the runtime's, or the first registered executor. */
  readonly executor?: Pick<Executor, "passes"> | undefined;
  /** Makes the plan a pipeline. */
  readonly pipeline?: PipelineOptions | undefined;
  /** A plan for the same graph: a plan with graphs runs as it is; a plan without graphs gives its layouts and its schedule. */
  readonly plan?: Plan | PlanLayouts | undefined;
  /** Called after each pass, in order; passes after planning run for every class of devices and every body of a loop. */
  readonly onPass?: ((report: PassReport) => void) | undefined;
}
