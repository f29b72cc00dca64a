/** @module What `heddle plan` asks for: the step planned and lowered for a mesh that need not exist, as text. */
import { type PassReport, type PlannedPrograms, withSource } from "../compile/index.ts";
import { environmentMachine, machineFor } from "../cost/index.ts";
import { stablehloText } from "../hlo/index.ts";
import { deliverPlan } from "../launcher-messages/launcher.ts";
import { lowerProgram } from "../lower/index.ts";
import { type Mesh, type Plan, type PlanLayouts, type PlannedValue, printLayouts, printPlan } from "../plan/index.ts";
import { costOf, type DeviceProgram, printProgram } from "../program/index.ts";
import {
  deviceBytes,
  formatPlanReport,
  formatRanking,
  graphsAfter,
  type PlanReport,
  passesText,
  planReport,
  printPipeline,
  type TrainingMemory,
} from "../report/index.ts";
import { defaultThreads } from "../runtime/native/threads.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { formatBytes, formatTime } from "../util/text.ts";
import { shareOf, trainingMemory } from "./memory.ts";
import type { Settings } from "./options.ts";
import { planEvaluation, planInitialiser, planStep } from "./programs.ts";
import { planSummary, type SummaryInput } from "./summary.ts";
import { unusedAxes, unusedLines } from "./unused.ts";
import type { ModelTypes } from "./values.ts";

/** Hands over the plan and ends the process: nothing after `train` would have a model to work with. */
export async function planAndEnd(settings: Settings, types: ModelTypes, meshes: readonly Mesh[]): Promise<never> {
  const [mesh, ...others] = meshes as [Mesh, ...Mesh[]];
  await deliverPlan(others.length === 0 ? planText(settings, types, mesh) : rankedText(settings, types, meshes));
  process.exit(0);
}

/** Several meshes, the one with the least predicted time first. */
function rankedText(settings: Settings, types: ModelTypes, meshes: readonly Mesh[]): string {
  if (settings.pipeline !== undefined)
    throw new HeddleError("pipeline", "pipelines are not ranked", { hint: "give one --mesh at a time" });
  const reports = meshes
    .map((mesh) => reportOf(inputOf(settings, types, planStep(settings, types, mesh))))
    .sort((one, other) => one.cost.seconds - other.cost.seconds);
  return readEnvironment().planAs === "json"
    ? `${JSON.stringify(reports, null, 2)}\n`
    : formatRanking(reports, machineFor(1, settings.machine ?? environmentMachine()));
}

function planText(settings: Settings, types: ModelTypes, mesh: Mesh): string {
  const reports: PassReport[] = [];
  const planned = planStep(settings, types, mesh, undefined, (report) => reports.push(report));
  const { programs } = planned;
  const plan = withSource(planned.plan, planned.graph);
  const form = readEnvironment().planAs ?? "summary";
  if (form.startsWith("after:")) return graphsAfter(form.slice("after:".length), reports);
  const texts = {
    summary: () => summaryText(settings, types, planned),
    layouts: () => printLayouts(deciding(plan)),
    graph: () => printPlan(plan),
    program: () => programs.map(({ program }) => printProgram(program)).join("\n"),
    passes: () => passesText(reports),
    stablehlo: () => onePlan(plan, () => stablehloText(plan.local, { axes: mesh.axes })),
    json: () => onePlan(plan, () => `${JSON.stringify(reportOf(inputOf(settings, types, planned)), null, 2)}\n`),
  };
  return texts[form as keyof typeof texts]();
}

/** What only a plan of one program for all devices has. */
function onePlan({ pipeline }: Plan, text: () => string): string {
  if (pipeline === undefined) return text();
  throw new HeddleError("layout", "a pipeline is one program for each stage; this form has one for all devices", {
    hint: "leave out the option pipeline; the summary, --layouts, --graph and --program have pipelines, too",
  });
}

/** A plan without what follows from the rest: slots that are as their parameters, and outputs that are the next values of inputs. */
function deciding(plan: Plan): PlanLayouts {
  const text = ({ type, ...at }: PlannedValue): string => JSON.stringify([type, at.layout, at.stage]);
  const inputs = new Map(plan.inputs.map((value) => [value.name, text(value)]));
  const follows = (value: PlannedValue): boolean => {
    const name = /^optimizer\.[^.]+\.(.+)$/.exec(value.name)?.[1];
    return name !== undefined && inputs.get(`params.${name}`) === text(value);
  };
  const kept = plan.inputs.map((value) => !follows(value));
  return {
    ...plan,
    inputs: plan.inputs.filter((_value, index) => kept[index]),
    outputs: plan.outputs.filter((value) => inputs.get(value.name) !== text(value)),
    pipeline: plan.pipeline && { ...plan.pipeline, batch: plan.pipeline.batch.filter((_one, index) => kept[index]) },
  };
}

const reportOf = (input: SummaryInput): PlanReport =>
  planReport({ ...input, unusedAxes: unusedAxes(input.plan, input.rules) });

function inputOf(settings: Settings, types: ModelTypes, { plan, program }: PlannedPrograms): SummaryInput {
  const [memory] = predictedMemory(settings, types, plan.mesh) as [TrainingMemory];
  const { layoutRules: rules, machine = environmentMachine() } = settings;
  const threads = defaultThreads(1);
  return { plan, program, types, processes: 0, executor: "native", threads, memory, rules, machine };
}

function summaryText(settings: Settings, types: ModelTypes, planned: PlannedPrograms): string {
  const { plan, programs } = planned;
  if (plan.pipeline === undefined) {
    const input = inputOf(settings, types, planned);
    const report = reportOf(input);
    return formatPlanReport(report, plan, [...planSummary(input), ...unusedLines(report.unusedAxes)]);
  }
  const lines = predictedMemory(settings, types, plan.mesh).map((memory, rank) => {
    const { parameters, optimizer, state, step = 0, batches, batchCount, dataset } = memory;
    const parts = [
      `${formatBytes(parameters + optimizer + state)} parameters and optimizer state`,
      `${formatBytes(step)} for the step`,
      `${formatBytes(batches)} for ${batchCount} ${batchCount === 1 ? "batch" : "batches"}`,
      ...(dataset === 0 ? [] : [`${formatBytes(dataset)} dataset`]),
    ];
    return `memory of rank ${rank}: ${formatBytes(deviceBytes(memory) + dataset)}: ${parts.join(", ")}\n`;
  });
  const { seconds } = costOf(
    programs.map(({ program }) => program),
    settings.machine ?? environmentMachine(),
  );
  return `${printPipeline(plan, programs)}${lines.join("")}predicted: ${formatTime(seconds)} for a step\n`;
}

/**
 * Predicts the memory of a training, with native kernels: of the device that holds most, or, of a pipeline, of each rank of
 * the axis of stages.
 */
export function predictedMemory(settings: Settings, types: ModelTypes, mesh: Mesh): TrainingMemory[] {
  const { data, evaluate, pipeline } = settings;
  // The scratch of some kernels goes by the number of threads.
  const slots = defaultThreads(1);
  const work = (programs: readonly DeviceProgram[]): number =>
    Math.max(...programs.map(({ program }) => lowerProgram(program, { slots }).workBytes));
  const steps = data.batchSizes.map((rows) => planStep(settings, types, mesh, rows));
  const evaluations = (evaluate?.batchSizes ?? []).map((rows) =>
    planEvaluation(settings, evaluate as NonNullable<typeof evaluate>, types, mesh, rows),
  );
  const all = [planInitialiser(settings, types, mesh), ...steps, ...evaluations];
  const [step, evaluation] = [steps[0] as PlannedPrograms, evaluations[0]];
  return (pipeline === undefined ? [step.program] : step.programs).map((_one, rank) => {
    const device = step.programs[rank]?.devices[0] as number;
    const own = ({ programs }: PlannedPrograms): readonly DeviceProgram[] =>
      pipeline === undefined ? programs : programs.filter(({ devices }) => devices.includes(device));
    const share = (planned: PlannedPrograms) => shareOf(planned.plan, own(planned)[0] as DeviceProgram);
    return trainingMemory(settings, {
      step: share(step),
      evaluation: evaluation === undefined ? undefined : share(evaluation),
      workBytes: work(all.flatMap(own)),
    });
  });
}
