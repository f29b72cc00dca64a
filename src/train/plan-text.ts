/** @module What `heddle plan` asks for: the step planned and lowered for a mesh that need not exist, as text. */
import { environmentMachine, machineFor } from "../cost/index.ts";
import { deliverPlan } from "../launcher-messages/launcher.ts";
import { lowerProgram } from "../lower/index.ts";
import { type Mesh, printPlan } from "../plan/index.ts";
import {
  costOf,
  type PipelinePlan,
  type Program,
  printPipeline,
  printProgram,
  stablehloText,
} from "../program/index.ts";
import { defaultThreads } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { formatBytes } from "../util/text.ts";
import type { ModelTypes } from "./functions.ts";
import { deviceBytes, shareOf, stageShare, type TrainingMemory, trainingMemory } from "./memory.ts";
import type { PipelineTraining, Settings } from "./options.ts";
import { formatPlanReport, formatRanking, formatTime, planReport } from "./plan-report.ts";
import { planEvaluation, planInitialiser, planPipelineStep, planStep } from "./programs.ts";
import type { SummaryInput } from "./summary.ts";

/** Hands over the plan and ends the process: nothing after `train` would have a model to work with. */
export async function planAndEnd(settings: Settings, types: ModelTypes, meshes: readonly Mesh[]): Promise<never> {
  const [mesh, ...others] = meshes as [Mesh, ...Mesh[]];
  await deliverPlan(others.length === 0 ? planText(settings, types, mesh) : rankedText(settings, types, meshes));
  process.exit(0);
}

/** What there is to say of a step on a mesh. */
function planned(settings: Settings, types: ModelTypes, mesh: Mesh): SummaryInput {
  const { plan, program } = planStep(settings, types, mesh);
  const [memory] = predictedMemory(settings, types, mesh) as [TrainingMemory];
  const { layoutRules: rules, machine = environmentMachine() } = settings;
  const threads = defaultThreads(1);
  return { plan, program, types, processes: 0, executor: "native", threads, memory, rules, machine };
}

/** Several meshes, the one with the least predicted time first. */
function rankedText(settings: Settings, types: ModelTypes, meshes: readonly Mesh[]): string {
  if (settings.pipeline !== undefined)
    throw new HeddleError("pipeline", "pipelines are not ranked", { hint: "give one --mesh at a time" });
  const reports = meshes
    .map((mesh) => planReport(planned(settings, types, mesh)))
    .sort((one, other) => one.cost.seconds - other.cost.seconds);
  return readEnvironment().planAs === "json"
    ? `${JSON.stringify(reports, null, 2)}\n`
    : formatRanking(reports, machineFor(1, settings.machine ?? environmentMachine()));
}

function planText(settings: Settings, types: ModelTypes, mesh: Mesh): string {
  if (settings.pipeline !== undefined) return pipelineText(settings, settings.pipeline, types, mesh);
  const input = planned(settings, types, mesh);
  const { plan, program } = input;
  const texts = {
    summary: () => formatPlanReport(input),
    graph: () => printPlan(plan),
    program: () => printProgram(program),
    stablehlo: () => stablehloText(plan.local, { axes: plan.mesh.axes }),
    json: () => `${JSON.stringify(planReport(input), null, 2)}\n`,
  };
  return texts[readEnvironment().planAs ?? "summary"]();
}

function pipelineText(settings: Settings, pipeline: PipelineTraining, types: ModelTypes, mesh: Mesh): string {
  if (readEnvironment().planAs === "stablehlo")
    throw new HeddleError("layout", "a pipeline is one program for each stage, and StableHLO has one for all devices", {
      hint: "export the training without the option pipeline",
    });
  const { plan } = planPipelineStep(settings, pipeline, types, mesh);
  const lines = predictedMemory(settings, types, mesh).map((memory, rank) => {
    const { parameters, optimizer, state, step = 0, batches, batchCount, dataset } = memory;
    const parts = [
      `${formatBytes(parameters + optimizer + state)} parameters and optimizer state`,
      `${formatBytes(step)} for the step`,
      `${formatBytes(batches)} for ${batchCount} ${batchCount === 1 ? "batch" : "batches"}`,
      ...(dataset === 0 ? [] : [`${formatBytes(dataset)} dataset`]),
    ];
    return `memory of rank ${rank}: ${formatBytes(deviceBytes(memory) + dataset)}: ${parts.join(", ")}\n`;
  });
  const { machine = environmentMachine() } = settings;
  const { seconds } = costOf(
    plan.ranks.map(({ program }) => program),
    machine,
  );
  return `${printPipeline(plan)}${lines.join("")}predicted: ${formatTime(seconds)} for a step\n`;
}

/**
 * Predicts the memory of a training, with native kernels: of the device that holds most, or, of a pipeline, of each rank of
 * the axis of stages.
 */
export function predictedMemory(settings: Settings, types: ModelTypes, mesh: Mesh): TrainingMemory[] {
  const { data, evaluate, pipeline } = settings;
  // The scratch of some kernels goes by the number of threads.
  const slots = defaultThreads(1);
  const work = (programs: readonly Program[]): number =>
    Math.max(...programs.map((program) => lowerProgram(program, { slots }).workBytes));
  const initialisers = planInitialiser(settings, types, mesh);
  const evaluations = (evaluate?.batchSizes ?? []).map((rows) =>
    planEvaluation(settings, evaluate as NonNullable<typeof evaluate>, types, mesh, rows),
  );
  if (pipeline === undefined) {
    const steps = data.batchSizes.map((rows) => planStep(settings, types, mesh, rows));
    const planned = evaluations.flatMap((one) => ("programs" in one ? [one] : []));
    const [step, evaluation] = [steps[0] as (typeof steps)[number], planned[0]];
    const workBytes = work([...initialisers, ...[...steps, ...planned].flatMap(({ programs }) => programs)]);
    const share = evaluation === undefined ? undefined : shareOf(evaluation.plan, evaluation.program);
    return [trainingMemory(settings, { step: shareOf(step.plan, step.program), evaluation: share, workBytes })];
  }
  const steps = data.batchSizes.map((rows) => planPipelineStep(settings, pipeline, types, mesh, rows).plan);
  const planned = evaluations.flatMap((one): PipelinePlan[] => ("programs" in one ? [] : [one.plan]));
  const [step, evaluation] = [steps[0] as PipelinePlan, planned[0]];
  return step.ranks.map((_rank, rank) => {
    const own = [...steps, ...planned].map(({ ranks }) => ranks[rank]?.program as Program);
    return trainingMemory(settings, {
      step: stageShare(step, rank),
      evaluation: evaluation === undefined ? undefined : stageShare(evaluation, rank),
      workBytes: work([initialisers[rank] as Program, ...own]),
    });
  });
}
