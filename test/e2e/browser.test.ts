/** @module What bundlers for browsers make of the library: no module of Node in it, and in Chromium the numbers that Node gives. */
import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build as esbuild } from "esbuild";
import { build as vite } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as ofBrowsers from "../../src/browser.ts";
import * as ofNode from "../../src/index.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "browser-"));
const entry = join(folder, "program.ts");

const program = `import { trained } from "./mlp.ts";
const tell = (text) => (typeof document === "undefined" ? console.log(text) : fetch("/told", { method: "POST", body: text }));
trained().then((made) => tell(JSON.stringify(made)), (error) => tell(String(error?.stack ?? error)));
`;

const chromium = (process.env["PATH"] ?? "")
  .split(delimiter)
  .flatMap((place) => ["chromium", "chromium-browser", "google-chrome"].map((name) => join(place, name)))
  .find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
if (chromium === undefined)
  console.warn(
    "there is no Chromium on this machine (Debian: apt-get install chromium): what runs in a browser is not tested",
  );

const bundle = (options: BuildOptions) =>
  esbuild({ entryPoints: [entry], bundle: true, format: "esm", logLevel: "error", metafile: true, ...options });

const nodeModules = (paths: readonly string[]): string[] => paths.filter((path) => path.startsWith("node:"));

/** Opens a page with the script, and gives what the script tells. */
async function inChromium(path: string, script: string): Promise<string> {
  let tell: (text: string) => void = () => {};
  const told = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const server = createServer((request, response) => {
    if (request.url === "/told") {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        response.end();
        tell(Buffer.concat(parts).toString());
      });
      return;
    }
    const isScript = request.url === "/program.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<!doctype html><script type="module" src="/program.js"></script>');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  // Root may not have a sandbox, and containers have little shared memory.
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
  const browser = spawn(path, [...flags, `--user-data-dir=${join(folder, "profile")}`, url], { stdio: "ignore" });
  const ended = new Promise<string>((resolve) => {
    browser.once("exit", (code) => resolve(`Chromium ended with status ${code}`));
    browser.once("error", (error) => resolve(`Chromium does not start: ${error.message}`));
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve("the page tells nothing"), 50_000);
  });
  try {
    return await Promise.race([told, ended, late]);
  } finally {
    clearTimeout(timer);
    browser.kill("SIGKILL");
    await ended;
    server.closeAllConnections();
    server.close();
  }
}

test("a browser has all of heddle but what reads files or starts processes", () => {
  const missing = Object.keys(ofNode).filter((name) => !Object.hasOwn(ofBrowsers, name));
  expect(missing.sort()).toEqual([
    "callbacks",
    "confusionTable",
    "distributedStep",
    "drawImages",
    "io",
    "keras",
    "layouts",
    "train",
  ]);
  expect(Object.keys(ofBrowsers).filter((name) => !Object.hasOwn(ofNode, name))).toEqual([]);
});

describe.skipIf(!existsSync(join(root, "dist/.stamp")))("a program for browsers", () => {
  beforeAll(() => {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules/heddle"));
    symlinkSync(join(root, "test/e2e/browser/mlp.ts"), join(folder, "mlp.ts"));
    writeFileSync(entry, program);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

  test("has no module of Node in it, by esbuild and by Vite at their defaults", async () => {
    const { metafile } = await bundle({
      platform: "browser",
      outfile: join(folder, "browser.js"),
      preserveSymlinks: true,
    });
    const imports = Object.values(metafile?.inputs ?? {}).flatMap((input) => input.imports.map(({ path }) => path));
    expect(nodeModules(imports)).toEqual([]);
    const made = await vite({
      root: folder,
      configFile: false,
      logLevel: "error",
      resolve: { preserveSymlinks: true },
      build: { write: false, rollupOptions: { input: entry, preserveEntrySignatures: false } },
    });
    const outputs = [made].flat().flatMap((each) => ("output" in each ? each.output : []));
    const text = outputs.map((each) => ("code" in each ? each.code : "")).join("");
    expect(text.length).toBeGreaterThan(1e5);
    // Vite puts a stand-in where a module of Node is imported.
    expect(/__vite-browser-external|(?:from|import\(|require\() ?["']node:/.exec(text)?.[0]).toBeUndefined();
  });

  test.skipIf(chromium === undefined)("trains a network in Chromium to the losses that Node has", async () => {
    const { outputFiles } = await bundle({ platform: "browser", write: false, preserveSymlinks: true });
    const told = await inChromium(chromium as string, outputFiles?.[0]?.text ?? "");
    await bundle({ platform: "node", outfile: join(folder, "node.mjs"), preserveSymlinks: true });
    const node = spawnSync(process.execPath, [join(folder, "node.mjs")], {
      encoding: "utf8",
      env: { ...process.env, HEDDLE_EXECUTOR: "reference" },
    });
    expect(node.stderr).toBe("");
    const [here, there] = [node.stdout, told].map((text) => JSON.parse(text) as { losses: number[] });
    expect(here).toMatchObject({ executor: "reference" });
    expect(there).toEqual(here);
    expect(here?.losses.at(-1)).toBeLessThan(0.5 * (here?.losses[0] as number));
  });
});
