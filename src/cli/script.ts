/** @module `heddle script`: runs a DML script. */

import { readFileSync } from "node:fs";
import { delimiter } from "node:path";
import { Command } from "commander";
import { unreadable } from "../io/read.ts";
import { matrixPrograms } from "../matrix/index.ts";
import { explainPrograms, programStatistics } from "../matrix/report/report.ts";
import { runScript } from "../script/index.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

const notes = `
Arguments of the script, after the file:
  -nvargs X=x.csv reg=0.1    values of $X and $reg
  -args x.csv 0.1            values of $1 and $2

Examples:
  heddle script lm.dml -nvargs X=x.csv y=y.csv B=b.csv
  heddle script --library systemds/scripts/builtin --stats lm.dml -args x.csv y.csv
`;

interface ScriptFlags {
  readonly library?: readonly string[];
  readonly explain?: boolean;
  readonly stats?: boolean;
  readonly seed?: string;
}

/** The `script` command. */
export function scriptCommand({ finish }: CommandContext): Command {
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
    .option("--seed <number>", "the first seed of random functions that get none (default: 0)")
    .passThroughOptions()
    .allowUnknownOption()
    .addHelpText("after", notes)
    .action((file: string, args: string[], flags: ScriptFlags) => {
      const seed = Number(flags.seed ?? 0);
      if (!Number.isSafeInteger(seed) || seed < 0)
        throw new HeddleError("option", `script: --seed is a whole number from 0 on, got '${flags.seed}'`);
      const { parameters, rest } = parametersOf(args);
      const { explain = flags.explain === true, stats = flags.stats === true } = rest;
      const named = readEnvironment().dmlLibrary?.split(delimiter) ?? [];
      const started = performance.now();
      runScript(sourceOf(file), file, { parameters, library: flags.library ?? named, seed });
      const seconds = (performance.now() - started) / 1000;
      if (explain) console.error(explainPrograms(matrixPrograms()));
      if (stats) console.error(programStatistics(matrixPrograms(), seconds));
      finish(exitStatus.ok);
    });
}

const collect = (folder: string, before: readonly string[] = []): readonly string[] => [...before, folder];

function sourceOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw unreadable("script", file, error);
  }
}

/** The values of `$name`, or of `$1` and on, and the flags that follow the file. */
export function parametersOf(args: readonly string[]): {
  readonly parameters: Readonly<Record<string, string>>;
  readonly rest: { readonly explain?: true; readonly stats?: true };
} {
  const parameters: Record<string, string> = {};
  const rest: { explain?: true; stats?: true } = {};
  let kind: "none" | "named" | "counted" = "none";
  let count = 0;
  for (const arg of args) {
    if (arg === "--explain") rest.explain = true;
    else if (arg === "--stats") rest.stats = true;
    else if (arg === "-nvargs") kind = "named";
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
