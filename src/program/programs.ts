/** @module The programs of a plan: one for each class of devices, or in a pipeline for each rank on its axis of stages. */
import { range } from "../ir/shape.ts";
import { coordinatesOf } from "../plan/mesh.ts";
import { stageAxis } from "../plan/pipeline/index.ts";
import type { Plan } from "../plan/plan.ts";
import type { PartProgram } from "./builder.ts";
import { pipelinePrograms } from "./pipeline.ts";
import { splitGraph } from "./split.ts";
import { verifySameCollectives } from "./verify.ts";

/** The program that some devices of a mesh run. */
export interface DeviceProgram extends PartProgram {
  /** Numbers of the devices, ascending. */
  readonly devices: readonly number[];
}

/**
 * Makes the programs of a plan, device 0's first. Equal plans give equal programs.
 *
 * @param donated for each output the index of the input whose buffer it takes over; default: none
 * @throws HeddleError `schedule` or `pipeline` when a pipeline cannot run.
 */
export function cutPlan(plan: Plan, donated: readonly (number | undefined)[] = []): DeviceProgram[] {
  const { pipeline, mesh, classes } = plan;
  if (pipeline !== undefined) {
    const axis = mesh.axes.findIndex(({ name }) => name === stageAxis);
    const all = classes.flatMap(({ devices }) => devices);
    return pipelinePrograms(plan, pipeline, donated).map((part, rank) => ({
      ...part,
      devices: all.filter((device) => coordinatesOf(mesh, device)[axis] === rank),
    }));
  }
  const programs = classes.map(({ devices, local, ...indices }): DeviceProgram => {
    const inputs = indices.inputs ?? range(plan.inputs.length);
    const outputs = indices.outputs ?? range(plan.outputs.length);
    const program = splitGraph(local, mesh.axes, {
      name: plan.name,
      outputNames: outputs.map((output) => (plan.outputs[output] as Plan["outputs"][number]).name),
      donated: outputs.map((output) => {
        const donor = inputs.indexOf(donated[output] ?? -1);
        return donor < 0 ? undefined : donor;
      }),
    });
    return { devices, program, inputs, outputs };
  });
  // Devices that compute the same outputs run the same collectives.
  const outputsKey = ({ outputs }: DeviceProgram): string => outputs.join();
  for (const key of new Set(programs.map(outputsKey)))
    verifySameCollectives(programs.filter((program) => outputsKey(program) === key).map(({ program }) => program));
  return programs;
}
