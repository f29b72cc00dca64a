/** Elastic runs with real processes and real signals: the losses of each epoch are those of an undisturbed run. `npm run test:processes` runs a third of the faults. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { finished, heddle } from "../e2e/command.ts";
import { partOf } from "../support/sample.ts";

const script = fileURLToPath(new URL("./scripts/training.ts", import.meta.url));

interface Result {
  readonly losses: readonly number[];
  readonly workers: number;
  readonly steps: readonly number[];
}

interface Run {
  readonly faults?: string;
  readonly kind?: string;
  /** Milliseconds of a step. */
  readonly pause?: number;
  readonly workers: number;
  readonly least?: number;
  readonly restarts?: number;
  readonly timeout?: number;
  readonly mesh?: string;
  /** Hosts, which are this machine. */
  readonly hosts?: string;
}

async function run({ faults = "", kind = "plain", pause = 10, workers, least, restarts, timeout, mesh, hosts }: Run) {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  const flag = (name: string, value: string | number | undefined): string[] =>
    value === undefined ? [] : [name, String(value)];
  const range = least === undefined ? workers : `${least}:${workers}`;
  const flags = [...flag("--restarts", restarts), ...flag("--timeout", timeout), ...flag("--mesh", mesh)];
  if (hosts !== undefined) flags.push("--hosts", hosts, "--shell", "env HERE={host} {command}");
  const args = ["run", script, "--workers", String(range), "--threads", "1", ...flags, "--"];
  try {
    const { status, output } = await finished([...args, faults, kind, String(pause), folder], { TMPDIR: folder });
    const file = join(folder, "result.json");
    const result = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Result) : undefined;
    return { status, output, result };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

let undisturbed: Result;
beforeAll(async () => {
  const { result, status } = await run({ workers: 1 });
  expect(status).toBe(0);
  undisturbed = result as Result;
});

/** Rows: a name, the run, what the launcher says, and the number of workers at the end. */
const survived: [string, Run, RegExp, number][] = [
  ["rank 1 of 3 is killed", { workers: 3, least: 2, faults: "kill:1@5" }, /going on with workers 0, 2/, 2],
  ["rank 0 is killed", { workers: 3, least: 2, faults: "kill:0@5" }, /going on with workers 1, 2/, 2],
  [
    "two are killed in one step",
    { workers: 4, least: 1, faults: "kill:1@5,kill:2@5" },
    /going on with workers 0, 3/,
    2,
  ],
  ["one is left", { workers: 2, least: 1, faults: "kill:0@9" }, /going on with worker 1\n/, 1],
  ["a worker exits", { workers: 2, least: 1, faults: "exit:1@9" }, /worker 1 ended with exit status 7/, 1],
  ["killed before the training", { workers: 3, least: 2, faults: "kill:2@start" }, /going on with workers 0, 1/, 2],
  ["killed at the end of an epoch", { workers: 3, least: 2, faults: "kill:1@epoch2" }, /going on with workers 0, 2/, 2],
  [
    "a lost worker is replaced",
    { workers: 2, least: 1, restarts: 1, faults: "kill:1@3", pause: 200 },
    /workers 0, 2/,
    2,
  ],
  [
    "a lost worker of another host is replaced",
    { workers: 2, least: 1, restarts: 1, faults: "kill:1@3", pause: 200, hosts: "alpha:1,beta:1" },
    /workers 0, 2/,
    2,
  ],
  [
    "a worker of a lost host is replaced on another",
    { workers: 2, least: 1, restarts: 1, faults: "host:1@3", pause: 200, hosts: "alpha:1,beta:1" },
    /worker 1 is lost with its host.*workers 0, 2/s,
    2,
  ],
  ["the last one is joined", { workers: 2, least: 2, restarts: 1, faults: "kill:0@3" }, /workers 1, 2/, 2],
  ["a stopped worker", { workers: 3, least: 2, timeout: 2, faults: "stop:1@5" }, /worker 1 neither works nor/, 2],
  [
    "sharded values come from the checkpoint",
    { workers: 2, least: 1, kind: "sharded checkpoint", faults: "kill:1@9" },
    /going on with worker 0/,
    1,
  ],
  [
    "sharded values without a file",
    { workers: 2, least: 1, kind: "sharded", faults: "kill:1@9" },
    /had the only copy of some values/,
    1,
  ],
  [
    "sharded values are handed to a newcomer",
    { workers: 2, least: 1, restarts: 1, kind: "sharded", faults: "kill:1@3", pause: 200 },
    /workers 0, 2/,
    2,
  ],
  [
    "sharded values come from another worker's memory",
    { workers: 3, least: 2, kind: "sharded copies 4", faults: "kill:1@11" },
    /resuming from the memory of rank \d, at epoch 2, batch 2\b/,
    2,
  ],
  [
    "partners die one after the other",
    { workers: 4, least: 2, kind: "sharded copies 2", faults: "kill:3@11,kill:1@17", pause: 20 },
    /workers 0, 1, 2\n.*workers 0, 2\n.*resuming from the memory of rank 0, at epoch [23]/s,
    2,
  ],
  ["a mesh of pairs", { workers: 4, least: 1, mesh: "data=2,model=2", faults: "kill:1@5" }, /workers 0, 2\n/, 2],
  ["a worker leaves early", { workers: 3, least: 1, faults: "leave:1@5" }, /worker 1 ended with exit status 0/, 2],
  ["in the second training", { workers: 3, least: 2, kind: "twice", faults: "kill:1@5" }, /workers 0, 2/, 2],
];

describe("an elastic run goes on", () => {
  test.each(partOf(survived, 3))("%s", async (_name, given, said, workers) => {
    const { status, result, output } = await run(given);
    expect(output).toMatch(said);
    expect({ status, output }).toEqual({ status: 0, output });
    expect(result?.workers).toBe(workers);
    expect(result?.losses).toHaveLength(undisturbed.losses.length);
    for (const [index, loss] of (result?.losses ?? []).entries())
      expect(loss).toBeCloseTo(undisturbed.losses[index] as number, 12);
  });
});

/** Rows: a name, the run, its exit status, and what is said. */
const failed: [string, Run, number, RegExp][] = [
  ["too few are left", { workers: 3, least: 3, faults: "kill:1@5" }, 137, /2 workers are left, and the run needs 3/],
  ["an error of the script", { workers: 3, least: 1, faults: "throw:1@5" }, 1, /a callback's own error/],
  [
    "killed after the training",
    { workers: 2, least: 1, faults: "kill:0@end" },
    137,
    /worker 0 was lost after its training/,
  ],
];

describe("an elastic run ends", () => {
  test.each(failed)("%s", async (_name, given, status, said) => {
    const { status: ended, output } = await run(given);
    expect(output).toMatch(said);
    expect(ended).toBe(status);
  });
});

test("the launcher is killed: its workers end, and a resume goes on from the checkpoint", async () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-test-"));
  const args = (pause: number, ...flags: string[]): string[] => [
    ...["run", script, "--workers", "2:3", "--threads", "1", ...flags],
    ...["--", "", "plain checkpoint", String(pause), folder],
  ];
  try {
    const killed = heddle(args(150));
    await killed.seen(/epoch 2\/4/);
    killed.process.kill("SIGKILL");
    // The workers' output is the launcher's: it ends with the last of them.
    expect(await killed.ended()).toMatchObject({ status: null, signal: "SIGKILL" });
    expect(existsSync(join(folder, "result.json"))).toBe(false);
    const { status, output } = await finished(args(0, "--resume"));
    expect({ status, output }).toEqual({ status: 0, output });
    expect(output).toMatch(/resuming from .*checkpoints/);
    const { losses } = JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as Result;
    expect(losses).toHaveLength(undisturbed.losses.length);
    for (const [index, loss] of losses.entries()) expect(loss).toBeCloseTo(undisturbed.losses[index] as number, 12);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
