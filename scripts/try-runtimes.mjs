// `npm run test:runtimes`: tries what works in each runtime. npm installs the package, as published, into an empty project,
// and the runtimes into .heddle/runtimes (800 MB on disk); each of them runs small programs in the project.
//
//   npm run test:runtimes                  compares the results with the table of docs/runtimes.md
//   npm run test:runtimes -- --write       updates that table
//   npm run test:runtimes -- --quick       one Node, Bun and Deno, and the columns that need the least time (400 MB on disk)
//   npm run test:runtimes -- --skip bun    without a runtime that this machine cannot have

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ownTarget } from "../native/targets.mjs";
import { pack } from "./pack.mjs";
import { handleSignals, run } from "./process.mjs";
import { makeProject, npm } from "./project.mjs";
import { setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const home = join(root, ".heddle/runtimes");
const page = join(root, "docs/runtimes.md");
const system = `${process.platform}-${process.arch}`;

/** Nodes by version: the oldest, the last ones that cannot require modules, the supported lines, the newest. */
const nodes = ["20.17.0", "20.20.2", "22.11.0", "22.23.5", "24.22.3", "26.12.1"];

/** The version of Node for `--quick`. */
const quickNode = "24.22.3";

/** Each runtime with the package of its program, and the program's arguments to run a file. */
const allRuntimes = [
  ...nodes.map((version) => ({
    name: `Node ${version}`,
    package: `node-${system}`,
    version,
    program: "bin/node",
    args: [],
    quick: version === quickNode,
  })),
  { name: "Bun 1.4.5", package: `@oven/bun-${system}`, version: "1.4.5", program: "bin/bun", args: [], quick: true },
  {
    name: "Deno 2.9.6",
    package: `@deno/${system}${process.platform === "linux" ? "-glibc" : ""}`,
    version: "2.9.6",
    program: "deno",
    args: ["run", "--allow-all"],
    quick: true,
  },
];

const training = `
import { data, losses, nn, optim, tensor, train } from "heddle";
const column = (scale: number) => ({ shape: [8, 1], data: Float32Array.from({ length: 8 }, (_, i) => (i / 8) * scale) });
const { history, predict } = await train({
  model: nn.sequential(nn.linear(4), nn.relu(), nn.linear(1)),
  data: data.fromArrays({ x: column(1), y: column(2) }).batch(4),
  loss: losses.mse,
  optimizer: optim.adam({ learningRate: 0.1 }),
  epochs: 3,
});
const guess = await predict(tensor([[0.5]]));
console.log("loss", history.at(-1)?.loss.toFixed(4), guess.shape.join(" "));
`;

/** The programs by file. */
const files = {
  "import.mjs": 'import { tensor } from "heddle";\nconsole.log(String(await tensor([1, 2]).add(1).array()));\n',
  "require.cjs":
    'const { tensor } = require("heddle");\ntensor([1, 2]).add(1).array().then((sum) => console.log(String(sum)));\n',
  "collect.mjs": `import { memory, tensor } from "heddle";
for (let i = 0; i < 20_000; i++) tensor([1, 2, 3]).add(i);
for (let i = 0; i < 300; i++) {
  new ArrayBuffer(1e6);
  if (i % 10 === 0) await new Promise((done) => setTimeout(done));
}
console.log("collected", memory().liveBytes < 10_000_000);
`,
  "train.ts": training,
  "auto.ts": `import { jit, type Tensor, tensor } from "heddle";
const size = jit((x: Tensor) => {
  "use heddle";
  return (x.sum().lt(0) as unknown as boolean) ? x.neg() : x;
});
console.log(String(await size(tensor([-1, -2])).array()));
`,
  "throw.ts": 'throw new Error("as written");\n',
};

const command = join("node_modules", "heddle", "bin", "heddle.js");
const trained = [/native executor[\s\S]*loss 0\.2486 1 1\n/];

/** The trials: the column's title, the arguments, the expected output; `refused`: a clear refusal, which is also a right answer. */
const allTrials = [
  { title: "`import`", args: ["import.mjs"], prints: [/^2,3\n$/] },
  {
    title: "`require`",
    args: ["require.cjs"],
    prints: [/^2,3\n$/],
    refused: /require\(\) of ES Module .* not supported\.\n/,
    quick: true,
  },
  { title: "memory comes back", args: ["collect.mjs"], prints: [/^collected true\n$/] },
  { title: "TypeScript by itself", args: ["train.ts"], prints: trained, refused: /Unknown file extension "\.ts"/ },
  { title: "`heddle run`", args: [command, "run", "train.ts"], prints: trained, quick: true },
  {
    title: "`--workers 2`",
    args: [command, "run", "train.ts", "--workers", "2"],
    prints: [...trained, /\[rank 1\] loss 0\.2486 1 1\n/],
  },
  { title: '`"use heddle"`', args: [command, "run", "auto.ts"], prints: [/^1,2\n$/], quick: true },
  {
    title: "failures told",
    args: [command, "run", "throw.ts", "--workers", "2"],
    status: 1,
    prints: [/rank \d failed: as written\n/],
  },
  { title: "`heddle doctor`", args: [command, "doctor", "--json"], prints: [/"loaded": true/] },
];

/** The name of a runtime in npm's folder and for `--skip`: npm keeps only one version of a package under the package's name. */
const called = ({ name }) => name.toLowerCase().replace(" ", "-");
const programOf = (runtime) => join(home, "node_modules", called(runtime), runtime.program);

function install(runtimes) {
  const missing = runtimes.filter((runtime) => !existsSync(programOf(runtime)));
  if (missing.length === 0) return;
  mkdirSync(home, { recursive: true });
  if (!existsSync(join(home, "package.json"))) writeFileSync(join(home, "package.json"), '{ "private": true }\n');
  for (const runtime of missing) {
    console.log(`installing ${runtime.name} (100 MB on disk) into .heddle/runtimes`);
    try {
      npm(["install", `${called(runtime)}@npm:${runtime.package}@${runtime.version}`], home);
    } catch {
      throw new Error(
        `${runtime.name} cannot be installed on this machine; to continue without it: --skip ${called(runtime)}`,
      );
    }
  }
}

/** An empty project with the package as published. */
function makeOwnProject() {
  const project = join(home, "project");
  const tarballs = pack(join(home, "packages")).filter((path) => /heddle-\d/.test(path) || path.includes(ownTarget()));
  makeProject(project, files, tarballs);
  return project;
}

async function attempt(runtime, { args, prints, refused, status = 0 }, project) {
  const program = programOf(runtime);
  // A program that starts the runtime by name gets the same version.
  const env = { ...process.env, NO_COLOR: "1", PATH: `${dirname(program)}${delimiter}${process.env.PATH}` };
  const ran = await run(program, [...runtime.args, ...args], { cwd: project, env, stdio: "capture" });
  if (ran.status === status && prints.every((pattern) => pattern.test(ran.output))) return "yes";
  if (refused?.test(ran.output)) return "no";
  console.log(`${runtime.name}: ${args.join(" ")}: status ${ran.status}\n${ran.output}`);
  return "FAILS";
}

/** The results: by runtime, by title of the trial. */
async function tryAll(runtimes, trials, project) {
  const results = {};
  for (const runtime of runtimes) {
    const cells = {};
    for (const trial of trials) cells[trial.title] = await attempt(runtime, trial, project);
    results[runtime.name] = cells;
    console.log([runtime.name, ...Object.values(cells)].join("  "));
  }
  return results;
}

const marked = /(<!-- table of npm run test:runtimes -->\n)([\s\S]*?)(<!-- end -->)/;
const cellsOf = (line) =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());

/** The table as Markdown; cells without a trial keep their text. */
function tableOf(results, oldTable) {
  const [titles, , ...rows] = oldTable.trim().split("\n").map(cellsOf);
  const oldCell = (name, title) => rows.find(([row]) => row === name)?.[titles.indexOf(title)] ?? "?";
  const header = ["", ...allTrials.map(({ title }) => title)];
  const lines = allRuntimes.map(({ name }) => [
    name,
    ...allTrials.map(({ title }) => results[name]?.[title] ?? oldCell(name, title)),
  ]);
  return [header, header.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

const optionsOfCommand = {
  write: { type: "boolean", default: false },
  quick: { type: "boolean", default: false },
  skip: { type: "string", multiple: true, default: [] },
};

function parse(args) {
  try {
    return parseArgs({ args, options: optionsOfCommand }).values;
  } catch (error) {
    throw new Error(`${error.message}; use: npm run test:runtimes [-- --write] [-- --quick] [-- --skip <runtime>]`);
  }
}

async function main(args) {
  const { write, quick, skip } = parse(args);
  const isAsked = (item) => !quick || item.quick === true;
  const runtimes = allRuntimes.filter(
    (runtime) => isAsked(runtime) && !skip.some((name) => called(runtime).startsWith(name)),
  );
  await setup({ only: ["packages", "native", "build"] });
  install(runtimes);
  const results = await tryAll(runtimes, allTrials.filter(isAsked), makeOwnProject());
  const text = readFileSync(page, "utf8");
  const newText = text.replace(marked, (_, start, oldTable, end) => `${start}${tableOf(results, oldTable)}${end}`);
  if (write) writeFileSync(page, newText);
  if (JSON.stringify(results).includes("FAILS")) throw new Error("some trials failed");
  if (!write && newText !== text)
    throw new Error("docs/runtimes.md has other results; to update it: npm run test:runtimes -- --write");
}

handleSignals();
main(process.argv.slice(2)).catch((error) => {
  console.error(`heddle test:runtimes: ${error.message}`);
  process.exit(1);
});
