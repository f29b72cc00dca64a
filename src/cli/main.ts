/** @module The `heddle` command: one file per subcommand. */

import { Command, CommanderError } from "commander";
import { HeddleError } from "../util/errors.ts";
import { version } from "../util/version.ts";
import { agentCommand } from "./agent.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

/** The commands by name, in the order of the help. Each is loaded when it is needed, since its modules take longer than Node's own start. */
const commands: Readonly<Record<string, () => Promise<(context: CommandContext) => Command>>> = {
  run: async () => (await import("./run.ts")).runCommand,
  script: async () => (await import("./script.ts")).scriptCommand,
  plan: async () => (await import("./plan.ts")).planCommand,
  export: async () => (await import("./export.ts")).exportCommand,
  profile: async () => (await import("./profile.ts")).profileCommand,
  data: async () => (await import("./data.ts")).dataCommand,
  checkpoint: async () => (await import("./checkpoint.ts")).checkpointCommand,
  machine: async () => (await import("./machine.ts")).machineCommand,
  launch: async () => (await import("./launch.ts")).launchCommand,
  switch: async () => (await import("./switch.ts")).switchCommand,
  keys: async () => (await import("./keys.ts")).keysCommand,
  worker: async () => (await import("./worker.ts")).workerCommand,
  doctor: async () => (await import("./doctor.ts")).doctorCommand,
  bench: async () => (await import("./bench.ts")).benchCommand,
};

/** The command that `heddle run --servers` starts. */
const internal = "serve";
const serve = async () => (await import("./serve.ts")).serveCommand;

const examples = `
Examples:
  heddle run train.ts --workers 4            the file in four processes, as with torchrun
  heddle run train.ts --hosts a,b:2          on two hosts, by ssh
  heddle plan train.ts --mesh data=2         what would be sharded, its cost and memory; nothing is run
  heddle profile train.ts --steps 50         where the time of its training steps goes
  heddle checkpoint verify run               read the checkpoints in a folder, and compare their hashes
  heddle data stats people.csv               what a file of records holds, column by column
  heddle doctor                              check this machine and this project
`;

/** Runs the command line; resolves with the exit status: 0, 1 for a failure, 2 for a wrong command line. */
export async function main(args: readonly string[]): Promise<number> {
  let status: number = exitStatus.ok;
  const finish = (result: number) => {
    status = result;
  };
  const pipe = watchOutput();
  const program = await heddleCommand({ finish, signal: pipe.signal }, namesFor(args[0]));
  const outcome = await runProgram(args, program, () => status);
  return pipe.signal.aborted ? exitStatus.brokenPipe : outcome;
}

async function runProgram(args: readonly string[], program: Command, status: () => number): Promise<number> {
  try {
    if (args.length === 0) {
      program.outputHelp();
      return exitStatus.usage;
    }
    await program.parseAsync(args, { from: "user" });
    return status();
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.ok : exitStatus.usage;
    if (!(error instanceof HeddleError)) throw error;
    console.error(`heddle: ${error.message}`);
    return usageErrors.has(error.code) ? exitStatus.usage : exitStatus.failure;
  }
}

/** Codes of errors that are in the command line, the files that it names, or the environment. */
const usageErrors: ReadonlySet<string> = new Set(["file", "parse", "option", "environment", "launcher"]);

/** A signal that fires when the reader of the output is gone, which is no error: `heddle plan … | head -1`. */
function watchOutput(): { readonly signal: AbortSignal } {
  const gone = new AbortController();
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      // The message may come after the command is done.
      process.exitCode = exitStatus.brokenPipe;
      gone.abort();
    });
  }
  return gone;
}

/** The commands that a command line needs: the named one, or all. */
const namesFor = (first: string | undefined): readonly string[] =>
  first !== undefined && (first === internal || Object.hasOwn(commands, first)) ? [first] : Object.keys(commands);

/** The command with some of its subcommands. */
async function heddleCommand(context: CommandContext, names: readonly string[]): Promise<Command> {
  const program = new Command("heddle")
    .description("Distributed machine learning for TypeScript.")
    .version(version, "-v, --version", "print the version")
    .helpOption("-h, --help", "show this text, or that of a command")
    .addHelpText("after", examples)
    .showHelpAfterError("(heddle --help lists the commands)")
    .enablePositionalOptions();
  const makers = await Promise.all(names.map((name) => (name === internal ? serve() : commands[name]?.())));
  for (const command of makers.flatMap((make) => make?.(context) ?? [])) {
    program.addCommand(command.copyInheritedSettings(program), { hidden: command.name() === internal });
    command.showHelpAfterError(`(heddle ${command.name()} --help says what it takes)`);
  }
  program.addCommand(agentCommand(context), { hidden: true });
  for (const command of [program, ...program.commands.flatMap((command) => [command, ...command.commands])]) {
    // Errors are thrown to `main`, which gives the status; commander has printed them by then.
    command.exitOverride().configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, "heddle: ")),
    });
  }
  return program;
}
