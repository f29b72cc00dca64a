/** @module `heddle launch`: the job of a run, written for the commands of an engine. */
import { writeFileSync } from "node:fs";
import { Command } from "commander";
import type { Engine, JobWriter } from "../launch/engines/engine.ts";
import { engines } from "../launch/engines/table.ts";
import { HeddleError } from "../util/errors.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

/** The options of every engine, and those of one. */
interface LaunchFlags {
  readonly workers: number;
  readonly out?: string;
  readonly [name: string]: string | number | undefined;
}

/** The `launch` command. */
export function launchCommand({ finish }: CommandContext): Command {
  const command = new Command("launch")
    .summary("write the job of a run for Slurm or Kubernetes")
    .description("Writes the job of a run for an engine's own commands. Nothing is started.");
  for (const engine of engines)
    if (engine.job !== undefined) command.addCommand(engineCommand(engine, engine.job, finish));
  return command;
}

function engineCommand(engine: Engine, job: JobWriter, finish: (status: number) => void): Command {
  const command = new Command(engine.name)
    .summary(`a job of ${engine.title}`)
    .description(`Writes a job of ${engine.title}. Start it with: ${job.use}`)
    .argument("<file>", "the file to run")
    .argument("[args...]", "arguments for the file, after --")
    .requiredOption("-n, --workers <number>", "worker processes", wholeNumber(1, 1024))
    .option("-o, --out <file>", "where to write (default: the output)");
  for (const { flags, says, default: value } of job.options)
    command.option(flags, value === undefined ? says : `${says} (default: ${value})`);
  return command.action((file: string, args: string[], { workers, out, ...flags }: LaunchFlags) => {
    const text = job.write({ file, args, workers, options: flags as { readonly [name: string]: string | undefined } });
    if (out === undefined) process.stdout.write(text);
    else writeOut(out, text);
    finish(exitStatus.ok);
  });
}

function writeOut(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw new HeddleError("file", `${path} cannot be written: ${(error as Error).message}`, { cause: error });
  }
}
