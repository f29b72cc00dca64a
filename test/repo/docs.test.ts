/**
 * Every TypeScript block of README and docs compiles as a strict user's file, and runs: under `heddle run`, the blocks of a page one after
 * another in one folder, with a MNIST of 1,000 images. What a block reads that none before wrote is in `docs-files.ts`. `npm run test:processes`
 * runs each fifth page, `npm run test:grids` all.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { heddle } from "../cli/heddle-process.ts";
import { partOf } from "../support/sample.ts";
import { filesOf, smallMnist } from "./docs-files.ts";
import { type Block, blocksOf, pages, root } from "./pages.ts";

const blocks = pages.flatMap(blocksOf);
const scripts = blocks.filter(({ kind }) => kind === "ts");
const withScripts = [...new Set(scripts.map(({ page }) => page))];
const scriptsOf = (page: string): Block[] => scripts.filter((block) => block.page === page);
const folderOf = (page: string): string => join(folder, page.replaceAll(/\W/g, "-"));

let folder = "";
beforeAll(() => {
  // Inside the package, which then resolves "heddle" to itself.
  mkdirSync(join(root, ".heddle"), { recursive: true });
  folder = mkdtempSync(join(root, ".heddle/docs-"));
  smallMnist(join(folder, "mnist"));
  for (const page of withScripts) {
    mkdirSync(folderOf(page));
    for (const [index, { text }] of scriptsOf(page).entries()) writeFileSync(join(folderOf(page), `${index}.ts`), text);
    const lines = scriptsOf(page).map(
      ({ place }, index) => `await import("./${index}.ts");\nconsole.log("ran ${place}");\n`,
    );
    writeFileSync(join(folderOf(page), "page.ts"), `${lines.join("")}export {};\n`);
  }
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
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["**/*.ts"] }));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a fence says ts, which is run, or text; no other code is in the pages", () => {
  expect(scripts.length).toBeGreaterThan(40);
  const kinds = ["ts", "text", "text printed"];
  expect(blocks.filter(({ kind }) => !kinds.includes(kind)).map(({ place, kind }) => `${place}: ${kind}`)).toEqual([]);
  const lines = (page: string): number =>
    [...readFileSync(join(root, page), "utf8").matchAll(/^ *(?:```|~~~)/gm)].length;
  for (const page of pages) expect([page, lines(page)]).toEqual([page, 2 * blocksOf(page).length]);
  const code = /^(?:import|export|const|let|function|await|using) /m;
  expect(blocks.filter(({ kind, text }) => kind !== "ts" && code.test(text)).map(({ place }) => place)).toEqual([]);
});

test("all blocks compile under strict rules", () => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { cwd: folder, encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
});

test.each(partOf(withScripts, 5))("the blocks of %s run", async (page) => {
  await filesOf(page, folderOf(page));
  const { status, stdout, stderr } = heddle(["run", "page.ts"], { HEDDLE_DATA: join(folder, "mnist") }, folderOf(page));
  const ran = scriptsOf(page).filter(({ place }) => stdout.includes(`ran ${place}\n`));
  expect({ status, stderr, ran: ran.map(({ place }) => place) }).toEqual({
    status: 0,
    stderr: "",
    ran: scriptsOf(page).map(({ place }) => place),
  });
  const printed = blocksOf(page).filter(({ kind }) => kind === "text printed");
  for (const { text } of printed) expect(stdout).toContain(text.trimEnd());
});
