/** @module What `--explain` and `--stats` of scripts tell about matrix programs: rules that were used, formats, memory, and what took time. */

import type { PassReport } from "../../compile/index.ts";
import type { Tensor } from "../../functions/index.ts";
import { bytesOf } from "../../ir/shape.ts";
import { plural } from "../../report/summary.ts";
import { deviceRuntime } from "../../tensor/runtime.ts";
import { compileFunction } from "../../tensor/transforms.ts";
import { formatBytes, formatCount, formatTable } from "../../util/text.ts";
import { trafficSoFar } from "../distributed/workers.ts";
import type { MatrixProgram, Together } from "../programs.ts";
import { runStages } from "../rows/run.ts";

/** What a compile of a program tells. */
interface Compiled {
  readonly rules: readonly string[];
  readonly formats: readonly string[];
  /** Bytes of intermediate values; undefined where the executor does not know them before the run. */
  readonly arena: number | undefined;
}

/** Compiles a program once more, with its passes observed. */
function compiledAgain({ types, stages, steps, outputs }: MatrixProgram): Compiled {
  const uses = new Map<string, number>();
  const onPass = ({ trace }: PassReport): void => {
    for (const [rule, count] of trace.counts()) uses.set(rule, (uses.get(rule) ?? 0) + count);
  };
  const run = (leaves: readonly Tensor[]): Tensor[] => runStages(stages, steps, outputs, leaves);
  const { compiled, plan } = compileFunction(run, [types], deviceRuntime(), { name: "matrix program", onPass });
  const formats = plan.formats.map(
    ({ type, capacity, format }) => `${type.shape.join("x")} of ${formatCount(capacity)} entries: ${format}`,
  );
  return {
    rules: [...uses].map(([rule, count]) => `${rule} ${count}`),
    formats: [...new Set(formats)],
    arena: compiled.executable.arenaBytes,
  };
}

const indented = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);

/** Steps with the physical operator of each, and how its result lies. */
function togetherLines({ text, together }: MatrixProgram): string[] {
  const { lines, bytes: sent } = together as Together;
  const logical = new Map(text.split("\n").map((line) => [Number.parseInt(line, 10), line]));
  const table = lines.map(({ step, how, bytes }) => [
    (step === undefined ? undefined : logical.get(step)) ?? "",
    how,
    bytes === undefined ? "" : formatBytes(bytes),
  ]);
  return [
    ...formatTable(table, [2]).map((line) => line.slice(2)),
    `sent by all workers in a run: ${formatBytes(sent)}`,
  ];
}

function explainedProgram(program: MatrixProgram, index: number): string[] {
  const { text, runs, compiles, work, inputs, types, passes, estimates } = program;
  const how = compiles === 0 ? "interpreted" : "compiled";
  const head = `program ${index + 1}: ${plural(runs, "run")}, ${how}, ${formatCount(work)} operations`;
  if (program.together !== undefined) return [head, ...indented([`inputs ${inputs}`, ...togetherLines(program)])];
  const { rules, formats, arena } = compiledAgain(program);
  const whole = types.reduce((sum, type) => sum + bytesOf(type), 0);
  const memory = `${formatBytes(whole)} of inputs, ${arena === undefined ? "?" : formatBytes(arena)} of values between them`;
  const lines = text.split("\n");
  const table = formatTable(
    lines.map((line, step) => [line, ...(estimates[step] as readonly string[])]),
    [1, 2],
  );
  return [
    head,
    ...indented([
      `inputs ${inputs}`,
      ...table.map((line) => line.trim()),
      ...passes.map((pass) => `pass over rows: ${pass}`),
      ...(rules.length === 0 ? [] : [`rules used: ${rules.join(", ")}`]),
      ...formats.map((format) => `format: ${format}`),
      `memory: ${memory}`,
    ]),
  ];
}

/**
 * Each program in the order in which it was made: its operators with sizes, estimates of bytes and of elements that are not 0, passes over
 * rows, rules that were used, formats of matrices of entries, and memory.
 */
export function explainPrograms(programs: readonly MatrixProgram[]): string {
  const head = `${plural(programs.length, "program")}, each a block of the script`;
  return [head, ...programs.flatMap(explainedProgram)].join("\n");
}

const most = 10;

/** The programs that took the most time. `seconds` is how long all took together, with what is no program. */
export function programStatistics(programs: readonly MatrixProgram[], seconds: number): string {
  const heavy = [...programs].sort((a, b) => b.milliseconds - a.milliseconds).slice(0, most);
  const total = programs.reduce((sum, { milliseconds }) => sum + milliseconds, 0);
  const first = programs.reduce((sum, { compiling }) => sum + compiling, 0);
  const share = (part: number): string => `${((100 * part) / Math.max(total, Number.MIN_VALUE)).toFixed(0)} %`;
  const rows = heavy.map(({ milliseconds, compiling, runs, steps, compiles }) => {
    const names = [...new Set(steps.map(({ operator }) => operator.name))];
    return [
      milliseconds.toFixed(1),
      share(milliseconds),
      `${runs}`,
      compiles === 0 ? "-" : compiling.toFixed(1),
      names.length > 8 ? `${names.slice(0, 8).join(" ")} …` : names.join(" "),
    ];
  });
  const head = ["ms", "share", "runs", "first", "operators"];
  return [
    `${seconds.toFixed(2)} s: ${plural(programs.length, "program")} ${(total / 1000).toFixed(2)} s, of which first runs of compiled ones ${(first / 1000).toFixed(2)} s`,
    ...formatTable([head, ...rows], [0, 1, 2, 3]).map((line) => line.trimEnd()),
  ].join("\n");
}

/**
 * What workers have sent to each other so far, in programs (with what the formulas say) and to read values; empty where this process computes
 * alone. Every worker must ask.
 */
export function trafficStatistics(): string[] {
  const traffic = trafficSoFar();
  if (traffic === undefined) return [];
  const { workers, sent, predicted, read } = traffic;
  return [
    `${workers} workers sent ${formatBytes(sent)} in programs (${formatBytes(predicted)} by the formulas), and ${formatBytes(read)} to read values`,
  ];
}
