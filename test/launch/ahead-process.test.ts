/** Programs compiled ahead, and those that the loader runs, by `heddle run`: the same results, the same errors, whatever happens to the cache. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { environment } from "../cli/heddle-process.ts";
import { partOf } from "../support/sample.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
let folder = "";
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "heddle-ahead-")));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "heddle"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

type Files = Readonly<Record<string, string>>;
const moduleType = '{ "type": "module" }';

function write(files: Files): void {
  for (const [name, text] of Object.entries({ "package.json": moduleType, ...files })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

async function run(file = "main.ts", workers = 1) {
  const args = [join(root, "bin", "heddle.js"), "run", join(folder, file), "--workers", String(workers), "--quiet"];
  const child = spawn(process.execPath, args, { cwd: folder, env: environment(), stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (text: string) => {
      output[name] += text;
    });
  const [status] = (await once(child, "close")) as [number | null];
  return { status, ...output };
}

const programs = (): string => join(folder, ".heddle", "cache", "programs");
/** Whether this process runs a compiled file, or the loader has it. */
const how =
  'export const how: string = process.execArgv.some((word) => word.includes("compiled=")) ? "compiled" : "loader";\n';

describe("results", () => {
  const same = 'import { how } from "./how.ts";\n';
  const cases: readonly (readonly [what: string, how: string, files: Files, printed: readonly string[]])[] = [
    [
      "places, JSON and what only TypeScript has",
      "compiled",
      {
        "main.ts": `${same}import info from "./info.json" with { type: "json" };
import { Kind, type Shape } from "./lib/kinds.js";
const shape: Shape = { kind: Kind.Round };
console.log(how, JSON.stringify([info, shape, info["__proto__"]]));
console.log(import.meta.url === new URL("main.ts", \`file://\${process.cwd()}/\`).href, import.meta.dirname === process.cwd());
console.log(import.meta.filename === process.argv[1], process.argv.length);`,
        "lib/kinds.ts": "export enum Kind { Flat, Round }\nexport interface Shape { kind: Kind }\n",
        "info.json": '{ "a": [1], "__proto__": 2 }',
      },
      ['[{"a":[1],"__proto__":2},{"kind":1},2]', "true true", "true 2"],
    ],
    [
      "a circle of imports",
      "compiled",
      {
        "main.ts": `${same}import { even } from "./even.ts";\nconsole.log(how, even(5));`,
        "even.ts": 'import { odd } from "./odd";\nexport const even = (n: number): boolean => n === 0 || odd(n - 1);',
        "odd.ts": 'import { even } from "./even";\nexport const odd = (n: number): boolean => n !== 0 && even(n - 1);',
      },
      ["false"],
    ],
    [
      '"use heddle"',
      "compiled",
      {
        "main.ts": `${same}import { jit, tensor, type Tensor } from "heddle";
const relu = jit((x: Tensor): Tensor => {
  "use heddle";
  if (x.sum().gt(0)) return x.mul(2);
  return x.neg();
});
console.log(how, ...(await relu(tensor([1, 2])).data()), ...(await relu(tensor([-1, -2])).data()));`,
      },
      ["2 4 1 2"],
    ],
    [
      "a thread of another file",
      "compiled",
      {
        "main.ts": `${same}import { once } from "node:events";
import { Worker } from "node:worker_threads";
const [said] = await once(new Worker(new URL("./thread.ts", import.meta.url)), "message");
console.log(how, said);`,
        "thread.ts":
          'import { parentPort } from "node:worker_threads";\nparentPort!.postMessage("a thread" as string);',
      },
      ["a thread"],
    ],
    [
      "a forked process of another file",
      "compiled",
      {
        "main.ts": `${same}import { fork } from "node:child_process";
import { once } from "node:events";
const [said] = await once(fork(new URL("./forked.ts", import.meta.url)), "message");
console.log(how, said);`,
        "forked.ts": 'process.send!("a process" as string);\nprocess.disconnect();\nexport {};',
      },
      ["a process"],
    ],
    [
      "an import of a computed name",
      "loader",
      {
        "main.ts": `${same}const name: string = "late";\nconst { value } = await import(\`./\${name}.ts\`);\nconsole.log(how, value);`,
        "late.ts": "export const value: number = 7;",
      },
      ["7"],
    ],
    [
      "an import of a file when it is needed",
      "loader",
      {
        "main.ts": `${same}const { value } = await import("./late.ts");\nconsole.log(how, value);`,
        "late.ts": "export const value: number = 7;",
      },
      ["7"],
    ],
    [
      "a required file",
      "loader",
      {
        "main.ts": `${same}import { createRequire } from "node:module";
const { value } = createRequire(import.meta.url)("./old.cts");
console.log(how, value);`,
        "old.cts": "exports.value = 7 as number;",
      },
      ["7"],
    ],
    [
      "a package in TypeScript",
      "loader",
      {
        "main.ts": `${same}import { value } from "typed";\nconsole.log(how, value);`,
        "node_modules/typed/package.json": '{ "name": "typed", "type": "module", "exports": "./index.ts" }',
        "node_modules/typed/index.ts": "export const value: number = 7;",
      },
      ["7"],
    ],
    [
      "a package in JavaScript",
      "compiled",
      {
        "main.ts": `${same}import { value } from "plain/part";\nconsole.log(how, value);`,
        "node_modules/plain/package.json":
          '{ "name": "plain", "type": "module", "exports": { "./part": { "types": "./part.d.ts", "import": "./part.js" } } }',
        "node_modules/plain/part.js": "export const value = 7;",
        "node_modules/plain/part.d.ts": "export const value: number;",
      },
      ["7"],
    ],
    [
      "a file of a package in TypeScript",
      "loader",
      {
        "main.ts": `${same}import { value } from "typed/part.ts";\nconsole.log(how, value);`,
        "node_modules/typed/package.json": '{ "name": "typed" }',
        "node_modules/typed/part.ts": "export const value: number = 7;",
      },
      ["7"],
    ],
    [
      "a file of a package in TypeScript when it is needed",
      "loader",
      {
        "main.ts": `${same}const { value } = await import("typed/part.ts");\nconsole.log(how, value);`,
        "node_modules/typed/package.json": '{ "name": "typed" }',
        "node_modules/typed/part.ts": "export const value: number = 7;",
      },
      ["7"],
    ],
    [
      "a package whose file only the loader finds",
      "loader",
      {
        "main.ts": `${same}import { value } from "typed";\nconsole.log(how, value);`,
        "node_modules/typed/package.json": '{ "name": "typed", "type": "module" }',
        "node_modules/typed/index.ts": "export const value: number = 7;",
      },
      ["7"],
    ],
    [
      "a file of a package without its ending",
      "loader",
      {
        "main.ts": `${same}import { value } from "plain/part";\nconsole.log(how, value);`,
        "node_modules/plain/package.json": '{ "name": "plain" }',
        "node_modules/plain/part.js": "exports.value = 7;",
      },
      ["7"],
    ],
    [
      "a package whose package.json names no file",
      "compiled",
      {
        "main.ts": `${same}import plain from "plain";\nconsole.log(how, plain.value);`,
        "node_modules/plain/package.json": '{ "name": "plain", "main": "lib" }',
        "node_modules/plain/lib/index.js": "exports.value = 7;",
      },
      ["7"],
    ],
    [
      "names of JSON",
      "loader",
      {
        "main.ts": `${same}import { a } from "./info.json" with { type: "json" };\nconsole.log(how, a);`,
        "info.json": '{ "a": 7 }',
      },
      ["7"],
    ],
    [
      "paths of tsconfig.json",
      "loader",
      {
        "main.ts": `${same}import { value } from "@/late.ts";\nconsole.log(how, value);`,
        "late.ts": "export const value: number = 7;",
        "tsconfig.json": '{ "compilerOptions": { "paths": { "@/*": ["./*"] } } }',
      },
      ["7"],
    ],
    [
      "options of tsconfig.json that change the code",
      "compiled",
      {
        "main.ts": `${same}const seen: string[] = [];
function note(_target: object, name: string): void { seen.push(name); }
class Noted { @note value = 7; }
console.log(how, new Noted().value, seen.join());`,
        "tsconfig.json": '{ "extends": "./base.json" /* which has them */ }',
        "base.json": '{ "compilerOptions": { "experimentalDecorators": true, }, }',
      },
      ["7 value"],
    ],
    [
      "a project that is CommonJS",
      "loader",
      {
        "package.json": '{ "type": "commonjs" }',
        "main.ts": `${same}console.log(how, typeof __dirname, 7 as number);`,
      },
      ["string 7"],
    ],
    [
      "a project whose cache cannot be made",
      "loader",
      { "main.ts": `${same}console.log(how, 7 as number);`, ".heddle": "a file" },
      ["7"],
    ],
  ];

  test.each(partOf(cases, 2))("%s: %s", async (_what, wanted, files, printed) => {
    write({ "how.ts": how, ...files });
    // From nothing, and from the cache.
    for (let round = 0; round < 2; round++) {
      const { status, stdout, stderr } = await run();
      expect(stderr).toBe("");
      expect(stdout.trim().split("\n")).toEqual([`${wanted} ${printed[0]}`, ...printed.slice(1)]);
      expect(status).toBe(0);
    }
  });
});

describe("errors name the lines of TypeScript", () => {
  /** A compiled program that changes a package before it imports it. */
  const late = (change: string): Files => ({
    "main.ts": `import { rmSync, writeFileSync } from "node:fs";
interface Unused { a: typeof rmSync | typeof writeFileSync }
${change};
await import(
  "plain");`,
    "node_modules/plain/package.json": '{ "name": "plain", "exports": "./plain.js" }',
    "node_modules/plain/plain.js": "",
  });
  const cases: readonly (readonly [what: string, files: Files, said: readonly string[]])[] = [
    [
      "a throw in an imported file",
      {
        "main.ts": 'interface Unused {\n  a: number;\n}\n\nimport { fail } from "./lib/fail.ts";\nfail(1);',
        "lib/fail.ts":
          'type N = number;\n\nexport function fail(x: N): never {\n\n  throw new Error("no " + (x as N));\n}',
      },
      ["Error: no 1", "at fail ({folder}/lib/fail.ts:5:9)", "at <anonymous> ({folder}/main.ts:6:1)"],
    ],
    [
      "shapes that do not fit",
      {
        "main.ts":
          'import { tensor } from "heddle";\ntype T = number;\n\nconst x: T[] = [1, 2];\ntensor(x).add(tensor([1, 2, 3]));',
      },
      ["add: shapes do not broadcast: f32[2], f32[3]", "at {folder}/main.ts:5:11"],
    ],
    [
      "a name that the library lacks",
      { "main.ts": 'interface Unused { a: number }\nimport { nn,\n  tensr } from "heddle";\nconsole.log(nn, tensr);' },
      ["{folder}/main.ts:3:3: 'heddle' has no export 'tensr'", '  tensr } from "heddle";'],
    ],
    [
      "a name that another file lacks",
      {
        "main.ts": 'interface Unused { a: number }\nimport { taste } from "./helper.ts";\nconsole.log(taste);',
        "helper.ts": "export const tastes: number = 1;",
      },
      ["{folder}/main.ts:2:10: './helper.ts' has no export 'taste'", "hint: did you mean 'tastes'?"],
    ],
    [
      "a module that a package lacks",
      { "main.ts": 'interface Unused { a: number }\n\nimport { x } from "heddle/nothing";\nconsole.log(x);' },
      ["{folder}/main.ts:3:19: 'heddle/nothing' is not a part of its package"],
    ],
    [
      "a package that is not installed",
      { "main.ts": 'interface Unused { a: number }\n\nimport { x } from "nopackage";\nconsole.log(x);' },
      ["{folder}/main.ts:3:19: the package 'nopackage' is not installed"],
    ],
    ...["part", "part.js"].map(
      (part) =>
        [
          `a file '${part}' that a package lacks`,
          {
            "main.ts": `interface Unused { a: number }\nimport { x } from "plain/${part}";\nconsole.log(x);`,
            "node_modules/plain/package.json": '{ "name": "plain" }',
          },
          [`{folder}/main.ts:2:19: 'plain/${part}' means a file that its package lacks`],
        ] as const,
    ),
    ...["index.js", "lib.js"].map(
      (main) =>
        [
          `a package without its ${main}`,
          {
            "main.ts": 'interface Unused { a: number }\nimport { x } from "plain";\nconsole.log(x);',
            "node_modules/plain/package.json": `{ "name": "plain", "main": "${main}" }`,
          },
          ["{folder}/main.ts:2:19: 'plain' means a file that its package lacks"],
        ] as const,
    ),
    [
      "a part of a package whose file is not there",
      {
        "main.ts": 'interface Unused { a: number }\nimport { x } from "plain/part";\nconsole.log(x, "lib.js");',
        "node_modules/plain/package.json": '{ "name": "plain", "exports": { "./part": "./lib.js" } }',
      },
      ["{folder}/main.ts:2:19: 'plain/part' means a file that its package lacks"],
    ],
    [
      "a package that goes while the program runs",
      late('rmSync("node_modules/plain", { recursive: true })'),
      ["{folder}/main.ts:5:3: the package 'plain' is not installed"],
    ],
    [
      "a file of a package that goes while the program runs",
      late('rmSync("node_modules/plain/plain.js")'),
      ["{folder}/main.ts:5:3: 'plain' means a file that its package lacks: {folder}/node_modules/plain/plain.js"],
    ],
    [
      "a package that breaks while the program runs",
      late('writeFileSync("node_modules/plain/package.json", "{")'),
      ["Invalid package config", "{folder}/main.ts"],
    ],
    [
      "a syntax error",
      { "main.ts": "const a: number = 1;\nconst b = = 2;" },
      ['{folder}/main.ts:2:11: Unexpected "="'],
    ],
  ];

  test.each(partOf(cases, 2, 1))("%s", async (_what, files, said) => {
    write(files);
    const { status, stderr } = await run();
    for (const text of said) expect(stderr).toContain(text.replaceAll("{folder}", folder));
    expect(stderr).not.toContain(".heddle/cache");
    expect(status).toBe(1);
  });
});

describe("the cache", () => {
  const value = (text: string): string => `export const value: string = "${text}";`;
  const main = 'import { how } from "./how.ts";\nimport { value } from "./value.ts";\nconsole.log(how, value);';

  test("two runs at once write one program, which their workers share", async () => {
    write({ "how.ts": how, "value.ts": value("one"), "main.ts": main });
    const both = await Promise.all([run("main.ts", 2), run("main.ts", 2)]);
    for (const { status, stdout } of both) {
      expect(stdout.match(/compiled one/g)).toHaveLength(2);
      expect(status).toBe(0);
    }
    const [program, ...others] = readdirSync(programs());
    expect(others).toEqual([]);
    expect(readdirSync(join(programs(), program as string)).sort()).toEqual(["0-main.mjs", "1-how.mjs", "2-value.mjs"]);
  });

  test("a file that changes is compiled anew, a damaged one is mended", async () => {
    write({ "how.ts": how, "value.ts": value("one"), "main.ts": main });
    expect((await run()).stdout).toBe("compiled one\n");
    write({ "value.ts": value("two") });
    expect((await run()).stdout).toBe("compiled two\n");
    write({ "value.ts": value("one") });
    expect((await run()).stdout).toBe("compiled one\n");
    for (const program of readdirSync(programs()))
      writeFileSync(join(programs(), program, "2-value.mjs"), "export con");
    expect((await run()).stdout).toBe("compiled one\n");
    expect(readFileSync(join(folder, ".heddle", "cache", ".gitignore"), "utf8")).toBe("*\n");
  });

  test("it may be removed while a program runs", async () => {
    const removing = `import { rmSync } from "node:fs";
rmSync(".heddle/cache", { recursive: true });
const { availableParallelism } = await import("node:os");
const { tensor } = await import("heddle");
console.log(how, availableParallelism() > 0, ...(await tensor([1, 2]).add(1).data()));
throw new Error("at the end" as string);`;
    write({ "how.ts": how, "main.ts": `import { how } from "./how.ts";\n${removing}` });
    for (let round = 0; round < 2; round++) {
      const { stdout, stderr } = await run();
      expect(stdout).toBe("compiled true 2 3\n");
      expect(stderr).toContain(`at <anonymous> (${folder}/main.ts:7:7)`);
    }
  });
});
