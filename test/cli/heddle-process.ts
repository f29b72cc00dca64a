/** @module Runs the `heddle` command from the build, as users do; `npm test` and test/support/build.mjs see that it is new. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const command = fileURLToPath(new URL("../../bin/heddle.js", import.meta.url));
const start = [command];

/** How a command ended. */
export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment of a test's command: no setting of Heddle but `variables`. */
export function environment(variables: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("HEDDLE_"));
  return {
    ...Object.fromEntries(inherited),
    NO_COLOR: "1",
    ...variables,
  };
}

/** What a run says on the error stream, without the lines on slow ranks: they tell of the machine, which others may use. */
export const withoutSpeed = (stderr: string): string =>
  stderr.replace(/^heddle: rank \d+ (is slow|came last): .*\n/gm, "");

/** Runs the command to its end, in this folder or another. */
export function heddle(args: readonly string[], variables: NodeJS.ProcessEnv = {}, cwd = process.cwd()): Ended {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...start, ...args], {
    cwd,
    encoding: "utf8",
    env: environment(variables),
  });
  return { status, stdout, stderr };
}

/** A command under way. */
export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves when the output or the error stream contains a text. */
  until(text: string): Promise<void>;
}

/** Starts the command. */
export const started = (args: readonly string[], variables: NodeJS.ProcessEnv = {}): Started =>
  watched(
    spawn(process.execPath, [...start, ...args], { env: environment(variables), stdio: ["ignore", "pipe", "pipe"] }),
  );

/** What starts the command, for a shell that does something first. */
export const commandLine: readonly string[] = [process.execPath, ...start];

/** Reads what a process prints until it ends. */
export function watched(child: ChildProcess): Started {
  const output = { stdout: "", stderr: "" };
  const listeners: (() => void)[] = [];
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      output[name] += text;
      for (const listener of listeners) listener();
    });
  }
  const ended = new Promise<Ended>((resolve) => child.once("close", (status) => resolve({ status, ...output })));
  const until = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (output.stdout.includes(text) || output.stderr.includes(text)) resolve();
      };
      listeners.push(check);
      void ended.then(() => reject(new Error(`ended without "${text}":\n${output.stdout}${output.stderr}`)));
      check();
    });
  return { child, ended, until };
}

/** Runs the command with a reader that goes away after the first bytes, as `head -1` does. */
export function heddleUnread(args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [...start, ...args], {
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.stdout.once("data", () => child.stdout.destroy());
    child.once("close", (status) => resolve({ status, stdout: "", stderr }));
  });
}

/** A file of `test/cli/scripts`. */
export const script = (name: string): string => fileURLToPath(new URL(`./scripts/${name}`, import.meta.url));
