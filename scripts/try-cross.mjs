// `npm run test:cross`: whether the native packages of Linux run, and what they compute, each with a Node of its processor and C
// library: arm64 in an emulator. The packages as they would be published are installed into an empty project for each, small
// programs are run there, and their numbers are compared, bit by bit, with those of x64 and glibc.
//
//   npm run test:cross               compares what was seen with the table of docs/internals/releasing.md
//   npm run test:cross -- --write    writes that table anew
//   npm run test:cross -- TARGET …   these alone, beside that of x64 and glibc
//
// The packages come from `node native/cross.mjs`; the rest from Debian's and Python's packages, on an x64 Linux with apt-get.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { crossTargets, toolsPython } from "../native/cross.mjs";
import { addonName, packages, targets } from "../native/targets.mjs";
import { differences } from "./cross/compare.mjs";
import { home, nodeFor } from "./cross/rooms.mjs";
import { pack } from "./pack.mjs";
import { handleSignals, run } from "./process.mjs";
import { makeProject } from "./project.mjs";
import { setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = join(root, "docs/internals/releasing.md");
const marked = /(<!-- table of npm run test:cross -->\n)[\s\S]*?(<!-- end -->)/;

/** Prints all bits of a training's losses and a digest of what it predicts. */
const training = `import { createHash } from "node:crypto";
import { data, losses, nn, optim, random, train } from "heddle";
const x = random.normal(random.key(1), [256, 16]);
const y = { shape: [256], data: Int32Array.from({ length: 256 }, (_, index) => index % 10) };
const result = await train({
  model: nn.sequential(nn.linear(32), nn.gelu(), nn.layerNorm(), nn.linear(10)),
  data: data.fromArrays({ x: { shape: x.shape, data: await x.data() }, y }).batch(32),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 4,
});
const predicted = Float32Array.from(await (await result.predict(x)).data());
const digest = createHash("sha256").update(predicted).digest("hex").slice(0, 16);
console.log("result", result.history.map(({ loss }) => loss).join(" "), digest);
`;

const command = join("node_modules", "heddle", "bin", "heddle.js");

/** What is run besides the table of ops: the column's title, the arguments, what of the output is compared. */
const trials = [
  { title: "`heddle doctor`", args: [command, "doctor", "--json"], shown: /"loaded": true/ },
  { title: "training", args: ["train.mjs"], shown: /native executor[\s\S]*(result .*)/ },
  { title: "`--workers 2`", args: [command, "run", "train.mjs", "--workers", "2"], shown: /\[rank 1\] (result .*)/ },
];

/** The table of ops as one program: tests' fixtures are read where they are. */
const bundleResults = (file) =>
  build({
    entryPoints: [join(root, "test/native/results-child.ts")],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    conditions: ["heddle-source"],
    logLevel: "error",
    plugins: [
      {
        name: "outside of vitest",
        setup(plugins) {
          plugins.onResolve({ filter: /^vitest$/ }, () => ({ path: "vitest", external: true, sideEffects: false }));
          plugins.onLoad({ filter: /\/test\/.*\.ts$/ }, ({ path }) => ({
            loader: "ts",
            contents: readFileSync(path, "utf8").replaceAll(
              "import.meta.url",
              JSON.stringify(pathToFileURL(path).href),
            ),
          }));
        },
      },
    ],
  });

/** A project of a target, installed by npm for that platform. */
async function projectOf(name, tarballs) {
  const folder = join(home, "projects", name);
  const { os, cpu, libc } = targets[name];
  const own = tarballs.filter((path) => /heddle-\d/.test(path) || path.includes(`heddle-${name}-`));
  // By force: npm holds packages that it is given by name against this machine, whatever platform it is told.
  makeProject(folder, { "train.mjs": training }, own, ["--force", "--os", os, "--cpu", cpu, "--libc", libc]);
  await bundleResults(join(folder, "results.mjs"));
  return folder;
}

/** What a target's programs print, and its numbers of the table of ops. */
async function observe(name, python, tarballs) {
  const node = nodeFor(name, targets[name], python);
  const cwd = await projectOf(name, tarballs);
  const env = { ...process.env, NO_COLOR: "1" };
  const seen = {};
  for (const { title, args, shown } of trials) {
    const { status, output } = await run(node, args, { cwd, env, stdio: "capture" });
    const found = shown.exec(output);
    if (status !== 0 || found === null) throw new Error(`${name}: ${args.join(" ")}: status ${status}\n${output}`);
    seen[title] = found[1] ?? found[0];
  }
  const { status, output } = await run(node, ["results.mjs", "results.json"], { cwd, env, stdio: "capture" });
  if (status !== 0) throw new Error(`${name}: the table of ops: status ${status}\n${output}`);
  const { version, isa, all } = JSON.parse(readFileSync(join(cwd, "results.json"), "utf8"));
  return { name, version, isa, seen, all };
}

/** A row of the table; `first` is what the others are compared with. */
function rowOf(first, { name, version, isa, seen, all }) {
  const cells = trials.map(({ title }) => (seen[title] === first.seen[title] ? "the same" : "OTHER NUMBERS"));
  const apart = differences(first.all, all);
  for (const { name: row, apart: most } of apart) console.log(`${name}: ${row}: ${most.toExponential(1)} apart`);
  const most = apart[0] === undefined ? "" : `, others ${apart[0].apart.toExponential(0)} apart at most`;
  const same = `${all.length - apart.length} of ${all.length} the same${most}`;
  return [`\`${name}\``, `Node ${version}${targets[name].cpu === "arm64" ? ", emulated" : ""}`, isa, ...cells, same];
}

async function main(args) {
  const named = args.filter((arg) => arg !== "--write");
  const unknown = named.find((name) => !crossTargets.includes(name));
  if (unknown !== undefined || (named.length > 0 && named.length < args.length))
    throw new Error(`use: npm run test:cross [-- --write | ${crossTargets.join(" | ")}]`);
  // The first is what the others are compared with.
  const wanted = crossTargets.filter((name, index) => index === 0 || named.length === 0 || named.includes(name));
  const lacking = wanted.filter((name) => !existsSync(join(packages, name, addonName(name))));
  if (lacking.length > 0) throw new Error(`build first: node native/cross.mjs ${lacking.join(" ")}`);
  await setup({ only: ["packages", "build"] });
  const python = await toolsPython();
  const tarballs = pack(join(home, "packages"));
  const seen = [];
  for (const name of wanted) {
    console.log(`running ${name}`);
    seen.push(await observe(name, python, tarballs));
  }
  const rows = seen.map((each) => rowOf(seen[0], each));
  const titles = ["package", "run by", "instructions", ...trials.map(({ title }) => title), "table of ops"];
  const lines = [titles, titles.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  const table = `${lines.join("\n")}\n`;
  console.log(table);
  const text = readFileSync(page, "utf8");
  const outdated = "docs/internals/releasing.md says otherwise: npm run test:cross -- --write";
  if (named.length > 0) {
    if (!lines.every((line) => text.includes(`${line}\n`))) throw new Error(outdated);
    return;
  }
  const anew = text.replace(marked, (_, start, end) => `${start}${table}${end}`);
  if (args.includes("--write")) writeFileSync(page, anew);
  else if (anew !== text) throw new Error(outdated);
}

handleSignals();
main(process.argv.slice(2)).catch((error) => {
  console.error(`heddle test:cross: ${error.message}`);
  process.exit(1);
});
