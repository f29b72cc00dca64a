import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { diagnoseProject, projectFindings, type TypeScript } from "../../src/cli/project.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folders: string[] = [];

/** A project of these files. */
function project(files: Readonly<Record<string, object>>): string {
  const folder = mkdtempSync(join(tmpdir(), "heddle-project-"));
  folders.push(folder);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), JSON.stringify(content));
  }
  return folder;
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const heddle = { "node_modules/heddle/package.json": { version: "1.0.0" } };

test.each([
  { type: "module", problems: [], notes: [] },
  { type: undefined, problems: [], notes: [/has no "type".*MODULE_TYPELESS_PACKAGE_JSON/s] },
  { type: "commonjs", problems: [/"type": "commonjs".*\.mts/s], notes: [] },
])("a package.json of type $type", ({ type, problems, notes }) => {
  const folder = project({ "package.json": { name: "app", type }, ...heddle });
  mkdirSync(join(folder, "deep"));
  const found = diagnoseProject(join(folder, "deep"));
  expect(found).toMatchObject({ manifest: join(folder, "package.json"), type, heddle: "1.0.0", typescript: undefined });
  const told = projectFindings(found, "1.0.0");
  expect(told.problems).toEqual(problems.map((each) => expect.stringMatching(each)));
  expect(told.notes).toEqual(notes.map((each) => expect.stringMatching(each)));
});

test("programs that import another Heddle than the command's", () => {
  const found = diagnoseProject(project({ "package.json": { type: "module" }, ...heddle }));
  expect(projectFindings(found, "2.0.0").problems).toEqual([expect.stringMatching(/heddle 2\.0\.0.*heddle 1\.0\.0/)]);
});

test("options are read as the project's compiler reads them, with all that they extend", () => {
  const folder = project({
    "package.json": { type: "module" },
    "base.json": { compilerOptions: { module: "NodeNext", verbatimModuleSyntax: true } },
    "tsconfig.json": { extends: "./base.json", compilerOptions: { erasableSyntaxOnly: true }, files: ["a.ts"] },
    "a.ts": {},
  });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  expect(diagnoseProject(folder).typescript).toMatchObject({
    config: join(folder, "tsconfig.json"),
    module: "nodenext",
    verbatimModuleSyntax: true,
    erasableSyntaxOnly: true,
  });
});

// As TypeScript 5.9 and 7.0 took them: those that find "heddle/nn" and those that do not.
test.each<{ given: Partial<TypeScript>; finds: boolean }>([
  { given: { version: "5.9.3", module: "nodenext", moduleResolution: "nodenext" }, finds: true },
  { given: { version: "5.9.3", module: "esnext", moduleResolution: "bundler" }, finds: true },
  { given: { version: "5.9.3", module: "esnext", moduleResolution: "node10" }, finds: false },
  { given: { version: "5.9.3", module: "esnext", moduleResolution: "classic" }, finds: false },
  { given: { version: "5.9.3", module: "commonjs" }, finds: false },
  { given: { version: "5.9.3" }, finds: false },
  { given: { version: "5.9.3", module: "node16" }, finds: true },
  { given: { version: "7.0.2", module: "commonjs" }, finds: true },
  { given: { version: "7.0.2" }, finds: true },
  { given: { version: "4.9.5", module: "nodenext" }, finds: false },
])("TypeScript finds the library: $given", ({ given, finds }) => {
  const typescript = { verbatimModuleSyntax: true, erasableSyntaxOnly: true, ...given } as TypeScript;
  const { problems, notes } = projectFindings({ typescript } as Parameters<typeof projectFindings>[0], "1.0.0");
  expect(problems).toHaveLength(finds ? 0 : 1);
  expect(notes).toEqual([]);
});

test("options by which TypeScript refuses what Node cannot run are recommended", () => {
  const typescript: TypeScript = {
    version: "5.9.3",
    config: "tsconfig.json",
    module: "nodenext",
    moduleResolution: "nodenext",
    types: undefined,
    verbatimModuleSyntax: false,
    erasableSyntaxOnly: false,
  };
  const { notes } = projectFindings({ typescript } as Parameters<typeof projectFindings>[0], "1.0.0");
  expect(notes).toEqual([
    expect.stringMatching(/"verbatimModuleSyntax": true .*"erasableSyntaxOnly": true .*tsconfig\.json/),
  ]);
});

// As TypeScript 5.9 and 7.0 took them: those that know "node:fs" with @types/node installed and those that do not.
test.each<{ version: string; types: string[] | undefined; knows: boolean }>([
  { version: "5.9.3", types: undefined, knows: true },
  { version: "6.0.1", types: undefined, knows: false },
  { version: "7.0.2", types: [], knows: false },
  { version: "7.0.2", types: ["vite/client"], knows: false },
  { version: "7.0.2", types: ["vite/client", "node"], knows: true },
  { version: "7.0.2", types: ["*"], knows: true },
])("TypeScript $version with types $types knows Node's modules: $knows", ({ version, types, knows }) => {
  const folder = project({
    "package.json": { type: "module" },
    "tsconfig.json": { compilerOptions: { module: "nodenext", types }, files: ["a.ts"] },
    "a.ts": {},
  });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const found = diagnoseProject(folder);
  expect(found.typescript?.types).toEqual(types);
  const typescript = { ...(found.typescript as TypeScript), version };
  const { notes } = projectFindings({ ...found, typescript }, found.heddle ?? "");
  const told = notes.filter((note) => note.includes("types of Node"));
  expect(told).toEqual(knows ? [] : [expect.stringMatching(/tsconfig\.json .*"types": \["node"\]/s)]);
});
