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
import { checkPackage, checkPackages, NeedsLoader, relativeFile, tsconfigOf } from "../../src/launch/ahead/files.ts";
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
    ['import { a } from "./info.json" with { type: "json" }; a', "imports names of JSON"],
    ['import info, { a } from "./info.json" with { type: "json" }; info(a)', "imports names of JSON"],
    ['import * as all from "./info.json" with { type: "json" }; all', "imports names of JSON"],
    ['export * from "./info.json" with { type: "json" }', "imports names of JSON"],
    ['export { a } from "a/info.json" with { type: "json" }', "imports names of JSON"],
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
    ['import info from "./info.json" with { type: "json" }; info', ["./info.json"]],
    ['import { default as info } from "a/info.json" with { type: "json" }; info', ["a/info.json"]],
    ['export { default } from "./info.json" with { type: "json" }', ["./info.json"]],
    ['export { default as info } from "./info.json" with { type: "json" }', ["./info.json"]],
    ['import "./info.json" with { type: "json" }', ["./info.json"]],
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

  const manifest = (fields: object): string => JSON.stringify({ name: "a", ...fields });
  test.each([
    ["node:fs", "{}", [], ""],
    ["node:module", "{}", [], "hooks of modules"],
    ["a", manifest({ main: "lib/a.js" }), ["lib/a.js"], ""],
    ["a", manifest({ main: "lib/a" }), ["lib/a.js"], ""],
    ["a", manifest({ main: "lib" }), ["lib/index.js"], ""],
    ["a", manifest({}), ["index.js"], ""],
    ["a", manifest({}), ["index.ts"], "Cannot find package"],
    ["a", manifest({ main: "a.ts" }), ["a.ts"], "no JavaScript"],
    ["a", manifest({ main: "a.js" }), [], "Cannot find package"],
    ["a/fp.js", manifest({}), ["fp.js"], ""],
    ["a/fp.cjs", manifest({}), ["fp.cjs"], ""],
    ["a/fp.json", manifest({}), ["fp.json"], ""],
    ["a/fp", manifest({}), ["fp.js"], "Cannot find module"],
    ["a/fp", manifest({}), ["fp/index.js"], "not supported"],
    ["a/fp.ts", manifest({}), ["fp.ts"], "no JavaScript"],
    ["a/fp.node", manifest({}), ["fp.node"], "no JavaScript"],
    ["a/fp", manifest({ exports: { "./*": "./lib/*.js" } }), ["lib/fp.js"], ""],
    ["a/fp", manifest({ exports: { "./*": "./lib/*.ts" } }), ["lib/fp.ts"], "no JavaScript"],
    ["a/fp", manifest({ exports: "./a.js" }), ["fp.js"], "not defined by"],
    ["a", manifest({ exports: { types: "./a.d.ts", require: "./a.ts", default: "./a.js" } }), ["a.ts", "a.js"], ""],
    ["a", manifest({ exports: { import: "./a.ts", default: "./a.js" } }), ["a.ts", "a.js"], "no JavaScript"],
    ["a", manifest({ exports: { "node-addons": "./a.js", default: "./a.ts" } }), ["a.ts", "a.js"], ""],
    ["b", manifest({}), ["index.js"], "Cannot find package 'b'"],
    ["own", manifest({}), [], "not in node_modules"],
    ["#own", manifest({}), [], "not in node_modules"],
    ["#a", manifest({}), ["index.js"], ""],
    ["data:text/javascript,", "{}", [], "no file"],
  ])("%s of a package %s with %j", (specifier, text, files, reason) => {
    write(
      ["index.js", "package.json"],
      '{ "name": "own", "exports": "./index.js", "imports": { "#own": "./index.js", "#a": "a" } }',
    );
    write(["node_modules/a/package.json"], text);
    write(files.map((file) => `node_modules/a/${file}`));
    const check = (): void => checkPackage(specifier, { root: folder, type: undefined });
    if (reason === "") check();
    else expect(check).toThrow(reason);
    expect(process.noDeprecation ?? false).toBe(false);
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
