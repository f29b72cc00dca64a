/** @module `train` under `heddle plan`: plans the step, sends the text to the launcher and ends the process. */
import type { PassReport } from "../compile/index.ts";
import { environmentMachine } from "../cost/index.ts";
import { defaultThreads } from "../executors/native/threads.ts";
import { deliverPlan } from "../launcher-messages/launcher.ts";
import { deviceCount, type Mesh } from "../plan/index.ts";
import { type PlannedStep, planText, rankedText } from "../report/text.ts";
import { executorNamed } from "../runtime/registry.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { forMesh } from "./for-mesh.ts";
import { layoutAxes } from "./layouts.ts";
import { localLines, localTraining, meetingBytes, wholeTraining } from "./local-training.ts";
import { predictedMemory } from "./memory.ts";
import { isOnServers } from "./on-servers.ts";
import type { Settings } from "./options.ts";
import { planStep } from "./programs.ts";
import { serverLines, workerMesh, workerTraining } from "./server-plan.ts";
import type { ModelTypes } from "./values.ts";

/** Sends the plan to the launcher and ends the process: the code after `train` would have no trained model. */
export async function planAndEnd(settings: Settings, types: ModelTypes, meshes: readonly Mesh[]): Promise<never> {
  if (meshes.length > 1 && settings.pipeline !== undefined)
    throw new HeddleError("pipeline", "pipelines are not ranked", { hint: "give one --mesh at a time" });
  const { executor, planAs: form = "summary" } = readEnvironment();
  if (executor !== undefined) executorNamed(executor);
  if (isOnServers(settings)) {
    const [mesh] = meshes as [Mesh];
    // What a worker computes, and what it exchanges with the servers.
    const worker = workerTraining(settings, 0, deviceCount(mesh));
    const text = planText(plannedStep(worker.settings, worker.types, workerMesh), form);
    const lines =
      form === "summary" ? serverLines(settings, types, mesh, settings.machine ?? environmentMachine()) : [];
    await deliverPlan([text.trimEnd(), ...lines, ""].join("\n"));
    process.exit(0);
  }
  if (settings.localSteps !== undefined) {
    const [mesh] = meshes as [Mesh];
    const own = localTraining(settings, 0, deviceCount(mesh));
    const whole = wholeTraining(settings, deviceCount(mesh));
    const text = planText(plannedStep(own.settings, own.types, workerMesh), form);
    const bytes = meetingBytes(whole.settings, whole.types, mesh);
    const lines = form === "summary" ? localLines(whole.settings, deviceCount(mesh), bytes) : [];
    await deliverPlan([text.trimEnd(), ...lines, ""].join("\n"));
    process.exit(0);
  }
  const steps = meshes.map((mesh) => plannedStep(settings, types, mesh));
  await deliverPlan(steps.length === 1 ? planText(steps[0] as PlannedStep, form) : rankedText(steps, form));
  process.exit(0);
}

function plannedStep(given: Settings, givenTypes: ModelTypes, mesh: Mesh): PlannedStep {
  const { settings, types } = forMesh(given, givenTypes, mesh);
  const passes: PassReport[] = [];
  return {
    planned: planStep(settings, types, mesh, undefined, (report) => passes.push(report)),
    passes,
    memory: () => predictedMemory(settings, types, mesh, defaultThreads(1)),
    layoutAxes: layoutAxes(settings.layoutRules),
    machine: settings.machine ?? environmentMachine(),
  };
}
