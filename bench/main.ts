/** @module `npm run bench`: measures the workloads of the options, prints a table, and writes the results as JSON. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { root } from "./commands.ts";
import { Hub } from "./hub.ts";
import { load, machineInfo } from "./machine.ts";
import { type Measurement, measureStart, measureWorkload } from "./measure.ts";
import { nodePeers, type Options, parseOptions, UsageError, usage } from "./options.ts";
import { comparePlans, formatPlans, type PlanRow } from "./plans/compare.ts";
import { formatMachine, formatTable, type Problem, type Results, type Row } from "./report.ts";
import { tinyWorkload, workloads } from "./workloads.ts";

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options === "help") {
    console.log(usage);
    return 0;
  }
  const compared = options.only.some((name) => name !== "plans");
  const python = compared && options.peers.some((peer) => !nodePeers.includes(peer)) ? installPeers() : undefined;
  const date = new Date().toISOString();
  const loadBefore = load();
  const collected: Found = { rows: [], problems: [], versions: {}, plans: [] };
  const folder = mkdtempSync(join(tmpdir(), "heddle-bench-"));
  // Peers end with their link; the files would stay.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(130));
  const hub = await Hub.open();
  try {
    await measureAll(options, { hub, folder, python }, collected);
  } finally {
    hub.close();
  }
  const { rows, problems, versions, plans } = collected;
  const machine = machineInfo();
  const results: Results = {
    date,
    machine,
    versions,
    load: [loadBefore, load()],
    seconds: options.seconds,
    rows,
    problems,
    plans,
  };
  console.log(`\n${formatTable(rows)}\n\n${formatMachine(results)}`);
  const file = options.out ?? join(root, ".heddle", "bench-results", `${date.replaceAll(":", "-")}.json`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
  console.log(`\nthe results are in ${file}`);
  for (const { workload, peer, message } of problems) console.error(`heddle bench: ${workload}, ${peer}: ${message}`);
  return problems.length === 0 ? 0 : 1;
}

interface Found {
  readonly rows: Row[];
  readonly problems: Problem[];
  readonly versions: Record<string, string>;
  readonly plans: PlanRow[];
}

interface Place {
  readonly hub: Hub;
  /** For files of this run. */
  readonly folder: string;
  readonly python: string | undefined;
}

async function measureAll(options: Options, place: Place, collected: Found): Promise<void> {
  const take = (measurement: Measurement): void => {
    collected.rows.push(...measurement.rows);
    collected.problems.push(...measurement.problems);
    Object.assign(collected.versions, measurement.versions);
    if (measurement.rows.length > 0) console.log(`\n${formatTable(measurement.rows)}`);
  };
  for (const full of workloads) {
    if (!options.only.includes(full.name)) continue;
    const workload = options.tiny ? tinyWorkload(full) : full;
    // Two processes have a thread each.
    for (const threads of workload.processes > 1 ? [1] : options.threads) {
      take(await measureWorkload({ ...place, ...options, workload, threads }));
    }
  }
  if (options.only.includes("start"))
    for (const threads of options.threads) take(await measureStart({ ...place, ...options, threads }));
  if (!options.only.includes("plans")) return;
  const plans = comparePlans(Math.max(1, Math.round(options.seconds / 2)), place.folder);
  collected.plans.push(...plans);
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
