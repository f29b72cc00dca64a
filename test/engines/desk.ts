/**
 * @module A place where engines run: a network namespace with a loopback interface alone, so that nothing that an engine opens can be
 * reached from elsewhere, a folder, and processes that end with the tests.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** How a command ended. */
export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs. */
export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves when the output matches. */
  seen(pattern: RegExp): Promise<void>;
  /** What was printed so far. */
  output(): string;
}

/** A namespace, a folder and processes. */
export class Desk {
  readonly folder: string;
  private readonly namespace: string;
  private readonly running = new Set<ChildProcess>();
  private readonly daemons = new Set<ChildProcess>();
  private readonly endings: (() => void)[] = [];

  constructor() {
    this.namespace = `heddle-engines-${process.pid}`;
    this.folder = mkdtempSync(join(tmpdir(), "heddle-engines-"));
    for (const words of [
      ["netns", "add", this.namespace],
      ["-n", this.namespace, "link", "set", "lo", "up"],
    ]) {
      const { status, stderr } = spawnSync("ip", words, { encoding: "utf8" });
      if (status !== 0) throw new Error(`ip ${words.join(" ")}: ${stderr}`);
    }
  }

  /** Gives the loopback interface one more address: beside 127.0.0.1 alone, Slurm resolves no address at all; Open MPI takes no other. */
  addAddress(): void {
    spawnSync("ip", ["-n", this.namespace, "address", "add", "10.77.0.1/32", "dev", "lo"]);
  }

  /** Gives the namespace an interface of its own beside the loopback interface, which leads nowhere. */
  addInterface(): void {
    for (const words of [
      "link add wire type veth peer name wire-end",
      "link set wire up",
      "link set wire-end up",
    ].concat("address add 10.78.0.1/24 dev wire"))
      spawnSync("ip", ["-n", this.namespace, ...words.split(" ")]);
  }

  /** Starts a program in the namespace. */
  start(command: readonly string[], variables: Record<string, string> = {}): Running {
    // Not by "ip netns exec", which hides control groups.
    const child = spawn("nsenter", [`--net=/run/netns/${this.namespace}`, ...command], {
      cwd: root,
      env: { ...process.env, NO_COLOR: "1", TMPDIR: this.folder, XDG_CACHE_HOME: this.folder, ...variables },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.running.add(child);
    const texts = { stdout: "", stderr: "" };
    const listeners = new Set<() => void>();
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => {
        texts[name] += text;
        for (const listener of listeners) listener();
      });
    const output = (): string => texts.stdout + texts.stderr;
    const ended = once(child, "close").then(([status]) => {
      this.running.delete(child);
      for (const listener of listeners) listener();
      return { status: status as number | null, ...texts };
    });
    return {
      child,
      ended,
      output,
      seen: (pattern) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            if (pattern.test(output())) resolve();
            else if (child.exitCode !== null && !this.running.has(child))
              reject(new Error(`ended without ${pattern}:\n${output()}`));
            else return;
            listeners.delete(look);
          };
          listeners.add(look);
          look();
        }),
    };
  }

  /** Starts a program that stays until {@link Desk.dispose}. */
  daemon(command: readonly string[], variables: Record<string, string> = {}): Running {
    const running = this.start(command, variables);
    this.running.delete(running.child);
    this.daemons.add(running.child);
    return running;
  }

  /** Runs a program to its end; its output. @throws Error if it fails */
  async call(command: readonly string[], variables: Record<string, string> = {}): Promise<string> {
    const { status, stdout, stderr } = await this.start(command, variables).ended;
    if (status !== 0) throw new Error(`${command.join(" ")} ended with ${status}:\n${stdout}${stderr}`);
    return stdout;
  }

  /** Makes a program in a folder of its own, which can stand first in PATH. */
  program(folder: string, name: string, text: string): void {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  }

  /** Waits for the files `pid-0`, … that workers write; their process ids. */
  async pids(folder: string, workers: number): Promise<number[]> {
    for (let tries = 0; tries < 3000; tries++) {
      const files = Array.from({ length: workers }, (_unused, rank) => join(folder, `pid-${rank}`));
      const texts = files.map((file) => (existsSync(file) ? readFileSync(file, "utf8") : ""));
      if (texts.every((text) => text !== "")) return texts.map(Number);
      await sleep(20);
    }
    throw new Error(`the workers did not start within a minute; there is ${readdirSync(folder).join(" ")}`);
  }

  /** Calls back when everything has ended. */
  onDispose(callback: () => void): void {
    this.endings.push(callback);
  }

  /** Kills what tests have left running. */
  clear(): void {
    for (const child of this.running) child.kill("SIGKILL");
  }

  async dispose(): Promise<void> {
    this.clear();
    const left = [...this.daemons].reverse();
    for (const child of left) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const closed = once(child, "close");
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
      await closed;
      clearTimeout(late);
    }
    // What engines have started in the namespace and left there.
    const { stdout } = spawnSync("ip", ["netns", "pids", this.namespace], { encoding: "utf8" });
    for (const pid of stdout.split("\n").filter((line) => line !== "")) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // The process has ended by now.
      }
    }
    spawnSync("ip", ["netns", "delete", this.namespace]);
    for (const callback of this.endings) callback();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

/** Whether a process still runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A process that has ended may wait for its parent.
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Waits until none of the processes runs; false after the deadline. */
export async function allGone(pids: readonly number[], milliseconds: number): Promise<boolean> {
  const deadline = performance.now() + milliseconds;
  while (pids.some(isAlive) && performance.now() < deadline) await sleep(20);
  return !pids.some(isAlive);
}
