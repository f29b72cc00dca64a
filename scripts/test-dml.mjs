// `npm run test:dml`: runs the builtin scripts of SystemDS on small data (test/script/cases.mjs) by SystemDS and by Heddle, compares
// the results, and writes the table of docs/dml.md. Needs Java 17. SystemDS goes into its own virtual environment, .heddle/dml; what it
// gave for a case is kept there, so that a second run starts no Java.
//
//   npm run test:dml                 all of them
//   npm run test:dml -- lm kmeans    some; the table is not written
//   npm run test:dml -- --kept       what Heddle gave last, without running anything by it

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cases, scriptOf } from "../test/script/cases.mjs";
import { missing } from "../test/script/cases-frames.mjs";
import { pythonEnvironment } from "./python.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const environment = join(root, ".heddle", "dml");
const results = join(environment, "results");
const bySystemds = join(root, "test", "script", "run-systemds.py");
const page = join(root, "docs", "dml.md");
const mostSeconds = 60;

/**
 * Runs cases in one process, which prints a line of JSON as each ends; a case that takes too long ends the process, and the next ones get
 * another. `start` gives the command for the cases that are left. Returns the error of each case that has one.
 */
async function inProcesses(chosen, start, ended = () => {}) {
  const errors = new Map();
  const left = [...chosen];
  const end = (one, error) => {
    if (error !== undefined) errors.set(one.script, error);
    ended(one, error);
  };
  while (left.length > 0) {
    const [command, ...args] = start(left);
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    const stop = () => {
      end(left.shift(), `no result within ${mostSeconds} seconds`);
      child.kill("SIGKILL");
    };
    let timer = setTimeout(stop, mostSeconds * 1000);
    let rest = "";
    const before = left.length;
    child.stdout.on("data", (data) => {
      rest += data;
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const line of lines) {
        end(left.shift(), JSON.parse(line).error ?? undefined);
        clearTimeout(timer);
        timer = setTimeout(stop, mostSeconds * 1000);
      }
    });
    await new Promise((resolve) => child.on("close", resolve));
    clearTimeout(timer);
    if (left.length === before) end(left.shift(), "the process that computes it ended");
  }
  return errors;
}

const folderOf = (side, { script }) => join(results, side, script);

/** What SystemDS gives; where a case has not changed, what it gave before. */
async function runBySystemds(python, chosen) {
  const errors = new Map();
  const stale = chosen.filter((one) => {
    const folder = folderOf("systemds", one);
    const text = scriptOf(one, folder);
    const stamp = join(folder, "stamp.json");
    if (existsSync(stamp)) {
      const { hash, error } = JSON.parse(readFileSync(stamp, "utf8"));
      if (error !== undefined) errors.set(one.script, error);
      if (hash === hashOf(text)) return false;
    }
    errors.delete(one.script);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "case.dml"), text);
    return true;
  });
  const found = await inProcesses(
    stale,
    (left) => [python, bySystemds, ...left.map((one) => join(folderOf("systemds", one), "case.dml"))],
    (one, error) => {
      const folder = folderOf("systemds", one);
      const hash = hashOf(readFileSync(join(folder, "case.dml"), "utf8"));
      writeFileSync(join(folder, "stamp.json"), JSON.stringify({ hash, error }));
    },
  );
  return new Map([...errors, ...found]);
}

const hashOf = (text) => createHash("sha256").update(text).digest("hex");

/** Errors of what Heddle gave last: results that are not there. */
const keptOf = (chosen) =>
  new Map(
    chosen
      .filter((one) => !one.results.every((name) => existsSync(join(folderOf("heddle", one), `${name}.csv`))))
      .map((one) => [one.script, "no result from Heddle"]),
  );

/** What Heddle gives. */
function runByHeddle(library, chosen) {
  for (const one of chosen) rmSync(folderOf("heddle", one), { recursive: true, force: true });
  return inProcesses(chosen, (left) => [
    process.execPath,
    // Not by tsx's command: a signal would end that, and not the process that computes.
    ...["--import", "tsx", "--conditions", "heddle-source"],
    ...[join(root, "test/script/run-cases.ts"), library, join(results, "heddle")],
    ...left.map(({ script }) => script),
  ]);
}

/** A number where the text is one, else the text. */
function cellOf(word) {
  if (/^(TRUE|FALSE)$/i.test(word)) return Number(/^T/i.test(word));
  if (word === "NaN") return Number.NaN;
  return word === "" || Number.isNaN(Number(word)) ? word : Number(word);
}

const cellsOf = (file) =>
  readFileSync(file, "utf8")
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => line.replaceAll('"', "").split(",").map(cellOf));

const isSame = (x, y) =>
  Object.is(x, y) || x === y || (typeof x === "number" && Math.abs(x - y) <= 1e-6 * Math.max(1, Math.abs(x)));

/** How two results differ; undefined where they agree. */
function difference(one) {
  for (const name of one.results) {
    const [theirs, ours] = ["systemds", "heddle"].map((side) => cellsOf(join(folderOf(side, one), `${name}.csv`)));
    if (theirs.length !== ours.length || theirs[0].length !== ours[0].length)
      return `${name} is ${ours.length}x${ours[0].length}, not ${theirs.length}x${theirs[0].length}`;
    if (one.random) continue;
    for (let i = 0; i < theirs.length; i++)
      for (let j = 0; j < theirs[i].length; j++) {
        const [x, y] = [theirs[i][j], ours[i][j]];
        if (!isSame(x, y)) return `${name}[${i + 1}, ${j + 1}] is ${y}, not ${x}`;
      }
  }
  return undefined;
}

function stateOf(one, systemdsError, heddleError) {
  if (systemdsError !== undefined)
    return heddleError === undefined ? "not compared: SystemDS refuses the case" : "not compared: both refuse the case";
  if (heddleError !== undefined) return `not yet: ${heddleError.replaceAll("|", "\\|").replaceAll(root, "")}`;
  const differs = difference(one);
  if (differs !== undefined) return `differs: ${differs}`;
  return one.random ? "same sizes (random numbers)" : "same";
}

async function main(args) {
  const names = args.filter((arg) => arg !== "--kept");
  const python = await pythonEnvironment({
    name: "dml",
    requirements: join(root, "test", "script", "requirements.txt"),
    say: () => console.log("installing SystemDS into .heddle/dml"),
  });
  if (!existsSync(join(environment, "scripts"))) spawnSync(python, [bySystemds, "--unpack", environment]);
  const library = join(environment, "scripts", "builtin");
  const unknown = names.filter((name) => !cases.some(({ script }) => script === name));
  if (unknown.length > 0) throw new Error(`there is no case ${unknown.join(", ")} in test/script/cases.mjs`);
  const chosen = cases.filter(({ script }) => names.length === 0 || names.includes(script));
  const theirs = await runBySystemds(python, chosen);
  const ours = args.includes("--kept") ? keptOf(chosen) : await runByHeddle(library, chosen);
  const states = new Map(chosen.map((one) => [one.script, stateOf(one, theirs.get(one.script), ours.get(one.script))]));
  for (const [name, state] of states) console.log(`${name}: ${state}`);
  const all = readdirSync(library)
    .filter((file) => file.endsWith(".dml"))
    .map((file) => file.slice(0, -4))
    .sort();
  const count = (test) => [...states.values()].filter(test).length;
  const [same, sizes] = [count((state) => state === "same"), count((state) => state.startsWith("same sizes"))];
  console.log(`${same} the same, ${sizes} of the same sizes, of ${chosen.length} cases and ${all.length} scripts`);
  if (names.length === 0) writeTable(all, states, same, sizes);
  return count((state) => state.startsWith("differs")) === 0 ? 0 : 1;
}

function writeTable(all, states, same, sizes) {
  const stateInTable = (name) => {
    const state = states.get(name);
    return /^same/.test(state ?? "") ? state : (missing[name] ?? state ?? "no case yet");
  };
  const lines = all.map((name) => `| ${name} | ${stateInTable(name)} |`);
  const share = Math.round((1000 * (same + sizes)) / all.length) / 10;
  const head = `${same} of ${all.length} scripts give the same results, and ${sizes} more, which draw random numbers, results of the same sizes: ${share} %.`;
  const table = `<!-- table -->\n\n${head}\n\n| script | state |\n| --- | --- |\n${lines.join("\n")}\n\n<!-- end of the table -->`;
  writeFileSync(
    page,
    readFileSync(page, "utf8").replace(/<!-- table -->[\s\S]*<!-- end of the table -->/, () => table),
  );
}

process.exitCode = await main(process.argv.slice(2));
