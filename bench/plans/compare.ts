/**
 * @module Predicted times of steps beside measured ones: every training on every mesh, in turns, a core for each device. What is kept
 * is the fastest step of all turns: other work on the machine only ever makes a step longer.
 */
import { spawnSync } from "node:child_process";
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

/** The fastest of some steps of a run. */
function measureSteps(training: string, mesh: MeshName): number {
  const workers = String(meshes[mesh]);
  const args = ["profile", file, "--workers", workers, "--threads", "1", "--steps", "20", "--json", "--", training];
  const { programs } = JSON.parse(heddle(args, { HEDDLE_MESH: mesh })) as {
    programs: { name: string; minimumMilliseconds: number }[];
  };
  return programs.find(({ name }) => name === "trainStep")?.minimumMilliseconds ?? Number.NaN;
}

/** Measures the machine, then so many turns of all trainings on all meshes. @param folder for the machine's figures */
export function comparePlans(turns: number, folder: string): PlanRow[] {
  const machine = join(folder, "machine.json");
  heddle(["machine", "--threads", "1", "--out", machine]);
  const places = Object.keys(trainings).flatMap((training) =>
    (Object.keys(meshes) as MeshName[]).map((mesh) => ({ training, mesh })),
  );
  const measured = places.map(() => Infinity);
  for (let turn = 0; turn < turns; turn++)
    places.forEach(({ training, mesh }, index) => {
      measured[index] = Math.min(measured[index] as number, measureSteps(training, mesh));
    });
  return places.map((place, index) => {
    const args = ["plan", file, "--mesh", place.mesh, "--machine", machine, "--json", "--", place.training];
    const { cost } = JSON.parse(heddle(args)) as { cost: { seconds: number } };
    return { ...place, predicted: 1e3 * cost.seconds, measured: measured[index] as number };
  });
}

/** A line for each mesh, with its rank among those of its training. */
export function formatPlans(rows: readonly PlanRow[]): string {
  const rank = (row: PlanRow, by: "predicted" | "measured"): number =>
    1 + rows.filter((other) => other.training === row.training && other[by] < row[by]).length;
  const lines = rows.map((row) =>
    [
      row.training.padEnd(8),
      row.mesh.padEnd(8),
      `${row.predicted.toFixed(2)} ms`.padStart(10),
      `${row.measured.toFixed(2)} ms`.padStart(10),
      (row.measured / row.predicted).toFixed(2).padStart(6),
      `${rank(row, "predicted")} ${rank(row, "measured")}`.padStart(6),
    ].join("  "),
  );
  return ["training  mesh      predicted    measured   ratio   ranks", ...lines].join("\n");
}
