/** @module `heddle plan`: how a file's training step would be spread over devices, without running it. */

import { Command } from "commander";
import { launchLocal } from "../launch/local.ts";
import { meshText } from "./arguments.ts";
import { report } from "./run.ts";

const notes = `
The file runs up to its first training step; the plan of that step is printed and nothing is trained. No device of the
mesh has to exist. Devices that are not equally fast get shares: data=2:1 is two devices, the first with two thirds of a batch.
`;

/** The `plan` command. */
export function planCommand(finish: (status: number) => void): Command {
  return new Command("plan")
    .summary("print how a file would be spread over devices")
    .description("Prints the plan of a file's training step: what is sharded, what is communicated, cost and memory.")
    .argument("<file>", "the file that would be run")
    .argument("[args...]", "arguments for the file, after --")
    .requiredOption("-m, --mesh <axes>", "named axes with their sizes, such as data=8,model=4", meshText)
    .addHelpText("after", notes)
    .action(async (file: string, args: string[], { mesh }: { mesh: string }) => {
      const result = await launchLocal({ file, args, plan: mesh });
      report(result, 1);
      finish(result.status);
    });
}
