/** Starts the heddle command as a user would, and watches it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const workload: string = fileURLToPath(new URL("workload.ts", import.meta.url));

/** A heddle command that runs. */
export interface Command {
  readonly process: ChildProcess;
  /** Everything it has printed so far. */
  output(): string;
  /** Waits until the output matches. */
  seen(pattern: RegExp): Promise<RegExpExecArray>;
  /** Exit status (null when it was killed) and how long it went on after this call, in ms. */
  ended(): Promise<{ status: number | null; signal: string | null; milliseconds: number }>;
}

export function heddle(args: readonly string[], environment: Record<string, string> = {}): Command {
  const child = spawn(process.execPath, ["bin/heddle.js", ...args], {
    cwd: root,
    env: { ...process.env, ...environment, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const listeners = new Set<() => void>();
  const take = (chunk: Buffer): void => {
    text += chunk.toString();
    for (const listener of listeners) listener();
  };
  child.stdout.on("data", take);
  child.stderr.on("data", take);
  const closed = once(child, "close") as Promise<[number | null, string | null]>;
  return {
    process: child,
    output: () => text,
    seen: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const match = pattern.exec(text);
          if (match === null) return;
          listeners.delete(look);
          resolve(match);
        };
        listeners.add(look);
        look();
        void closed.then(() => {
          look();
          reject(new Error(`the command ended without ${pattern}:\n${text}`));
        });
      }),
    ended: async () => {
      const started = performance.now();
      const [status, signal] = await closed;
      return { status, signal, milliseconds: performance.now() - started };
    },
  };
}

/** Runs a command to its end. */
export async function finished(
  args: readonly string[],
  environment: Record<string, string> = {},
): Promise<{ status: number | null; output: string }> {
  const command = heddle(args, environment);
  const { status } = await command.ended();
  return { status, output: command.output() };
}

/** Process ids that the workers of the workload have printed, by rank. */
export function workerIds(output: string): Map<number, number> {
  return new Map(
    [...output.matchAll(/worker (\d+) is process (\d+)/g)].map((match) => [Number(match[1]), Number(match[2])]),
  );
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
