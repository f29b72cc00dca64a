/** @module The programs of a plan: one for each class of devices, or, of a pipeline, for each place on its axis of stages. */
import { range } from "../ir/shape.ts";
import { coordinatesOf } from "../plan/mesh.ts";
import { stageAxis } from "../plan/pipeline/index.ts";
import type { Plan } from "../plan/plan.ts";
import type { PartProgram } from "./builder.ts";
import { pipelinePrograms } from "./pipeline.ts";
import { splitGraph } from "./split.ts";
import { verifyTogether } from "./verify.ts";

/** What some devices of a mesh run. */
export interface DeviceProgram extends PartProgram {
  /** Numbers of the devices, ascending. */
  readonly devices: readonly number[];
}

/**
 * Makes the programs of a plan, that of device 0 first. Equal plans give equal programs.
 *
 * @param donated for each output the index of the input whose buffer it takes over; default: none does
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
  const programs = classes.map(({ devices, local, ...own }): DeviceProgram => {
    const inputs = own.inputs ?? range(plan.inputs.length);
    const outputs = own.outputs ?? range(plan.outputs.length);
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
  // Devices that make the same values meet in the same collectives.
  const made = ({ outputs }: DeviceProgram): string => outputs.join();
  for (const key of new Set(programs.map(made)))
    verifyTogether(programs.filter((one) => made(one) === key).map(({ program }) => program));
  return programs;
}
