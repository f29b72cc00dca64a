/** @module What a compile is told besides the graph. */
import type { Machine } from "../cost/index.ts";
import type { Layout, PipelineOptions, Plan, PlanLayouts } from "../plan/index.ts";
import type { Executor } from "../runtime/executor.ts";
import type { PassReport } from "./passes.ts";

/** What a compile is told besides the graph. */
export interface CompileOptions {
  /** Layout of each input; undefined: replicated. */
  readonly inputs?: readonly (Layout | undefined)[];
  /** Layout that each input is used in, where that is another than it is kept in; a pipeline has none such. */
  readonly uses?: readonly (Layout | undefined)[] | undefined;
  readonly outputs?: readonly (Layout | undefined)[];
  readonly outputNames?: readonly string[];
  /** Inputs whose buffers outputs may take over. */
  readonly donate?: readonly number[];
  /** What the planner assumes of devices and links; default that of the runtime, or of `--machine`. */
  readonly machine?: Machine | undefined;
  /** Whose passes it goes through; default those of the runtime's, or of the first that is registered. */
  readonly executor?: Pick<Executor, "passes"> | undefined;
  /** Makes it a pipeline. */
  readonly pipeline?: PipelineOptions | undefined;
  /** A plan to go by, for the same graph: one with graphs is run as it is; of one without the layouts and the schedule are taken. */
  readonly plan?: Plan | PlanLayouts | undefined;
  /** Is told of each pass, in order; one after planning is told of for every class of devices and every body of a loop. */
  readonly onPass?: ((report: PassReport) => void) | undefined;
}
