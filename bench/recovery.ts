/**
 * @module The time from the death of one of four workers to the next finished step: an elastic run of Heddle, and torchrun, in turns.
 *
 *     npm run bench:recovery            # five deaths each
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { peerFile, pythonEnvironment, root } from "./commands.ts";

const deaths = Number(process.argv[2] ?? 5);
const python = join(root, ".heddle", "bench", "bin", "python");

/** A training that runs: what it has said, and its newest step. */
class Training {
  readonly child: ChildProcess;
  readonly pids = new Set<number>();
  newest = 0;
  /** What it said last. */
  tail = "";
  private text = "";

  constructor(program: string, args: readonly string[], env: { readonly [name: string]: string | undefined }) {
    this.child = spawn(program, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    process.once("exit", () => this.child.kill("SIGKILL"));
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.on("data", (bytes: Buffer) => {
        this.tail = (this.tail + bytes.toString()).slice(-20_000);
        const lines = (this.text + bytes.toString()).split("\n");
        this.text = lines.pop() ?? "";
        for (const line of lines) {
          const [, word, value] = /\b(pid|step) (\d+)$/.exec(line) ?? [];
          if (word === "pid") this.pids.add(Number(value));
          if (word === "step") this.newest = Math.max(this.newest, Number(value));
        }
      });
  }

  async reached(step: number): Promise<void> {
    while (this.newest < step) {
      if (this.child.exitCode !== null)
        throw new Error(`the training ended with status ${this.child.exitCode}:\n${this.tail}`);
      await sleep(2);
    }
  }
}

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Milliseconds from a death to the next finished step. */
async function recovery(training: Training): Promise<number> {
  await training.reached(20);
  const pids = [...training.pids].filter(alive);
  process.kill(pids.at(-1) as number, "SIGKILL");
  const started = performance.now();
  // Steps that had ended are still being told of.
  await sleep(150);
  await training.reached(training.newest + 1);
  return performance.now() - started;
}

const folder = mkdtempSync(join(tmpdir(), "heddle-recovery-"));
const peers: Record<string, (turn: number) => Training> = {
  heddle: () => {
    const flags = ["--workers", "2:4", "--threads", "1", "--prefix", "all"];
    return new Training(
      process.execPath,
      [join(root, "bin", "heddle.js"), "run", peerFile("recovery.ts"), ...flags],
      {},
    );
  },
  torchrun: (turn) => {
    const launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--max-restarts", "3"];
    const args = [...launch, peerFile("recovery.py"), join(folder, `snapshot-${turn}.pt`)];
    return new Training(python, args, pythonEnvironment("torch-eager", 1, python));
  },
};

const times: Record<string, number[]> = {};
for (let turn = 0; turn < deaths; turn++)
  for (const [name, start] of Object.entries(peers)) {
    if (name !== "heddle" && !existsSync(python)) continue;
    const training = start(turn);
    try {
      times[name] = [...(times[name] ?? []), await recovery(training)];
    } finally {
      const ended = new Promise((resolve) => training.child.once("close", resolve));
      training.child.kill("SIGTERM");
      await Promise.race([ended, sleep(10_000)]);
      training.child.kill("SIGKILL");
    }
  }
rmSync(folder, { recursive: true, force: true });
for (const [name, all] of Object.entries(times)) {
  const sorted = [...all].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)] as number;
  console.log(
    `${name.padEnd(10)}${(middle / 1000).toFixed(2)} s median, ${sorted.map((ms) => (ms / 1000).toFixed(2)).join(" ")}`,
  );
}
process.exit(0);
