/**
 * @module Processes of peers. Those of Python are forks of one process for each peer and number of threads, which has imported the
 * packages: imports take longer than most measurements.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A command line and its environment in addition to the harness's; undefined removes a variable. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Variables of one process alone. The command then starts a nursery, of which that process is a fork. */
  readonly forkEnv?: Readonly<Record<string, string>>;
}

/** A process of a peer. */
export interface Running {
  /** Rejects when the process has ended, with the reason. */
  readonly failed: Promise<never>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  /** The last lines of output. */
  output(): string;
  kill(signal?: "SIGTERM" | "SIGKILL"): void;
}

/** The characters of a process's output that are shown when it fails. */
const keptOutput = 4000;

/** Starts the processes of a run. */
export class Processes {
  private readonly nurseries = new Map<string, Nursery>();
  private readonly folder: string;

  /** @param folder for the output of forks */
  constructor(folder: string) {
    this.folder = folder;
  }

  async start(command: Command): Promise<Running> {
    if (command.forkEnv === undefined) return started(spawnCommand(command, "ignore"));
    const key = JSON.stringify([command.program, command.args, command.env]);
    const nursery = this.nurseries.get(key) ?? new Nursery(command, this.folder);
    this.nurseries.set(key, nursery);
    return nursery.fork(command.forkEnv);
  }

  close(): void {
    for (const nursery of this.nurseries.values()) nursery.close();
    this.nurseries.clear();
  }
}

const spawnCommand = ({ program, args, env }: Command, stdin: "ignore" | "pipe"): ChildProcess =>
  spawn(program, args, { env: { ...process.env, ...env }, stdio: [stdin, "pipe", "pipe"] });

const reasonOf = (status: number | null, signal: string | null): string => `it ended (${signal ?? `status ${status}`})`;

function started(child: ChildProcess): Running {
  const output = keepOutput(child);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (status, signal) => resolve(reasonOf(status, signal)));
  });
  return { ...outcomes(ended), output, kill: (signal = "SIGTERM") => void child.kill(signal) };
}

function keepOutput(child: ChildProcess, streams = [child.stdout, child.stderr]): () => string {
  let output = "";
  for (const stream of streams)
    stream?.on("data", (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-keptOutput);
    });
  return () => output;
}

function outcomes(ended: Promise<string>): Pick<Running, "failed" | "ended"> {
  const failed = ended.then((reason): never => {
    throw new Error(reason);
  });
  failed.catch(() => {});
  return { failed, ended: ended.then(() => {}) };
}

/** The messages of a nursery. */
interface Message {
  readonly id: number;
  readonly pid?: number;
  readonly status?: number;
}

/** A fork that has been asked for. */
interface Fork {
  readonly started: (pid: number) => void;
  readonly end: (reason: string) => void;
}

/** A process that has imported what its forks need. */
class Nursery {
  private readonly child: ChildProcess;
  private readonly folder: string;
  private readonly output: () => string;
  private readonly forks = new Map<number, Fork>();
  private count = 0;
  private ended: string | undefined;

  constructor(command: Command, folder: string) {
    this.folder = folder;
    this.child = spawnCommand(command, "pipe");
    this.child.stdin?.on("error", () => {});
    this.output = keepOutput(this.child, [this.child.stderr]);
    createInterface({ input: this.child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      const { id, pid, status } = JSON.parse(line) as Message;
      if (pid !== undefined) this.forks.get(id)?.started(pid);
      else this.forks.get(id)?.end(reasonOf(status as number, null));
    });
    const end = (reason: string): void => {
      this.ended = reason;
      for (const { end } of this.forks.values()) end(reason);
    };
    this.child.once("error", ({ message }) => end(message));
    this.child.once("close", (status, signal) => end(`${reasonOf(status, signal)}\n${this.output()}`));
  }

  async fork(env: Readonly<Record<string, string>>): Promise<Running> {
    if (this.ended !== undefined) throw new Error(this.ended);
    const id = this.count++;
    const log = join(this.folder, `fork-${this.child.pid}-${id}.txt`);
    let pid: number | undefined;
    const ended = new Promise<string>((resolve) => {
      const keepPid = (number: number): void => {
        pid = number;
      };
      this.forks.set(id, { started: keepPid, end: resolve });
    }).finally(() => {
      pid = undefined;
      this.forks.delete(id);
    });
    this.child.stdin?.write(`${JSON.stringify({ id, env, log })}\n`);
    const output = (): string => {
      try {
        return readFileSync(log, "utf8").slice(-keptOutput);
      } catch {
        return "";
      }
    };
    const kill = (signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): void => {
      if (pid !== undefined) process.kill(pid, signal);
    };
    return { ...outcomes(ended), output, kill };
  }

  close(): void {
    this.child.stdin?.end();
  }
}

/** Waits until a process has ended; kills it after some seconds. */
export async function endedWithin(running: Running, seconds: number): Promise<void> {
  const timer = setTimeout(() => running.kill("SIGKILL"), 1000 * seconds);
  await running.ended;
  clearTimeout(timer);
}
