// Running child processes from the plain-Node scripts: every child can be stopped with one Ctrl-C.

import { spawn } from "node:child_process";
import { constants } from "node:os";

/** Running children; each leads its own process group. */
const running = new Set();
let stopSignal;

/** Stops every running child on Ctrl-C and ends with the customary status. Returns a function that undoes it. */
export function handleSignals() {
  const stop = (signal) => {
    if (stopSignal !== undefined) return;
    stopSignal = signal;
    for (const child of running) killGroup(child, signal);
    setTimeout(() => {
      for (const child of running) killGroup(child, "SIGKILL");
    }, 1200);
    // Wait for the children, so that none is left behind, not even as a zombie.
    setInterval(() => {
      if (running.size === 0) process.exit(128 + constants.signals[signal]);
    }, 20);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, stop);
  return () => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.off(signal, stop);
  };
}

const toOwn = (name, chunk) => process[name].write(chunk);

/**
 * Runs a command. Resolves with `{ status, output }`; never rejects for a failing command.
 * `stdio` is "inherit" (shown as it runs), "capture" (kept, for showing when it fails) or "both"; then `write` shows it.
 */
export function run(command, args, { cwd, env, stdio = "inherit", write = toOwn } = {}) {
  return new Promise((resolve) => {
    const capture = stdio !== "inherit";
    const shown = stdio === "both";
    const child = spawn(command, args, {
      cwd,
      env: shown && process.stdout.isTTY ? { FORCE_COLOR: "1", ...(env ?? process.env) } : (env ?? process.env),
      stdio: ["ignore", capture ? "pipe" : "inherit", capture ? "pipe" : "inherit"],
      // Its own process group, so that a stop also reaches the compilers that npm and cargo start.
      detached: true,
      shell: false,
    });
    running.add(child);
    const chunks = [];
    for (const name of capture ? ["stdout", "stderr"] : []) {
      child[name].on("data", (chunk) => {
        chunks.push(chunk);
        if (shown) write(name, chunk);
      });
    }
    let settled = false;
    const settle = (status, extra = "") => {
      if (settled) return;
      settled = true;
      running.delete(child);
      // During a stop no caller may continue with its next step: the promise stays pending until the exit.
      if (stopSignal === undefined) resolve({ status, output: Buffer.concat(chunks).toString("utf8") + extra });
    };
    child.on("error", (error) => settle(127, `${command}: ${error.message}\n`));
    child.on("close", (code, signal) => settle(code ?? 128 + (constants.signals[signal] ?? 0)));
  });
}

function killGroup(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group is gone already.
  }
}
