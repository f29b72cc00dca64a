/**
 * @module Counts the instructions of ten small programs on AVX2 under callgrind, and compares them with the figures in
 * scripts/instructions.json. The native core alone runs them: Node's instructions are not among them.
 *
 *     npm run instructions [-- --update] [-- NAME ...]
 *
 * Prints a line for each program, and ends with status 1 where one has grown by more than 10 %. `--update` writes the figures of the
 * named programs, or of all. It needs Linux on x86-64, Rust, and valgrind (Debian: apt-get install valgrind).
 */
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { writeLowered } from "./instructions/lowered.ts";
import { countedPrograms } from "./instructions/programs.ts";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const file = join(root, "scripts", "instructions.json");
/** The growth that is an error. */
const allowed = 1.1;

/** Figures by program. */
export type Figures = { readonly [name: string]: number };

/** A line for each counted program, and whether one has grown by too much or has no figure. */
export function compared(
  counts: Figures,
  figures: Figures,
): { readonly lines: readonly string[]; readonly ok: boolean } {
  const rows = Object.entries(counts).map(([name, count]) => {
    const figure = figures[name] ?? 0;
    const verdict =
      figure === 0
        ? "NO FIGURE: write it with --update"
        : count > allowed * figure
          ? "GREW by more than 10 %: make it shorter, or write the figure with --update and a reason"
          : "";
    const advice = allowed * count < figure ? "fell by more than 10 %: write the figure with --update" : "";
    const share = figure === 0 ? "" : `${((100 * count) / figure).toFixed(1)} % of the figure`;
    const words = [name.padEnd(20) + count.toLocaleString("en").padStart(14), share, verdict, advice];
    return { line: words.filter((word) => word !== "").join("  "), ok: verdict === "" };
  });
  return { lines: rows.map(({ line }) => line), ok: rows.every(({ ok }) => ok) };
}

/** The instructions of the second run of a lowered program. */
async function countOf(command: string, files: readonly string[]): Promise<number> {
  const out = `${files[0]}.callgrind`;
  // Kernels are generated while the program is read, so code that has run can change.
  const options = ["--tool=callgrind", "--smc-check=all-non-file", "--toggle-collect=counted_run"];
  const { stderr } = await promisify(execFile)(
    "valgrind",
    [...options, `--callgrind-out-file=${out}`, command, ...files, "avx2"],
    { env: { ...process.env, HEDDLE_ISA: undefined, HEDDLE_JIT: undefined } },
  );
  const total = /^(?:summary|totals): (\d+)/m.exec(readFileSync(out, "utf8"))?.[1];
  if (total === undefined || Number(total) === 0) throw new Error(`${files[0]}: nothing was counted\n${stderr}`);
  return Number(total);
}

/** Counts programs, as many at once as there are cores. */
async function countAll(names: readonly string[]): Promise<Figures> {
  execFileSync("cargo", ["build", "--release", "--locked", "--quiet", "-p", "heddle-count"], {
    cwd: join(root, "native"),
    stdio: "inherit",
  });
  const command = join(root, "native", "target", "release", "heddle-count");
  const folder = mkdtempSync(join(tmpdir(), "heddle-count-"));
  try {
    const waiting = countedPrograms.filter(({ name }) => names.includes(name));
    const counts = new Map(waiting.map(({ name }) => [name, 0]));
    const work = async (): Promise<void> => {
      for (let one = waiting.pop(); one !== undefined; one = waiting.pop())
        counts.set(one.name, await countOf(command, writeLowered(one, folder)));
    };
    await Promise.all(Array.from({ length: availableParallelism() }, work));
    return Object.fromEntries(counts);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main(args: readonly string[]): Promise<number> {
  const known = countedPrograms.map(({ name }) => name);
  const named = args.filter((arg) => arg !== "--update");
  const unknown = named.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    console.error(`there is no program ${unknown}; programs are ${known.join(", ")}`);
    return 2;
  }
  const counts = await countAll(named.length === 0 ? known : named);
  const figures = JSON.parse(readFileSync(file, "utf8")) as Figures;
  const { lines, ok } = compared(counts, figures);
  for (const line of lines) console.log(line);
  if (!args.includes("--update")) return ok ? 0 : 1;
  const all = { ...figures, ...counts };
  writeFileSync(
    file,
    `${JSON.stringify(Object.fromEntries(known.flatMap((name) => (name in all ? [[name, all[name]]] : []))), null, 2)}\n`,
  );
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main(process.argv.slice(2));
