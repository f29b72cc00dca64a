/** @module `npm run bench`: measures the workloads of the options, prints a table, and writes the results as JSON. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onnxPeers, root } from "./commands.ts";
import { Hub } from "./hub.ts";
import { type Limits, measureLimits } from "./limits.ts";
import { load, machineInfo } from "./machine.ts";
import { type Measurement, measureStart, measureWorkload } from "./measure.ts";
import { nodePeers, type Options, parseOptions, UsageError, usage } from "./options.ts";
import { keepRun } from "./page.ts";
import { comparePlans, formatPlans } from "./plans/compare.ts";
import { formatMachine, formatTable, type Results } from "./report.ts";
import { linalgWorkloads, tinyWorkload, workloads } from "./workloads.ts";

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options === "help") {
    console.log(usage);
    return 0;
  }
  const run = new Run(options);
  const folder = mkdtempSync(join(tmpdir(), "heddle-bench-"));
  // Peers end with their link; the files would stay.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(130));
  const hub = await Hub.open(folder);
  try {
    await measureAll(run, { hub, folder, python: needsPython(options) ? installPeers() : undefined });
  } finally {
    hub.close();
  }
  const { results, file } = run;
  console.log(`\n${formatTable(results.rows)}\n\n${formatMachine(results)}`);
  console.log(`\nthe results are in ${file}`);
  if (options.whole) {
    keepRun(results);
    console.log("bench/last-run.json and docs/benchmarks.md are of this run");
  }
  for (const { workload, peer, message } of results.problems)
    console.error(`heddle bench: ${workload}, ${peer}: ${message}`);
  return results.problems.length === 0 ? 0 : 1;
}

/** Python runs some of the peers, and quantises a model for others. */
function needsPython({ only, peers }: Options): boolean {
  const [compared, quantised] = [(name: string) => name !== "plans", (name: string) => name.startsWith("int8-")];
  const inPython = only.some(compared) && peers.some((peer) => !nodePeers.includes(peer));
  return inPython || (only.some(quantised) && peers.some((peer) => onnxPeers.includes(peer)));
}

/** A run: its results, which are written after each group of rows. */
class Run {
  readonly options: Options;
  readonly file: string;
  results: Results;

  constructor(options: Options) {
    const date = new Date().toISOString();
    this.options = options;
    this.file = options.out ?? join(root, ".heddle", "bench-results", `${date.replaceAll(":", "-")}.json`);
    const earlier = options.resume && existsSync(this.file);
    const before = load();
    this.results = earlier
      ? (JSON.parse(readFileSync(this.file, "utf8")) as Results)
      : {
          date,
          machine: machineInfo(),
          versions: {},
          load: [before, before],
          seconds: options.seconds,
          limits: {},
          rows: [],
          problems: [],
          plans: [],
        };
  }

  /** Whether an earlier part of the run has a row already. */
  has(workload: string, threads: number): boolean {
    return this.results.rows.some((row) => row.workload === workload && row.threads === threads);
  }

  limits(threads: number): Limits {
    const limits = this.results.limits?.[threads] ?? measureLimits(threads);
    this.add({ limits: { ...this.results.limits, [threads]: limits } });
    return limits;
  }

  take({ rows, problems, versions }: Measurement): void {
    const { results } = this;
    if (rows.length > 0) console.log(`\n${formatTable(rows)}`);
    this.add({
      rows: [...results.rows, ...rows],
      problems: [...results.problems, ...problems],
      versions: { ...results.versions, ...versions },
    });
  }

  add(part: Partial<Results>): void {
    const [before] = this.results.load;
    this.results = { ...this.results, load: [before, load()], ...part };
    mkdirSync(dirname(this.file), { recursive: true });
    writeFileSync(this.file, `${JSON.stringify(this.results, null, 2)}\n`);
  }
}

interface Place {
  readonly hub: Hub;
  /** For files of this run. */
  readonly folder: string;
  readonly python: string | undefined;
}

async function measureAll(run: Run, place: Place): Promise<void> {
  const { options } = run;
  for (const full of [...workloads, ...linalgWorkloads]) {
    if (!options.only.includes(full.name)) continue;
    const workload = options.tiny ? tinyWorkload(full) : full;
    // Two processes have a thread each.
    for (const threads of workload.processes > 1 ? [1] : options.threads) {
      if (run.has(workload.name, threads)) continue;
      const limits = run.limits(workload.processes * threads);
      run.take(await measureWorkload({ ...place, ...options, workload, threads, limits }));
    }
  }
  if (options.only.includes("start"))
    for (const threads of options.threads)
      if (!run.has("start", threads)) run.take(await measureStart({ ...place, ...options, threads }));
  if (!options.only.includes("plans") || run.results.plans.length > 0) return;
  const plans = comparePlans(Math.max(1, Math.round(options.seconds / 2)), place.folder);
  run.add({ plans });
  console.log(`\n${formatPlans(plans)}`);
}

/** The Python of the peers, installed where it is missing. */
function installPeers(): string {
  const { status, stdout } = spawnSync(process.execPath, [join(root, "scripts", "bench-peers.mjs")], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  const python = stdout.trim().split("\n").at(-1);
  if (status !== 0 || python === undefined || python === "") {
    throw new UsageError("the peers could not be installed; --peers heddle needs none of them");
  }
  return python;
}

main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error: unknown) => {
    console.error(error instanceof UsageError ? `heddle bench: ${error.message}` : error);
    process.exit(2);
  },
);
