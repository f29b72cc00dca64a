/** @module Slurm: srun starts the workers, within an allocation or in one of its own; `heddle launch slurm` writes a batch script. */
import { existsSync } from "node:fs";
import { HeddleError } from "../../util/errors.ts";
import { ownVariables } from "../../util/settings.ts";
import { ownCommand, quoted } from "../host-list.ts";
import type { AgentsWanted, Engine, EngineCommand, JobWanted, Missing } from "./engine.ts";
import { failureOf } from "./programs.ts";

/** Whether this process is in a job whose only host is this one. */
function here(): boolean {
  const variables = ownVariables();
  return variables["SLURM_JOB_NUM_NODES"] === "1" && variables["SLURMD_NODENAME"] !== undefined;
}

function command({ count, command: agent, args }: AgentsWanted): EngineCommand {
  // srun does not take the processors of a worker over from the batch script.
  const cores = ownVariables()["SLURM_CPUS_PER_TASK"];
  const share = cores ? [`--cpus-per-task=${cores}`] : [];
  // The launcher decides what the end of one worker means, not srun.
  const alone = ["--kill-on-bad-exit=0", "--wait=0", "--input=none"];
  return { program: "srun", args: ["--ntasks", String(count), ...share, ...alone, ...args, ...agent] };
}

/** A name that Slurm's files and a shell take as it is. */
const nameOf = (file: string): string => file.replace(/^.*\//, "").replace(/[^\w.-]/g, "_");

const wholeForm = /^[1-9]\d{0,6}$/;
/** A number, a range, or a list of them. */
const nodesForm = /^[1-9]\d*k?([,:-][1-9]\d*k?)*$/i;
/** Minutes, minutes:seconds, hours:minutes:seconds, and days-hours with the like. */
const timeForm = /^(\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|unlimited|infinite)$/i;

/** Directives of the user's, one a flag. sbatch leaves out what is not a flag without a word. @throws HeddleError `option` */
function furtherDirectives(text: string): string[] {
  const result: string[] = [];
  for (const word of text.match(/(?:[^\s"']|"[^"]*"|'[^']*'|["'])+/g) ?? []) {
    const last = result.at(-1);
    if (/^--?[a-zA-Z]/.test(word)) result.push(word);
    else if (last !== undefined && /^[^\s=]+$/.test(last)) result.push(`${result.pop()} ${word}`);
    else throw new HeddleError("option", `--engine-args: '${word}' is neither a flag of sbatch nor the value of one`);
  }
  return result;
}

/** A batch script. */
function write({ file, args, workers, options }: JobWanted): string {
  if (!existsSync(file)) throw new HeddleError("file", `there is no file ${file}`);
  const { name = nameOf(file), nodes, time, partition, cpus, notice = "120", engineArgs } = options;
  if (!/^[\w.-]+$/.test(String(name))) throw new HeddleError("option", `--name '${name}' is not a name of a job`);
  if (!/^\d{1,5}$/.test(String(notice)))
    throw new HeddleError("option", `--notice '${notice}' is not a number of seconds`);
  for (const [flag, value, form, says] of [
    ["nodes", nodes, nodesForm, "a number of hosts, such as 4 or 2-4"],
    ["cpus", cpus, wholeForm, "a number of processors"],
    ["time", time, timeForm, "a time of Slurm, such as 90 (minutes), 2:00:00 or 1-12"],
  ] as const)
    if (value !== undefined && !form.test(value))
      throw new HeddleError("option", `--${flag} '${value}' is not ${says}`);
  const directives = [
    `--job-name=${name}`,
    `--ntasks=${workers}`,
    ...(nodes === undefined ? [] : [`--nodes=${nodes}`]),
    ...(cpus === undefined ? [] : [`--cpus-per-task=${cpus}`]),
    ...(time === undefined ? [] : [`--time=${time}`]),
    ...(partition === undefined ? [] : [`--partition=${partition}`]),
    `--output=${name}-%j.out`,
    "--open-mode=append",
    "--requeue",
    // To the batch script alone, which passes it on; SIGUSR1 is a debugger's in Node.
    `--signal=B:USR2@${notice}`,
    ...furtherDirectives(engineArgs ?? ""),
  ];
  const wrong = directives.find((directive) => /[\r\n]/.test(directive));
  if (wrong !== undefined) throw new HeddleError("option", `${wrong.split("=")[0]} has several lines`);
  const run = [
    "run",
    file,
    "--with",
    "slurm",
    "--workers",
    String(workers),
    ...(args.length > 0 ? ["--", ...args] : []),
  ];
  return `#!/bin/bash
${directives.map((directive) => `#SBATCH ${directive}`).join("\n")}

# ${notice} s before the job is ended (its time is over, or a job of higher priority needs its hosts) Slurm announces it: a training saves a
# checkpoint and ends with status 140, and the job is queued again. A requeued job resumes from its newest checkpoint.
${ownCommand(...run)
  .map(quoted)
  .join(" ")} &
run=$!
trap 'kill -USR2 $run' USR2
trap 'kill -TERM $run' TERM
# A trapped signal ends a wait, not the run.
while wait $run; kill -0 $run 2>/dev/null; do :; done
wait $run
status=$?
[ $status -ne 140 ] || scontrol requeue "$SLURM_JOB_ID"
exit $status
`;
}

async function missing(): Promise<Missing | undefined> {
  const failure = failureOf("srun", ["--version"]);
  if (failure === undefined) return undefined;
  if (failure !== "absent")
    return {
      message: `srun cannot be used here: ${failure.said}`,
      hint: "a host of the cluster has slurm.conf and the key of munge; SLURM_CONF names another file",
    };
  return {
    message: "there is no srun here",
    hint: "run it on a login node of the cluster, or install Slurm's programs (Debian: apt-get install slurm-client)",
  };
}

export const slurm: Engine = {
  name: "slurm",
  title: "Slurm",
  summary: "srun, within an allocation or in one of its own; heddle launch slurm writes a batch script",
  missing,
  agents: { rankVariables: ["SLURM_PROCID"], takesHosts: false, here, command },
  job: {
    options: [
      { flags: "--name <name>", says: "the job's name (default: the file's)" },
      { flags: "--nodes <number>", says: "hosts (default: as many as the workers need)" },
      { flags: "--cpus <number>", says: "processors of each worker (default: Slurm's)" },
      { flags: "--time <time>", says: "the longest time, such as 2:00:00 or 1-12" },
      { flags: "--partition <name>", says: "the partition" },
      {
        flags: "--notice <seconds>",
        says: "how long before its end a job is told, to save a checkpoint",
        default: "120",
      },
      { flags: "--engine-args <words>", says: "further directives, such as '--mem=8G --account=lab'" },
    ],
    use: "sbatch train.sbatch",
    write,
  },
};
