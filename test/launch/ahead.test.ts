/** What is compiled ahead, and what is left to the loader: by file, without a process. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { compileFile } from "../../src/launch/ahead/compile.ts";
import { checkPackages, NeedsLoader, relativeFile, tsconfigOf } from "../../src/launch/ahead/files.ts";
import { mostPrograms, writeProgram } from "../../src/launch/ahead/store.ts";

let folder = "";
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "heddle-ahead-")));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(names: readonly string[], text = ""): void {
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

describe("one file", () => {
  test.each([
    ["await import(name)", "imports what it computes"],
    [`await import(\`./\${name}.ts\`)`, "imports what it computes"],
    ['await import("./late.ts")', "imports a file late"],
    ['await import("file:///late.ts")', "imports a file late"],
    ["import.meta.resolve(name)", "uses import.meta"],
    ["const meta = import.meta", "uses import.meta"],
    ["require(name)", "may require modules"],
    ['process.getBuiltinModule("module")', "may require modules"],
    ['import info from "./info.json"; info', "imports JSON without saying so"],
    ['import text from "./info.txt" with { type: "text" }; text', "imports with attributes"],
    ["const a = = 1", 'Unexpected "="'],
    ["function f(x) { 'use heddle'; if (x) { yield } }", "Unexpected reserved word 'yield'"],
  ])("is left to the loader: %s", async (code, reason) => {
    const compiled = compileFile("/project/main.ts", `const name: string = "a";\nexport {};\n${code};`, undefined);
    await expect(compiled).rejects.toThrow(NeedsLoader);
    await expect(compiled).rejects.toThrow(reason);
  });

  test.each([
    ['await import("node:os")', ["node:os"]],
    ['await import("heddle")', ["heddle"]],
    ['import { type A } from "./types.ts"; let a: A', []],
    ['import { a } from "./unused.ts"', []],
    ['import { a } from "./used.ts"; a()', ["./used.ts"]],
    ['export * from "./all.ts"; export { b } from "./b.ts"', ["./all.ts", "./b.ts"]],
    ['import "./effect.ts"', ["./effect.ts"]],
    ['const text = "import x from \'./no.ts\'"; // import("./no.ts")', []],
  ])("its imports: %s", async (code, specifiers) => {
    const { code: compiled, imports } = await compileFile("/project/main.ts", code, undefined);
    expect(imports.map(({ start, end }) => compiled.slice(start, end))).toEqual(specifiers);
    expect(imports.map(({ specifier }) => specifier)).toEqual(specifiers);
  });

  test("its places are those of the file that was written", async () => {
    const text = "export const places = [import.meta.url, import.meta.dirname, import.meta.filename];";
    const { code } = await compileFile("/a project/main.ts", text, undefined);
    for (const place of ["file:///a%20project/main.ts", "/a project", "/a project/main.ts"])
      expect(code).toContain(JSON.stringify(place));
  });
});

describe("which file an import means", () => {
  test.each([
    ["./a.ts", ["a.ts"], "a.ts"],
    ["./a.js", ["a.ts"], "a.ts"],
    ["./a.js", ["a.js"], "a.js"],
    ["./a.js", ["a.js", "a.ts"], "one of several"],
    ["./a.mjs", ["a.mts"], "a.mts"],
    ["./a", ["a.ts"], "a.ts"],
    ["./a", ["a.ts", "a.js"], "one of several"],
    ["./a", ["a/index.ts"], "no file"],
    ["../a.ts", ["a.ts"], "no file"],
    ["./in/a.ts", ["in/a.ts"], "in/a.ts"],
    ["./a.ts?again", ["a.ts"], "more than a path"],
    ["./a.data", ["a.data"], "a.data"],
  ])("%s of %j", (specifier, files, wanted) => {
    write(files);
    const find = (): string => relativeFile(specifier, join(folder, "main.ts"));
    if (files.includes(wanted)) expect(find()).toBe(join(folder, wanted));
    else expect(find).toThrow(wanted);
  });

  test.each([
    ["in", ["package.json"], ""],
    ["in/deep", ["package.json"], ""],
    ["in/deep", ["package.json", "in/node_modules/x/index.js"], "packages of its own"],
    ["in/deep", ["package.json", "in/deep/package.json"], "packages of its own"],
    ["../elsewhere", ["package.json"], "outside of the project"],
  ])("packages of %s with %j", (place, files, reason) => {
    write(files, "{}");
    const check = (): void => checkPackages(join(folder, place), { root: folder, type: undefined });
    if (reason === "") check();
    else expect(check).toThrow(reason);
  });

  test.each([
    ["{}", "", ["{}"]],
    ['{ "extends": "./base" }', "{}", ['{ "extends": "./base" }', "{}"]],
    ['{ "extends": ["./base.json"] }', "{}", ['{ "extends": ["./base.json"] }', "{}"]],
    ['{ "extends": "./base" }', '{ "compilerOptions": { "paths": {} } }', "has paths"],
    ['{ "extends": "@tsconfig/node20" }', "", "extends '@tsconfig/node20'"],
    ['{ "extends": "./none" }', "", "extends './none'"],
    ['{ "extends": "./tsconfig.json" }', "", "extends too many others"],
  ])("tsconfig.json %s over %s", (text, base, wanted) => {
    write(["tsconfig.json"], text);
    if (base !== "") write(["base.json"], base);
    const find = () => tsconfigOf(join(folder, "in"));
    if (typeof wanted === "string") expect(find).toThrow(wanted);
    else expect(find()).toEqual({ file: join(folder, "tsconfig.json"), texts: wanted });
  });
});

test("the last programs are kept", () => {
  const program = (number: number) => [
    { file: "/a#b.ts", code: `${number};`, imports: [], links: new Map<string, string>() },
  ];
  const files = Array.from({ length: mostPrograms + 1 }, (_unused, number) => {
    const file = writeProgram(folder, program(number));
    utimesSync(dirname(file), number, number);
    return file;
  });
  // One too many: the newest half is left.
  expect(files.map((file) => existsSync(file))).toEqual(files.map((_file, number) => number > mostPrograms / 2));
  const last = writeProgram(folder, program(-1));
  expect(readdirSync(join(folder, "programs"))).toHaveLength(mostPrograms / 2 + 1);
  expect(readFileSync(last, "utf8")).toBe("-1;");
  expect(last).toMatch(/\/0-a_b\.mjs$/);
  // Used again, it is the newest.
  expect(readFileSync(files.at(-1) as string, "utf8")).toBe(`${mostPrograms};`);
  expect(writeProgram(folder, program(mostPrograms))).toBe(files.at(-1));
});
