/** @module `heddle export`: a file's training step in the language of another system. */

import { Command, Option } from "commander";
import { writeBytes } from "../io/write.ts";
import { launchLocal } from "../launch/local.ts";
import { meshText } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { report } from "./run.ts";
import { exitStatus } from "./status.ts";

const notes = `
The file runs up to its call of train(), as for heddle plan; what it prints until then goes to the error stream. The training step
goes to the output, or to a file: for one device, or with --mesh for each of several, as replicas with collectives. For
functions that are not trained, stablehlo(fn, example) of heddle gives the text in code.
`;

interface ExportFlags {
  readonly to: "stablehlo";
  readonly mesh: string;
  readonly output?: string;
}

/** The `export` command. */
export function exportCommand({ finish, signal }: CommandContext): Command {
  return new Command("export")
    .summary("write a file's training step for another system")
    .description("Writes the graph of a file's training step as text: StableHLO, which XLA compiles.")
    .argument("<file>", "the file that would be run")
    .argument("[args...]", "arguments for the file, after --")
    .addOption(new Option("--to <language>", "the language (required)").choices(["stablehlo"]).makeOptionMandatory())
    .option("-m, --mesh <axes>", "named axes with their sizes, such as data=8", meshText, "data=1")
    .option("-o, --output <path>", "the file to write (default: the output)")
    .addHelpText("after", notes)
    .action(async (file: string, args: string[], { to, mesh, output }: ExportFlags) => {
      const result = await launchLocal({ file, args, plan: mesh, planAs: to, signal });
      report(result, 1, signal);
      if (result.plan === undefined) {
        if (result.status !== exitStatus.ok) return finish(result.status);
        console.error(
          `heddle: ${file} ended without calling train(), so there is no training step to export\n` +
            "  hint: give the file that calls train(), or use stablehlo(fn, example) in code",
        );
        return finish(exitStatus.failure);
      }
      if (output === undefined) process.stdout.write(result.plan);
      else await writeBytes("export", output, Buffer.from(result.plan));
      finish(result.status);
    });
}
