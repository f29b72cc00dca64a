// `npm run test:runtimes`: what works in which runtime. The package as it would be published is installed into an empty project,
// and small programs are run there by each of the runtimes, which npm brings into .heddle/runtimes (800 MB on disk).
//
//   npm run test:runtimes               compares what was seen with the table of docs/runtimes.md
//   npm run test:runtimes -- --write    writes that table anew

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ownTarget } from "../native/targets.mjs";
import { pack } from "./pack.mjs";
import { handleSignals, run } from "./process.mjs";
import { makeProject, npm } from "./project.mjs";
import { setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const home = join(root, ".heddle/runtimes");
const page = join(root, "docs/runtimes.md");
const system = `${process.platform}-${process.arch}`;

/** Nodes by version: the oldest, the last ones that cannot require modules, those that are kept, the newest. */
const nodes = ["20.17.0", "20.20.2", "22.11.0", "22.23.5", "24.22.3", "26.12.1"];

/** Each with the package that its program is in, and how the program is told to run a file. */
const runtimes = [
  ...nodes.map((version) => ({
    name: `Node ${version}`,
    package: `node-${system}`,
    version,
    program: "bin/node",
    args: [],
  })),
  { name: "Bun 1.4.5", package: `@oven/bun-${system}`, version: "1.4.5", program: "bin/bun", args: [] },
  {
    name: "Deno 2.9.6",
    package: `@deno/${system}${process.platform === "linux" ? "-glibc" : ""}`,
    version: "2.9.6",
    program: "deno",
    args: ["run", "--allow-all"],
  },
];

const training = `
import { data, losses, nn, optim, train } from "heddle";
const column = (scale: number) => ({ shape: [8, 1], data: Float32Array.from({ length: 8 }, (_, i) => (i / 8) * scale) });
const { history } = await train({
  model: nn.sequential(nn.linear(4), nn.relu(), nn.linear(1)),
  data: data.fromArrays({ x: column(1), y: column(2) }).batch(4),
  loss: losses.mse,
  optimizer: optim.adam({ learningRate: 0.1 }),
  epochs: 3,
});
console.log("loss", history.at(-1)?.loss.toFixed(4));
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
const trained = [/native executor[\s\S]*loss 0\.2486\n/];

/** What is tried: the column's title, the arguments, what has to be printed; `refused`: a clear sentence that is an answer too. */
const trials = [
  { title: "`import`", args: ["import.mjs"], prints: [/^2,3\n$/] },
  {
    title: "`require`",
    args: ["require.cjs"],
    prints: [/^2,3\n$/],
    refused: /require\(\) of ES Module .* not supported\.\n/,
  },
  { title: "memory comes back", args: ["collect.mjs"], prints: [/^collected true\n$/] },
  { title: "TypeScript by itself", args: ["train.ts"], prints: trained, refused: /Unknown file extension "\.ts"/ },
  { title: "`heddle run`", args: [command, "run", "train.ts"], prints: trained },
  {
    title: "`--workers 2`",
    args: [command, "run", "train.ts", "--workers", "2"],
    prints: [...trained, /\[rank 1\] loss 0\.2486\n/],
  },
  { title: '`"use heddle"`', args: [command, "run", "auto.ts"], prints: [/^1,2\n$/] },
  {
    title: "failures told",
    args: [command, "run", "throw.ts", "--workers", "2"],
    status: 1,
    prints: [/rank \d failed: as written\n/],
  },
  { title: "`heddle doctor`", args: [command, "doctor", "--json"], prints: [/"loaded": true/] },
];

/** Where a runtime's program is; installed under a name of its own, since npm holds one version of a package. */
const programOf = ({ name, program }) => join(home, "node_modules", name.toLowerCase().replace(" ", "-"), program);

function install() {
  if (runtimes.every((runtime) => existsSync(programOf(runtime)))) return;
  console.log("installing runtimes (800 MB on disk) into .heddle/runtimes");
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), '{ "private": true }\n');
  const wanted = runtimes.map(
    (each) => `${each.name.toLowerCase().replace(" ", "-")}@npm:${each.package}@${each.version}`,
  );
  npm(["install", "--no-save", ...wanted], home);
}

/** An empty project with the package as published. */
function makeOwnProject() {
  const project = join(home, "project");
  const own = pack(join(home, "packages")).filter((path) => /heddle-\d/.test(path) || path.includes(ownTarget()));
  makeProject(project, files, own);
  return project;
}

async function attempt(runtime, { args, prints, refused, status = 0 }, project) {
  const program = programOf(runtime);
  // What a program starts by name is the same runtime.
  const env = { ...process.env, NO_COLOR: "1", PATH: `${dirname(program)}${delimiter}${process.env.PATH}` };
  const ran = await run(program, [...runtime.args, ...args], { cwd: project, env, stdio: "capture" });
  if (ran.status === status && prints.every((pattern) => pattern.test(ran.output))) return "yes";
  if (refused?.test(ran.output)) return "no";
  console.log(`${runtime.name}: ${args.join(" ")}: status ${ran.status}\n${ran.output}`);
  return "FAILS";
}

/** The table as Markdown. */
async function tryAll(project) {
  const rows = [];
  for (const runtime of runtimes) {
    const cells = [];
    for (const trial of trials) cells.push(await attempt(runtime, trial, project));
    rows.push([runtime.name, ...cells]);
    console.log(rows.at(-1).join("  "));
  }
  const lines = [["", ...trials.map(({ title }) => title)], ["---", ...trials.map(() => "---")], ...rows];
  return `${lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}\n`;
}

const marked = /(<!-- table of npm run test:runtimes -->\n)[\s\S]*?(<!-- end -->)/;

async function main(args) {
  if (args.some((arg) => arg !== "--write")) throw new Error("use: npm run test:runtimes [-- --write]");
  await setup({ only: ["packages", "native", "build"] });
  install();
  const table = await tryAll(makeOwnProject());
  const text = readFileSync(page, "utf8");
  const wanted = text.replace(marked, (_, start, end) => `${start}${table}${end}`);
  if (args.includes("--write")) writeFileSync(page, wanted);
  else if (wanted !== text) throw new Error("docs/runtimes.md says otherwise: npm run test:runtimes -- --write");
  if (table.includes("FAILS")) throw new Error("some runtimes fail at what they should do");
}

handleSignals();
main(process.argv.slice(2)).catch((error) => {
  console.error(`heddle test:runtimes: ${error.message}`);
  process.exit(1);
});
