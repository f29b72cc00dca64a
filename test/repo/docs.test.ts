/** Every TypeScript block of README and docs compiles as a strict user's file; those marked `ts run` run. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { environment } from "../cli/heddle-process.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Block {
  readonly file: string;
  /** `docs/training.md:3`, where it begins. */
  readonly place: string;
  readonly text: string;
  readonly runs: boolean;
}

/** The fenced blocks of a text whose language is TypeScript. */
function blocksOf(file: string): Block[] {
  const text = readFileSync(join(root, file), "utf8");
  return [...text.matchAll(/^```ts( run)?\n(.*?)^```$/gms)].map((match, index) => {
    const line = text.slice(0, match.index).split("\n").length;
    const name = `${file.replaceAll(/\W/g, "-")}-${index}.ts`;
    return { file: name, place: `${file}:${line}`, text: match[2] as string, runs: match[1] !== undefined };
  });
}

const texts = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
  // docs/api is made by `npm run docs`.
  .filter((name) => name.endsWith(".md") && !name.startsWith("api"))
  .map((name) => `docs/${name}`);
const files = ["README.md", "CONTRIBUTING.md", ...texts];
const blocks = files.flatMap(blocksOf);

let folder = "";
beforeAll(() => {
  // Inside the package, which then resolves "heddle" to itself.
  mkdirSync(join(root, ".heddle"), { recursive: true });
  folder = mkdtempSync(join(root, ".heddle/docs-"));
  for (const { file, text } of blocks) writeFileSync(join(folder, file), text);
  const options = {
    noEmit: true,
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    target: "es2023",
    module: "nodenext",
    moduleDetection: "force",
    types: ["node"],
    lib: ["es2023", "esnext.disposable"],
    customConditions: ["heddle-source"],
    allowImportingTsExtensions: true,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("TypeScript in docs is fenced, so that it is checked", () => {
  expect(blocks.length).toBeGreaterThan(4);
  for (const file of files) expect(readFileSync(join(root, file), "utf8")).not.toMatch(/^ {4}import .* from "heddle/m);
});

test("all blocks compile under strict rules", () => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { cwd: folder, encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
});

test.each(blocks.filter(({ runs }) => runs))("the block at $place runs", ({ file }) => {
  const { status, stderr } = spawnSync(process.execPath, ["--import", "tsx", join(folder, file)], {
    cwd: root,
    env: environment(),
    encoding: "utf8",
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});
