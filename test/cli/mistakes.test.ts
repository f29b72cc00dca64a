/** What users do wrong at the command line, and with which status and words it ends: 2 for usage, 1 for a failed run. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { workerScript } from "../launch/launcher.ts";
import { partOf } from "../support/sample.ts";
import { environment, heddle, heddleUnread, script } from "./heddle-process.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const trains = script("trains.ts");
const mesh = ["--mesh", "data=2"];

interface Mistake {
  readonly args: string[];
  readonly variables?: NodeJS.ProcessEnv;
  readonly status: 1 | 2;
  readonly says: RegExp;
}

const mistakes: Mistake[] = [
  { args: ["rum", "x.ts"], status: 2, says: /unknown command 'rum'.*Did you mean run\?/s },
  { args: ["run"], status: 2, says: /missing required argument 'file'/ },
  { args: ["run", workerScript, "--worker", "2"], status: 2, says: /Did you mean --workers\?/ },
  { args: ["run", workerScript, "--workers", "two"], status: 2, says: /It must be a whole number from 1 to 1024/ },
  { args: ["run", workerScript, "--workers", "0"], status: 2, says: /It must be a whole number from 1 to 1024/ },
  {
    args: ["run", trains, "--executor", "gpu"],
    status: 1,
    says: /there is no executor 'gpu'\n.*there are native, reference/s,
  },
  { args: ["run", trains, "--with", "mpx"], status: 2, says: /Allowed choices are .*mpi/ },
  { args: ["run", trains, "--engine-args", "-v"], status: 2, says: /for the engine of --with, which is missing/ },
  { args: ["run", trains, "--with", "mpi", "--shell", "x"], status: 2, says: /two ways to start workers/ },
  { args: ["run", trains, "--with", "mpi", "--on", "a:1"], status: 2, says: /--with starts others: give one of them/ },
  {
    args: ["run", trains, "--with", "mpi"],
    variables: { PATH: "/nowhere" },
    status: 2,
    says: /--with mpi: there is neither mpirun nor mpiexec here\n.*apt-get install openmpi-bin/s,
  },
  {
    args: ["run", workerScript],
    variables: { TMPDIR: "/nonexistent" },
    status: 2,
    says: /^heddle: no folder of the run can be made in \/nonexistent: ENOENT.*\n {2}hint: TMPDIR names a folder[^\n]*\n$/,
  },
  {
    args: ["run", trains, "--restarts", "2"],
    variables: { RANK: "0", WORLD_SIZE: "2", MASTER_ADDR: "127.0.0.1" },
    status: 2,
    says: /torchrun starts the workers: let it start them again, and leave out --restarts/,
  },
  {
    args: ["plan", trains, ...mesh],
    variables: { HEDDLE_EXECUTOR: "nonsense" },
    status: 1,
    says: /there is no executor 'nonsense'\n.*there are native, reference, auto;/s,
  },
  {
    // The launcher warns for its workers.
    args: ["run", trains, "--executor", "gpu"],
    variables: { HEDDLE_THREDS: "2" },
    status: 1,
    says: /^heddle: the environment variable HEDDLE_THREDS means nothing; did you mean HEDDLE_THREADS\?\n(?!.*THREDS)/s,
  },
  { args: ["worker", "--executor", "remote"], status: 2, says: /Allowed choices are native, reference\./ },
  {
    args: ["worker"],
    variables: { HEDDLE_EXECUTOR: "native", HEDDLE_NATIVE: "off" },
    status: 1,
    says: /the native executor cannot be used: /,
  },
  {
    args: ["machine", "--out", "no/such/folder/m.json"],
    status: 2,
    says: /there is no folder no\/such\/folder to write/,
  },
  {
    args: ["machine"],
    variables: { XDG_CACHE_HOME: "/dev/null" },
    status: 2,
    says: /the folder \/dev\/null\/heddle cannot be made: .*XDG_CACHE_HOME/s,
  },
  {
    args: ["plan", trains, ...mesh, "--machine", "measured", "--threads", "1"],
    variables: { XDG_CACHE_HOME: "/dev/null" },
    status: 2,
    says: /devices of 1 thread have not been measured here/,
  },
  { args: ["run", "no/such/file.ts"], status: 2, says: /^heddle: there is no file no\/such\/file\.ts/ },
  {
    args: ["run", trains.slice(0, -3)],
    status: 2,
    says: /there is no file .*trains\n {2}hint: did you mean .*trains\.ts\?/,
  },
  { args: ["run", `${root}/README.md`], status: 2, says: /README\.md is not a program: files end in \.ts, / },
  { args: ["run", trains, "--on", "nonsense"], status: 2, says: /'nonsense' is invalid\. It can be addresses such as/ },
  {
    args: ["plan", "--diff", "a", "b", ...mesh],
    status: 2,
    says: /--diff compares plans .* leave --mesh and --machine out/,
  },
  { args: ["script", "no/such.dml"], status: 2, says: /^heddle: script: cannot read \/.*such\.dml: no such file\n$/ },
  { args: ["script", root], status: 2, says: /^heddle: script: cannot read .*: it is a folder\n$/ },
  { args: ["run", root], status: 2, says: /^heddle: .* is a folder, not a file/ },
  { args: ["plan", trains], status: 2, says: /required option '-m, --mesh <axes>' not specified/ },
  { args: ["plan", trains, "--mesh", "data"], status: 2, says: /such as data=2/ },
  {
    args: ["plan", trains, "--mesh", "data=2,data=2"],
    status: 2,
    says: /mesh axis 'data' is given twice\. A mesh is named axes/,
  },
  {
    args: ["plan", trains, "--mesh", "data=4", "data=2"],
    status: 2,
    says: /^heddle: 'data=2' is not a mesh but an argument of the file: write --mesh data=2 for another mesh, or -- before/,
  },
  { args: ["plan", "gone.ts", ...mesh, "--", "data=2"], status: 2, says: /there is no file gone\.ts/ },
  {
    args: ["plan", trains, ...mesh, "--after", "simplfy"],
    status: 2,
    says: /^heddle: there is no pass 'simplfy'\n {2}hint: passes are .*simplify/,
  },
  { args: ["plan", trains, "--mesh", "data=0"], status: 2, says: /such as data=2/ },
  { args: ["plan", trains, ...mesh, "--graph", "--json"], status: 2, says: /cannot be used with option/ },
  { args: ["plan", "gone.ts", ...mesh], status: 2, says: /there is no file gone\.ts/ },
  { args: ["doctor", "--jsn"], status: 2, says: /Did you mean --json\?/ },
  ...(
    [
      ["HEDDLE_ISA", "mmx", "scalar, avx2, avx512, avx512vnni, avx512bf16 or amx"],
      ["HEDDLE_NATIVE", "maybe", "on or off"],
      ["HEDDLE_THREADS", "0", "a whole number from 1 to 1024"],
      ["HEDDLE_TIMEOUT", "1 h", "a whole number from 1 to 86400"],
      ["HEDDLE_RESUME", "yes", "0 or 1"],
    ] as const
  ).map(
    ([name, value, legal]): Mistake => ({
      args: ["run", workerScript],
      variables: { [name]: value },
      status: 2,
      says: new RegExp(
        `^heddle: the environment variable ${name} is '${value}'\n(?: {2}at .*\n)? {2}hint: it can be ${legal}, or unset`,
      ),
    }),
  ),
  {
    args: ["run", workerScript, "--workers", "2"],
    variables: { OMPI_COMM_WORLD_SIZE: "2", OMPI_COMM_WORLD_RANK: "0" },
    status: 2,
    says: /^heddle: the environment says that this process is one of 2 \(OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=0: /,
  },
  { args: ["run", workerScript, "--", "throw:wrong"], status: 1, says: /TypeError: wrong/ },
  { args: ["plan", workerScript, ...mesh], status: 1, says: /ended without calling train\(\)/ },
  { args: ["doctor"], variables: { HEDDLE_ISA: "mmx" }, status: 1, says: /^$/ },
  { args: ["doctor"], variables: { RANK: "1", WORLD_SIZE: "2" }, status: 1, says: /^$/ },
];

test.each(partOf(mistakes, 3))("$args $variables ends with status $status", ({ args, variables, status, says }) => {
  const ended = heddle(args, variables);
  expect(ended.status).toBe(status);
  expect(ended.stderr).toMatch(says);
  // What went wrong is never told as a stack of Heddle's own.
  expect(ended.stderr).not.toMatch(/at .*\/src\/(cli|launch)\//);
});

const escaped = (text = ""): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

describe("a file that does not start is told with its place", () => {
  let folder = "";
  beforeAll(() => {
    // Inside the package, so that "heddle" is found as a user's project finds it.
    mkdirSync(join(root, ".heddle"), { recursive: true });
    folder = mkdtempSync(join(root, ".heddle/mistakes-"));
    writeFileSync(join(folder, "helper.ts"), "export const tastes: number = 1;\n");
    mkdirSync(join(folder, "common"));
    writeFileSync(join(folder, "common/package.json"), '{ "type": "commonjs" }\n');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each([
    {
      name: "misspelt.ts",
      text: 'import {\n  nn,\n  trian,\n} from "heddle";\nconsole.log(nn, trian);\n',
      says: /misspelt\.ts:3:3: 'heddle' has no export 'trian'\n {4}trian,\n {4}\^\n {2}hint: did you mean 'train'\?\n$/,
    },
    ...[
      ["nn.Linear(784, 10)", "'nn' has no 'Linear'", "did you mean 'nn.linear'?"],
      ["new nn.Conv2d(1, 2)", "'nn' has no 'Conv2d'", "did you mean 'nn.conv2d'?"],
      ["nn.Dense(10)", "'nn' has no 'Dense'", "did you mean 'nn.linear'?"],
      ["losses.CrossEntropyLoss()", "'losses' has no 'CrossEntropyLoss'", "did you mean 'losses.softmaxCrossEntropy'?"],
      ["optim.adamm({})", "'optim' has no 'adamm'", "did you mean 'optim.adam'?"],
      [
        "[...heddle.tensor([1])]",
        "heddle.tensor is not a function or its return value is not iterable",
        "if it is a tensor: x.at(index)",
      ],
      ["model.fit()", "model.fit is not a function", "a layer has init and apply; train("],
    ].map(([call, says, hint], index) => ({
      name: `member-${index}.ts`,
      text: `import * as heddle from "heddle";\nimport { losses, nn, optim } from "heddle";\nconst model: any = heddle.nn.relu();\n[losses, nn, optim, model];\n(${call?.replace(/^(new )?(losses|nn|optim)/, "$1($2 as any)")});\n`,
      says: new RegExp(`member-${index}\\.ts:5:\\d+: ${escaped(says)}\\n.*\\n.*\\n {2}hint: ${escaped(hint)}`),
    })),
    {
      name: "relative.ts",
      text: 'import { taste } from "./helper.ts";\nconsole.log(taste);\n',
      says: /relative\.ts:1:10: '\.\/helper\.ts' has no export 'taste'\n.*\n.*\n {2}hint: did you mean 'tastes'\?\n$/,
    },
    {
      name: "syntax.ts",
      text: "const x: number = 1;\nconst y = = x;\n",
      says: /syntax\.ts:2:11: Unexpected "="\n {2}const y = = x;\n {12}\^\n$/,
    },
    {
      name: "common/mine.ts",
      text: "const x: number = 1;\nawait Promise.resolve(x);\n",
      says: /mine\.ts:2:1: Top-level await .* "cjs" output format\n.*\n.*\n {2}hint: .*"type": "module" in the package\.json/,
    },
    {
      name: "nowhere.ts",
      text: '\nimport { x } from "./nowhere-else.ts";\nconsole.log(x);\n',
      says: /nowhere\.ts:2:19: there is no file '\.\/nowhere-else\.ts'\n/,
    },
    {
      name: "package.ts",
      text: 'import { x } from "hedle";\nconsole.log(x);\n',
      says: /package\.ts:1:19: the package 'hedle' is not installed\n.*\n.*\n {2}hint: did you mean 'heddle'\?\n$/,
    },
    {
      name: "condition.ts",
      text: 'import { tensor } from "heddle";\n\nconst x = tensor(1);\nconsole.log(x.gt(0) ? 1 : 2);\n',
      says: /\? : on bool\[\]: a tensor is an object and therefore always true, .*\n {2}at .*condition\.ts:4:13\n {2}hint: await x\.item\(\)/,
    },
  ])("$name", ({ name, text, says }) => {
    writeFileSync(join(folder, name), text);
    const { status, stderr } = heddle(["run", join(folder, name)]);
    expect(status).toBe(1);
    expect(stderr).toMatch(says);
  });
});

describe("a reader that goes away ends the command quietly", () => {
  test.each([{ args: ["run", script("chatty.mjs")] }, { args: ["run", script("chatty.mjs"), "--prefix", "all"] }])(
    "$args",
    async ({ args }) => {
      expect(await heddleUnread(args)).toEqual({ status: 141, stdout: "", stderr: "" });
    },
  );
});

test("doctor names the instruction set that is asked for, and variables that mean nothing", () => {
  const { stdout } = heddle(["doctor"], { HEDDLE_ISA: "scalar", HEDDLE_THRAEDS: "2" });
  expect(stdout).toMatch(/native core +(ok, .*uses scalar|missing)/);
  expect(stdout).toMatch(/environment +HEDDLE_ISA=scalar\n/);
  expect(stdout).toContain("HEDDLE_THRAEDS means nothing; did you mean HEDDLE_THREADS?");
  expect(environment({ HEDDLE_ISA: "scalar" })["HEDDLE_ISA"]).toBe("scalar");
});
