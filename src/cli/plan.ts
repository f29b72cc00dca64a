/** @module `heddle plan`: how a file's training step would be spread over devices, without running it. */

import { Command, Option } from "commander";
import type { PlanForm } from "../launch/environment.ts";
import { launchLocal } from "../launch/local.ts";
import { HeddleError } from "../util/errors.ts";
import { meshText } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { machineFlag, machineOption } from "./machine-file.ts";
import { report } from "./run.ts";
import { exitStatus } from "./status.ts";

const notes = `
The file runs up to its call of train(); what it prints until then goes to the error stream, the plan of the training
step to the output, and nothing is trained. No device of the mesh has to exist. Devices that are not equally fast get
shares: data=2:1 is two devices, the first with two thirds of a batch. For functions that are not trained, planFunction
of heddle with printPlan of heddle/plan prints plans from code.
`;

/** Flags of `heddle plan`, as commander hands them over. */
interface PlanFlags {
  readonly mesh: readonly string[];
  readonly machine?: string;
  readonly graph?: boolean;
  readonly program?: boolean;
  readonly json?: boolean;
}

/** The `plan` command. */
export function planCommand({ finish, signal }: CommandContext): Command {
  return new Command("plan")
    .summary("print how a file would be spread over devices")
    .description("Prints the plan of a file's training step: what is sharded, what is communicated, memory and cost.")
    .argument("<file>", "the file that would be run")
    .argument("[args...]", "arguments for the file, after --")
    .requiredOption(
      "-m, --mesh <axes>",
      "named axes with their sizes, such as data=8,model=4 (required); several are ranked by predicted time",
      (text: string, given: readonly string[] = []) => [...given, meshText(text)],
    )
    .addOption(machineFlag())
    .addOption(new Option("--graph", "print the graph of one device instead").conflicts(["program", "json"]))
    .addOption(new Option("--program", "print the program of one device instead").conflicts(["graph", "json"]))
    .addOption(new Option("--json", "machine-readable").conflicts(["graph", "program"]))
    .addHelpText("after", notes)
    .action(async (file: string, args: string[], { mesh, machine, graph, program, json }: PlanFlags) => {
      const planAs: PlanForm = graph ? "graph" : program ? "program" : json ? "json" : "summary";
      if (mesh.length > 1 && (graph || program))
        throw new HeddleError("option", "several meshes are ranked: give one --mesh for a graph or a program");
      const plan = mesh.join(";");
      const result = await launchLocal({ file, args, plan, planAs, signal, ...machineOption({ machine }) });
      report(result, 1, signal);
      if (result.plan !== undefined) process.stdout.write(result.plan);
      else if (result.status === exitStatus.ok) {
        console.error(
          `heddle: ${file} ended without calling train(), so there is no training step to plan\n` +
            "  hint: it ran as it is; give the file that calls train(), or use planFunction(fn, example, mesh) in code",
        );
        return finish(exitStatus.failure);
      }
      finish(result.status);
    });
}
