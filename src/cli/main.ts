/** @module The `heddle` command: one file per subcommand. */

import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import { HeddleError } from "../util/errors.ts";
import { doctorCommand } from "./doctor.ts";
import { planCommand } from "./plan.ts";
import { profileCommand } from "./profile.ts";
import { runCommand } from "./run.ts";
import { exitStatus } from "./status.ts";

const examples = `
Examples:
  heddle run train.ts --workers 4            the file in four processes, as with torchrun
  heddle plan train.ts --mesh data=2         what would be sharded, its cost and memory; nothing is run
  heddle profile train.ts --steps 50         where the time of its training steps goes
  heddle doctor                              what this machine has, and what is missing
`;

/** Runs the command line; resolves with the exit status: 0, 1 for a failure, 2 for a wrong command line. */
export async function main(args: readonly string[]): Promise<number> {
  let status: number = exitStatus.ok;
  const finish = (result: number) => {
    status = result;
  };
  const program = heddleCommand(finish);
  try {
    if (args.length === 0) {
      program.outputHelp();
      return exitStatus.usage;
    }
    await program.parseAsync(args, { from: "user" });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.ok : exitStatus.usage;
    if (!(error instanceof HeddleError)) throw error;
    console.error(`heddle: ${error.message}`);
    return error.code === "file" || error.code === "option" ? exitStatus.usage : exitStatus.failure;
  }
}

/** The whole command, for the command line and for documentation. */
export function heddleCommand(finish: (status: number) => void): Command {
  const { version } = createRequire(import.meta.url)("../../package.json") as { version: string };
  const program = new Command("heddle")
    .description("Distributed machine learning for TypeScript.")
    .version(version, "-v, --version", "print the version")
    .helpOption("-h, --help", "show this text, or that of a command")
    .addHelpText("after", examples)
    .showHelpAfterError("(heddle --help lists what there is)")
    .enablePositionalOptions();
  for (const command of [runCommand(finish), planCommand(finish), profileCommand(finish), doctorCommand(finish)]) {
    program.addCommand(command.copyInheritedSettings(program));
  }
  for (const command of [program, ...program.commands]) {
    // Errors are thrown to `main`, which gives the status; commander has printed them by then.
    command.exitOverride().configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, "heddle: ")),
    });
  }
  return program;
}
