/** @module What `heddle plan` prints of a step that was planned and lowered for a mesh that need not exist, in each of its forms. */
import { type PassReport, type Planned, withSource } from "../compile/index.ts";
import { type Machine, machineFor } from "../cost/index.ts";
import { stablehloText } from "../hlo/index.ts";
import { type Plan, type PlanLayouts, type PlannedValue, printLayouts, printPlan } from "../plan/index.ts";
import { printProgram } from "../program/index.ts";
import { HeddleError } from "../util/errors.ts";
import type { TrainingMemory } from "./memory.ts";
import { graphsAfter, passesText } from "./passes.ts";
import { printPipeline, printPrediction, printRankMemory } from "./pipeline.ts";
import { formatPlanReport, formatRanking, type PlanReport, planReport } from "./plan.ts";
import { planSummary } from "./summary.ts";
import { unusedAxes, unusedLines } from "./unused.ts";

/** A step that is planned and not run. */
export interface PlannedStep {
  readonly planned: Planned;
  /** The passes that it went through. */
  readonly passes: readonly PassReport[];
  /**
   * The memory of the device that holds most, or of each rank of the stage axis in a pipeline. A function, since it
   * lowers all programs.
   */
  readonly memory: () => readonly TrainingMemory[];
  /** The axes that the rules for parameters split over, where the mesh has them. */
  readonly layoutAxes: readonly string[];
  /** The machine that the plan was made for; default: the machine that plans assume. */
  readonly machine?: Machine | undefined;
}

/** Several steps, the one with the least predicted time first, as a table or as JSON. */
export function rankedText(steps: readonly PlannedStep[], form: string): string {
  const reports = steps.map(reportOf).sort((left, right) => left.cost.seconds - right.cost.seconds);
  return form === "json"
    ? `${JSON.stringify(reports, null, 2)}\n`
    : formatRanking(reports, machineFor(1, steps[0]?.machine));
}

/**
 * One step in a form: `"summary"`, `"layouts"`, `"graph"`, `"program"`, `"passes"`, `"stablehlo"`, `"json"`, or the graphs after a pass,
 * as `"after:simplify"`.
 *
 * @throws HeddleError `layout` for a form that pipelines do not have
 */
export function planText(step: PlannedStep, form: string): string {
  const { planned, passes } = step;
  const plan = withSource(planned.plan, planned.graph);
  if (form.startsWith("after:")) return graphsAfter(form.slice("after:".length), passes);
  const texts = {
    summary: () => summaryText(step),
    layouts: () => printLayouts(deciding(plan)),
    graph: () => printPlan(plan),
    program: () => planned.programs.map(({ program }) => printProgram(program)).join("\n"),
    passes: () => passesText(passes),
    stablehlo: () => onePlan(plan, () => stablehloText(plan.local, { axes: plan.mesh.axes })),
    json: () => onePlan(plan, () => `${JSON.stringify(reportOf(step), null, 2)}\n`),
  };
  return texts[form as keyof typeof texts]();
}

/** A text that only a plan with one program for all devices has. @throws HeddleError `layout` for a pipeline. */
function onePlan({ pipeline }: Plan, text: () => string): string {
  if (pipeline === undefined) return text();
  throw new HeddleError("layout", "a pipeline is one program for each stage; this form has one for all devices", {
    hint: "leave out the option pipeline; the summary, --layouts, --graph and --program have pipelines, too",
  });
}

/**
 * A plan without the values that follow from others: slots that are placed as their parameters, and outputs that are
 * the next values of inputs.
 */
function deciding(plan: Plan): PlanLayouts {
  const text = ({ type, ...at }: PlannedValue): string => JSON.stringify([type, at.layout, at.stage]);
  const inputs = new Map(plan.inputs.map((value) => [value.name, text(value)]));
  const follows = (value: PlannedValue): boolean => {
    const name = /^optimizer\.[^.]+\.(.+)$/.exec(value.name)?.[1];
    return name !== undefined && inputs.get(`params.${name}`) === text(value);
  };
  const shown = plan.inputs.map((value) => !follows(value));
  return {
    ...plan,
    inputs: plan.inputs.filter((_value, index) => shown[index]),
    outputs: plan.outputs.filter((value) => inputs.get(value.name) !== text(value)),
    pipeline: plan.pipeline && { ...plan.pipeline, batch: plan.pipeline.batch.filter((_one, index) => shown[index]) },
  };
}

function reportOf({ planned: { plan, program }, memory, layoutAxes, machine }: PlannedStep): PlanReport {
  const [held] = memory() as [TrainingMemory];
  return planReport({ plan, program, memory: held, unusedAxes: unusedAxes(plan, layoutAxes), machine });
}

function summaryText(step: PlannedStep): string {
  const { planned, memory, machine } = step;
  const { plan, program, programs } = planned;
  if (plan.pipeline === undefined) {
    const report = reportOf(step);
    const lines = planSummary({ plan, program, memory: report.memory });
    return formatPlanReport(report, plan, [...lines, ...unusedLines(report.unusedAxes)]);
  }
  const lines = [...memory().map(printRankMemory), printPrediction(programs, machine), ""];
  return `${printPipeline(plan, programs)}${lines.join("\n")}`;
}
