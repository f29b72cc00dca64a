/** @module `heddle script`: runs a DML script. */

import { readFileSync } from "node:fs";
import { delimiter } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { unreadable } from "../io/read.ts";
import { ownFile } from "../launch/host-list.ts";
import { launchLocal } from "../launch/local.ts";
import { workersNow } from "../matrix/distributed/workers.ts";
import { matrixPrograms } from "../matrix/index.ts";
import { explainPrograms, programStatistics, trafficStatistics } from "../matrix/report/report.ts";
import { runScript, type ScriptOptions } from "../script/index.ts";
import { withLineage } from "../train/lineage.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { type WorkerRange, wholeNumber, workerRange } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { report } from "./run.ts";
import { exitStatus } from "./status.ts";

const notes = `
Arguments of the script, after the file:
  -nvargs X=x.csv reg=0.1    values of $X and $reg
  -args x.csv 0.1            values of $1 and $2

With --workers the script runs in several processes, each of which has blocks of rows of the large matrices (docs/matrix.md). A range such
as 2:4 goes on without lost workers: what they had is computed again.

Examples:
  heddle script lm.dml -nvargs X=x.csv y=y.csv B=b.csv
  heddle script cg.dml --workers 4 -args X.csv y.csv w.csv
  heddle script --library systemds/scripts/builtin --stats lm.dml -args x.csv y.csv
`;

interface ScriptFlags {
  readonly library?: readonly string[];
  readonly explain?: boolean;
  readonly stats?: boolean;
  readonly seed?: string;
  readonly workers?: WorkerRange;
  readonly threads?: number;
  readonly whole?: number;
}

const threadCount = wholeNumber(1, 1024);
const byteCount = wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** What is known of the whole command line, beside the declared types. */
interface GivenCommand {
  readonly parent: { readonly rawArgs?: readonly string[] } | null;
}

/** The `script` command. */
export function scriptCommand({ finish, signal }: CommandContext): Command {
  return new Command("script")
    .summary("run a DML script of SystemDS")
    .description("Runs a DML script: linear algebra in f64, compiled block by block.")
    .argument("<file>", "the script")
    .argument("[args...]", "-nvargs name=value … or -args value …")
    .option(
      "--library <folder>",
      "a folder of DML functions: f is m_f of f.dml there (default: HEDDLE_DML_LIBRARY)",
      collect,
    )
    .option(
      "--explain",
      "print the programs that were made: operators, sizes, estimates, passes over rows, rules that were used, formats, memory",
    )
    .option("--stats", "print which programs took the most time, and how much of it went into compiling")
    .option(
      "--workers <number>",
      "worker processes that compute together (default: 1); 2:4 starts 4 and goes on without lost ones while 2 are left",
      workerRange,
    )
    .option("-t, --threads <number>", "threads of each worker (default: the cores, shared out)", threadCount)
    .option("--whole <bytes>", "matrices of at most so many bytes are whole on each worker (default: 65536)", byteCount)
    .option("--seed <number>", "the first seed of random functions that get none (default: 0)")
    .passThroughOptions()
    .allowUnknownOption()
    .addHelpText("after", notes)
    .action(async (file: string, args: string[], before: ScriptFlags, command: GivenCommand) => {
      const { parameters, rest } = parametersOf(args);
      const flags = { ...before, ...rest };
      const seed = Number(flags.seed ?? 0);
      if (!Number.isSafeInteger(seed) || seed < 0)
        throw new HeddleError("option", `script: --seed is a whole number from 0 on, got '${flags.seed}'`);
      const named = readEnvironment().dmlLibrary?.split(delimiter) ?? [];
      const options = { parameters, library: flags.library ?? named, seed };
      const { worker, world } = readEnvironment();
      if (worker === process.pid && world > 1) return asWorker(sourceOf(file), file, options, flags);
      if (flags.workers === undefined || flags.workers.most === 1)
        return alone(sourceOf(file), file, options, flags, finish);
      sourceOf(file);
      const { most: workers, least } = flags.workers;
      const result = await launchLocal({
        file: ownFile("heddle.js"),
        args: command.parent?.rawArgs ?? [],
        workers,
        signal,
        ...(least === undefined ? {} : { minWorkers: least }),
        ...(flags.threads === undefined ? {} : { threads: flags.threads }),
      });
      report(result, result.size, signal);
      finish(result.status);
    });
}

function alone(
  source: string,
  file: string,
  options: ScriptOptions,
  flags: ScriptFlags,
  finish: CommandContext["finish"],
): void {
  const started = performance.now();
  runScript(source, file, options);
  for (const line of reportOf(flags, (performance.now() - started) / 1000)) console.error(line);
  finish(exitStatus.ok);
}

/** Runs a script as one of several workers, of which the first prints. */
async function asWorker(source: string, file: string, options: ScriptOptions, flags: ScriptFlags): Promise<void> {
  const { whole: wholeBytes } = flags;
  const started = performance.now();
  // Lines that this worker knows to be printed.
  let shown = 0;
  const body = ({ rank, size }: { readonly rank: number; readonly size: number }): void => {
    const workers = workersNow();
    // What one of them knows is so for all: a worker that came later knows of none.
    const known = Array.from({ length: size }, (_unused, which) => (which === rank ? shown : 0));
    shown = Math.max(...(workers?.sum(known) ?? known));
    let line = 0;
    const print = (text: string): void => {
      if (++line <= shown) return;
      if (rank === 0) {
        console.log(text);
        shown = line;
      }
      // The first worker may be lost before it has printed, so the others wait for it where the script may begin again.
      if (flags.workers?.least !== undefined) workers?.sum([line]);
      shown = line;
    };
    runScript(source, file, { ...options, print });
    // All workers add up what they have sent; the others need not explain their programs.
    const lines = reportOf(
      { ...flags, explain: flags.explain === true && rank === 0 },
      (performance.now() - started) / 1000,
    );
    if (rank === 0) for (const text of lines) console.error(text);
  };
  try {
    await withLineage(body, wholeBytes === undefined ? {} : { wholeBytes });
  } catch (error) {
    // An uncaught error is told to the launcher, which says once what all workers say.
    process.nextTick(() => {
      throw error;
    });
  }
}

/** What `--explain` and `--stats` print. */
function reportOf({ explain, stats }: ScriptFlags, seconds: number): string[] {
  return [
    ...(explain === true ? [explainPrograms(matrixPrograms())] : []),
    ...(stats === true ? [programStatistics(matrixPrograms(), seconds), ...trafficStatistics()] : []),
  ];
}

const collect = (folder: string, before: readonly string[] = []): readonly string[] => [...before, folder];

function sourceOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw unreadable("script", file, error);
  }
}

/** Flags that may follow the file, and what their values are read by. */
const flagsAfter: Readonly<Record<string, readonly [name: keyof ScriptFlags, parse?: (text: string) => unknown]>> = {
  "--explain": ["explain"],
  "--stats": ["stats"],
  "--workers": ["workers", workerRange],
  "--threads": ["threads", threadCount],
  "--whole": ["whole", byteCount],
  "--seed": ["seed", (text) => text],
};

/** The values of `$name`, or of `$1` and on, and the flags that follow the file. */
export function parametersOf(args: readonly string[]): {
  readonly parameters: Readonly<Record<string, string>>;
  readonly rest: ScriptFlags;
} {
  const parameters: Record<string, string> = {};
  const rest: Record<string, unknown> = {};
  let kind: "none" | "named" | "counted" = "none";
  let count = 0;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] as string;
    const flag = Object.hasOwn(flagsAfter, arg) ? flagsAfter[arg] : undefined;
    if (flag !== undefined) {
      const [name, parse] = flag;
      rest[name] = parse === undefined ? true : valueOf(arg, args[++index], parse);
    } else if (arg === "-nvargs") kind = "named";
    else if (arg === "-args") kind = "counted";
    else if (kind === "counted") parameters[String(++count)] = arg;
    else {
      const match = kind === "named" ? /^([A-Za-z]\w*)=(.*)$/s.exec(arg) : null;
      if (match === null)
        throw new HeddleError("option", `script: '${arg}' is not an argument of a script`, {
          hint: kind === "named" ? "after -nvargs stand name=value" : "write -nvargs name=value … or -args value …",
        });
      parameters[match[1] as string] = match[2] as string;
    }
  }
  return { parameters, rest };
}

/** @throws HeddleError `option` for a value that is missing or malformed */
function valueOf(flag: string, text: string | undefined, parse: (text: string) => unknown): unknown {
  try {
    if (text !== undefined) return parse(text);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    throw new HeddleError("option", `script: ${flag} ${text}: ${error.message}`);
  }
  throw new HeddleError("option", `script: ${flag} needs a value`);
}
