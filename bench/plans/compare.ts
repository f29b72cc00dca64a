/**
 * @module Predicted times of steps beside measured ones: every training on every mesh, in turns, for a machine whose devices
 * have one thread and for one whose devices have all cores, which the devices of a larger mesh share out. What is kept
 * is the fastest step of all turns: other work on the machine only ever makes a step longer.
 */
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { root } from "../commands.ts";
import { trainings } from "./trainings.ts";

/** Meshes of one and of two devices. */
export const meshes = { "data=1": 1, "data=2": 2, "model=2": 2 } as const;
type MeshName = keyof typeof meshes;

/** A training on a mesh; milliseconds of a step. */
export interface PlanRow {
  readonly training: string;
  readonly mesh: MeshName;
  /** Threads of a device of the machine that the prediction is for. */
  readonly threads: number;
  readonly predicted: number;
  readonly measured: number;
}

const file = join(root, "bench", "plans", "steps.ts");

function heddle(args: readonly string[], environment: { readonly [name: string]: string } = {}): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "bin", "heddle.js"), ...args], {
    encoding: "utf8",
    env: { ...process.env, ...environment },
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`heddle ${args.join(" ")} ended with ${status}: ${stderr}`);
  return stdout;
}

/** Threads that each device of a mesh has, of a machine whose devices have so many. */
const ownThreads = (mesh: MeshName, threads: number): number =>
  Math.max(1, Math.min(threads, Math.floor(availableParallelism() / meshes[mesh])));

/** The fastest of some steps of a run. */
function measureSteps(training: string, mesh: MeshName, threads: number): number {
  const counts = ["--workers", String(meshes[mesh]), "--threads", String(threads), "--steps", "20"];
  const args = ["profile", file, ...counts, "--json", "--", training];
  const { programs } = JSON.parse(heddle(args, { HEDDLE_MESH: mesh })) as {
    programs: { name: string; minimumMilliseconds: number }[];
  };
  return programs.find(({ name }) => name === "trainStep")?.minimumMilliseconds ?? Number.NaN;
}

/** Measures the machines, then so many turns of all trainings on all meshes. @param folder for the machines' figures */
export function comparePlans(turns: number, folder: string): PlanRow[] {
  const machines = [...new Set([1, availableParallelism()])];
  const machineFile = (threads: number): string => join(folder, `machine-${threads}.json`);
  for (const threads of machines) heddle(["machine", "--threads", String(threads), "--out", machineFile(threads)]);
  const places = machines.flatMap((threads) =>
    Object.keys(trainings).flatMap((training) =>
      (Object.keys(meshes) as MeshName[]).map((mesh) => ({ training, mesh, threads })),
    ),
  );
  // Devices that share out the cores have the threads of the smaller machine: measured once.
  const measured = new Map<string, number>();
  const keyOf = ({ training, mesh, threads }: (typeof places)[number]): string =>
    `${training} ${mesh} ${ownThreads(mesh, threads)}`;
  const measuring = new Map(places.map((place) => [keyOf(place), place]));
  for (let turn = 0; turn < turns; turn++)
    for (const [key, { training, mesh, threads }] of measuring) {
      const time = measureSteps(training, mesh, ownThreads(mesh, threads));
      measured.set(key, Math.min(measured.get(key) ?? Infinity, time));
    }
  return places.map((place) => {
    const args = ["plan", file, "--mesh", place.mesh, "--machine", machineFile(place.threads), "--json", "--"];
    const { cost } = JSON.parse(heddle([...args, place.training])) as { cost: { seconds: number } };
    return { ...place, predicted: 1e3 * cost.seconds, measured: measured.get(keyOf(place)) as number };
  });
}

/** A line for each mesh, with its rank among those of its training. */
export function formatPlans(rows: readonly PlanRow[]): string {
  const rank = (row: PlanRow, by: "predicted" | "measured"): number =>
    1 +
    rows.filter((other) => other.training === row.training && other.threads === row.threads && other[by] < row[by])
      .length;
  const lines = rows.map((row) =>
    [
      row.training.padEnd(8),
      row.mesh.padEnd(8),
      String(row.threads).padStart(7),
      `${row.predicted.toFixed(2)} ms`.padStart(10),
      `${row.measured.toFixed(2)} ms`.padStart(10),
      (row.measured / row.predicted).toFixed(2).padStart(6),
      `${rank(row, "predicted")} ${rank(row, "measured")}`.padStart(6),
    ].join("  "),
  );
  return ["training  mesh      threads   predicted    measured   ratio   ranks", ...lines].join("\n");
}
