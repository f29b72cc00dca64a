/** @module `heddle plan`: how a file's training step would be spread over devices, without running it. */

import { Command, Option } from "commander";
import { readPlan } from "../io/plan-file.ts";
import { launchLocal } from "../launch/local.ts";
import { diffPlans } from "../report/index.ts";
import { HeddleError } from "../util/errors.ts";
import type { PlanForm } from "../util/settings.ts";
import { listed } from "../util/text.ts";
import { compressionFlag, meshText, wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { machineFlag, machineOption } from "./machine-file.ts";
import { report } from "./run.ts";
import { exitStatus } from "./status.ts";

const notes = `
The file runs up to its call of train(); what it prints until then goes to the error stream, the plan of the training
step to the output, and nothing is trained. No device of the mesh has to exist. Devices that are not equally fast get
shares: data=2:1 is two devices, the first with two thirds of a batch. For functions that are not trained, planFunction
of heddle with printPlan of heddle/plan prints plans from code.

What --layouts or --graph prints can be edited, and heddle run --plan trains by it (docs/plans.md). Two such texts are
compared by heddle plan --diff a.plan b.plan.
`;

const forms = ["layouts", "graph", "program", "passes", "json"] as const;

/** Flags of `heddle plan`, as commander hands them over. */
type PlanFlags = { readonly [Form in (typeof forms)[number]]?: boolean } & {
  readonly mesh?: readonly string[];
  readonly compression?: string;
  readonly servers?: number;
  readonly policy?: string;
  readonly machine?: string;
  readonly threads?: number;
  readonly after?: string;
  readonly diff?: boolean;
};

/** The `plan` command. */
export function planCommand({ finish, signal }: CommandContext): Command {
  const form = (flags: string, says: string) => {
    const option = new Option(flags, says);
    return option.conflicts([...forms, "after", "diff"].filter((other) => other !== option.attributeName()));
  };
  const command = new Command("plan")
    .summary("print how a file would be spread over devices")
    .description("Prints the plan of a file's training step: what is sharded, what is communicated, memory and cost.")
    .argument("<file>", "the file that would be run; with --diff the first of two plans")
    .argument("[args...]", "arguments for the file, after --; with --diff the second plan")
    .option(
      "-m, --mesh <axes>",
      "named axes with their sizes, such as data=8,model=4 (required); several, each with --mesh, are ranked by predicted time",
      (text: string, meshes: readonly string[] = []) => [...meshes, meshText(text)],
    )
    .addOption(compressionFlag())
    .option(
      "--servers <number>",
      "parameter servers, to which a worker for each device pushes gradients; 0: on the workers",
      wholeNumber(0, 64),
    )
    .option("--policy <spec>", "who waits for whom on servers, where the file does not say it")
    .addOption(machineFlag())
    .option(
      "-t, --threads <number>",
      "threads that each device is assumed to have (default: all cores)",
      wholeNumber(1, 1024),
    )
    .addOption(form("--layouts", "print the layouts of values, which can be edited"))
    .addOption(form("--graph", "print the whole plan, with the graph of one device"))
    .addOption(form("--program", "print the program of one device, or of each stage"))
    .addOption(form("--passes", "print what each pass of the compile did, and how long it took"))
    .addOption(form("--after <pass>", "print the graph as it is after a pass"))
    .addOption(form("--json", "print the summary as JSON"))
    .addOption(form("--diff", "print how the plans in two files differ; needs no mesh"));
  return command
    .addHelpText("after", notes)
    .action(async (file: string, args: string[], { mesh, machine, threads, after, diff, ...flags }: PlanFlags) => {
      if (diff === true) {
        if (mesh !== undefined || machine !== undefined)
          throw new HeddleError("option", "--diff compares plans that are printed: leave --mesh and --machine out");
        process.stdout.write(difference(file, args));
        return finish(exitStatus.ok);
      }
      if (mesh === undefined) return command.error("error: required option '-m, --mesh <axes>' not specified");
      const planAs: PlanForm =
        after === undefined ? (forms.find((name) => flags[name] === true) ?? "summary") : `after:${after}`;
      if (mesh.length > 1 && planAs !== "summary" && planAs !== "json")
        throw new HeddleError("option", "several meshes are ranked: give one --mesh for a graph or a program");
      checkMeshes(command, args);
      if (after !== undefined) await checkPass(after);
      const plan = mesh.join(";");
      const device = { ...(threads === undefined ? {} : { threads }), ...machineOption({ machine, threads }) };
      const wish = flags.compression === undefined ? {} : { compression: flags.compression };
      const { servers, policy } = flags;
      if (servers !== undefined && mesh.length > 1)
        throw new HeddleError("option", "plans with servers are not ranked: give one --mesh at a time");
      if (servers !== undefined && !/^data=\d+$/.test(plan))
        throw new HeddleError("option", `--mesh ${plan} does not go with --servers: each worker has the whole model`, {
          hint: "say the number of workers, such as --mesh data=4",
        });
      const onServers = { ...(servers === undefined ? {} : { servers }), ...(policy === undefined ? {} : { policy }) };
      const result = await launchLocal({ file, args, plan, planAs, signal, ...device, ...wish, ...onServers });
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

/** Refuses a mesh that would be an argument of the file: `--mesh data=4 data=2` reads as two meshes. */
function checkMeshes(command: Command, args: readonly string[]): void {
  const own = process.argv.includes("--") ? [] : args;
  const stray = own.find((text) => /^[a-z]\w*=\d/i.test(text));
  if (stray === undefined) return;
  command.error(
    `error: '${stray}' is not a mesh but an argument of the file: write --mesh ${stray} for another mesh, or -- before it`,
  );
}

/** Refuses a pass that does not exist before the file runs. */
async function checkPass(name: string): Promise<void> {
  const { passesAfterPlanning, passesBeforePlanning } = await import("../compile/index.ts");
  const names = [...passesBeforePlanning, ...passesAfterPlanning].map((pass) => pass.name);
  if (!names.includes(name))
    throw new HeddleError("option", `there is no pass '${name}'`, {
      hint: `passes are ${listed(names, names.length)}`,
    });
}

function difference(file: string, [other, ...more]: readonly string[]): string {
  if (other === undefined || more.length > 0)
    throw new HeddleError("option", "--diff takes two files with plans", { hint: "heddle plan --diff a.plan b.plan" });
  return diffPlans(readPlan(file), readPlan(other));
}
