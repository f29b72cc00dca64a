// `npm test`: every check that must pass before a change is merged, section by section.
//
//   npm test                               all of it
//   npm test -- --only vitest test/cli     one section; further arguments go to its command
//   npm test -- --only lint,types          several
//   npm run test:processes                 the suites that start, kill and time processes, and a part of the longest tables; not a part of npm test
//   npm run test:grids                     the longest tables whole (every example, every page, …): some twenty minutes
//   npm run test:grids -- test/e2e         those of some files
//   npm run test:kills                     200 kills while a checkpoint is written in parts, 100 in an elastic run: some ten minutes
//   npm run test:storage                   checkpoints in an object store, which is installed into .heddle/storage
//   npm run test:hosts                     runs on several hosts, as network namespaces; as root
//   npm run test:engines                   runs under the engines that are installed here: MPI, Slurm, Ray, sshd; as root

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { handleSignals, run } from "./process.mjs";
import { missingTools, SetupError, startSetup, withCargo } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const bin = (name) => join(root, "node_modules", ...name.split("/"));

/**
 * Every section: a name, the command, and, where the section cannot run on this machine, the reason. Sections in Rust run
 * beside the others, since each kind leaves processors idle at times; the parts of the setup that a section `needs` run before it.
 */
const sections = [
  { name: "lint", what: "biome", command: [process.execPath, bin("@biomejs/biome/bin/biome"), "check"] },
  { name: "types", what: "tsc", command: [process.execPath, bin("typescript/bin/tsc"), "-p", "tsconfig.json"] },
  { name: "layers", what: "imports", command: [process.execPath, "--import", "tsx", "scripts/check-layers.ts"] },
  { name: "lines", what: "lines of code", command: [process.execPath, "--import", "tsx", "scripts/count-lines.ts"] },
  {
    name: "format",
    lane: "rust",
    needs: "native",
    what: "cargo fmt",
    command: ["cargo", "fmt", "--all", "--check"],
    cwd: "native",
    skip: skipCargo,
  },
  {
    name: "clippy",
    lane: "rust",
    needs: "native",
    what: "cargo clippy",
    command: ["cargo", "clippy", "--release", "--all-targets", "--quiet", "--", "-D", "warnings"],
    cwd: "native",
    skip: skipCargo,
  },
  {
    name: "cargo",
    lane: "rust",
    needs: "native",
    what: "cargo test",
    command: ["cargo", "test", "--release"],
    cwd: "native",
    skip: skipCargo,
  },
  {
    name: "vitest",
    needs: "native",
    what: "vitest",
    command: [process.execPath, bin("vitest/vitest.mjs"), "run"],
    // Files named on the command line replace the whole suite.
    unlessGiven: ["--project", "shared", "--project", "alone"],
  },
  project("processes", "processes"),
  project("grids", "whole tables"),
  project("kills", "kills while writing"),
  project("storage", "an object store"),
  project("hosts", "network namespaces", skipNamespaces),
  project("engines", "MPI, Slurm, Ray, ssh", skipNamespaces),
];

/** A project of vitest with a command of its own. */
function project(name, on, skip) {
  return {
    name,
    needs: "native",
    what: `vitest on ${on}`,
    command: [process.execPath, bin("vitest/vitest.mjs"), "run", "--project", name],
    onRequest: true,
    ...(skip === undefined ? {} : { skip }),
  };
}

function skipCargo(env) {
  if (!existsSync(join(root, "native/Cargo.toml"))) return "no native/Cargo.toml";
  return missingTools(env.PATH)?.split("\n")[0];
}

/** Hosts are network namespaces, which a program of Python joins. */
function skipNamespaces() {
  if (process.getuid?.() !== 0) return "network namespaces need root";
  if (!existsSync("/dev/net/tun")) return "there is no /dev/net/tun";
  for (const [program, args, from] of [
    ["python3", ["--version"], "python3"],
    ["ip", ["netns", "list"], "iproute2"],
  ]) {
    const { status } = spawnSync(program, args, { stdio: "ignore" });
    if (status !== 0) return `${program} ${args.join(" ")} does not work here (Debian: apt-get install ${from})`;
  }
  return undefined;
}

async function main(args) {
  const { only, rest } = parseArguments(args);
  const started = performance.now();
  const chosen = sections.filter(({ name, onRequest }) => only?.includes(name) ?? onRequest !== true);
  const screen = new Screen(["setup", ...chosen.map(({ name }) => name)]);
  screen.write("setup", heading("setup", "packages, native core, build"));
  const ready = startSetup();
  const env = withCargo(process.env);
  const outcomes = new Map();
  const runLane = async (lane) => {
    await ready.build;
    for (const section of chosen.filter((section) => (section.lane ?? "node") === lane)) {
      if (section.needs === "native") await ready.native;
      outcomes.set(section.name, await runSection(section, rest, env, (chunk) => screen.write(section.name, chunk)));
      screen.end(section.name);
    }
  };
  const setUp = Promise.all([ready.native, ready.build]).then(([native]) => {
    if (!native.ready) screen.write("setup", `native core: ${native.reason}\n`);
    screen.end("setup");
  });
  // Wait for all, so that a failing setup leaves nothing running.
  const ends = await Promise.allSettled([setUp, ready.build, ready.native, runLane("node"), runLane("rust")]);
  for (const end of ends) if (end.status === "rejected") throw end.reason;

  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const outcome of outcomes.values()) for (const key of Object.keys(counts)) counts[key] += outcome[key];
  const failed = chosen.flatMap(({ name }) => (outcomes.get(name).failed > 0 ? [name] : []));
  process.stdout.write(heading("result", `${seconds(started)} s`));
  if (failed.length > 0) console.log(`failed: ${failed.join(", ")}`);
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
  console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
  return failed.length > 0 ? 1 : 0;
}

/** Shows the output of sections in order: that of the first unfinished section at once, that of later ones at their turn. */
class Screen {
  constructor(names) {
    this.names = names;
    this.kept = new Map(names.map((name) => [name, []]));
    this.ended = new Set();
    // At any end of this process, also by a signal, the buffered output is shown.
    process.once("exit", () => this.flush());
  }

  flush() {
    for (const name of this.names.splice(0)) for (const chunk of this.kept.get(name) ?? []) process.stdout.write(chunk);
    this.kept.clear();
  }

  write(name, chunk) {
    if (name === this.names[0]) process.stdout.write(chunk);
    else this.kept.get(name).push(chunk);
  }

  end(name) {
    this.ended.add(name);
    while (this.ended.has(this.names[0])) {
      this.names.shift();
      for (const chunk of this.kept.get(this.names[0]) ?? []) process.stdout.write(chunk);
      this.kept.delete(this.names[0]);
    }
  }
}

async function runSection({ name, what, command, cwd, skip, unlessGiven = [] }, rest, env, write) {
  const started = performance.now();
  write(heading(name, what));
  const reason = skip?.(env);
  if (reason !== undefined) {
    write(`left out: ${reason}\n`);
    return { passed: 0, failed: 0, skipped: 1 };
  }
  const [program, ...args] = command;
  const { status, output } = await run(program, [...args, ...(rest.length === 0 ? unlessGiven : rest)], {
    cwd: cwd === undefined ? root : join(root, cwd),
    env,
    stdio: "both",
    write: (_stream, chunk) => write(chunk),
  });
  write(`${name}: ${status === 0 ? "ok" : `failed (status ${status})`}, ${seconds(started)} s\n`);
  const counts = countTests(name, output);
  // A section without tests counts as one test; a failing command counts as at least one failure.
  if (counts === undefined) return { passed: status === 0 ? 1 : 0, failed: status === 0 ? 0 : 1, skipped: 0 };
  return status !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts;
}

/** The counts at the end of a test runner's output; undefined for a tool that counts nothing. */
function countTests(name, output) {
  const plain = stripVTControlCharacters(output);
  if (name === "vitest" || sections.find((section) => section.name === name)?.onRequest) {
    const line = /^\s*Tests\s+(.*)$/m.exec(plain)?.[1] ?? "";
    const count = (word) => Number(new RegExp(`(\\d+) ${word}`).exec(line)?.[1] ?? 0);
    return { passed: count("passed"), failed: count("failed"), skipped: count("skipped") + count("todo") };
  }
  if (name !== "cargo") return undefined;
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const [, passed, failed, ignored] of plain.matchAll(
    /test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored/g,
  )) {
    total.passed += Number(passed);
    total.failed += Number(failed);
    total.skipped += Number(ignored);
  }
  return total;
}

function parseArguments(args) {
  const onlyIndex = args.indexOf("--only");
  if (onlyIndex < 0 && args.length === 0) return { only: undefined, rest: [] };
  const names = sections.map(({ name }) => name);
  const only = onlyIndex === 0 ? (args[1] ?? "").split(",") : undefined;
  const unknown = only?.find((name) => !names.includes(name));
  if (only === undefined || unknown !== undefined) {
    throw new SetupError(`use: npm test [-- --only ${names.join("|")} [arguments of that command]]`);
  }
  return { only, rest: args.slice(2) };
}

function heading(name, what) {
  return `\n── ${name} (${what}) ${"─".repeat(Math.max(0, 70 - name.length - what.length))}\n`;
}

function seconds(started) {
  return ((performance.now() - started) / 1000).toFixed(1);
}

handleSignals();
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error instanceof SetupError ? `heddle test: ${error.message}` : error);
    process.exit(2);
  },
);
