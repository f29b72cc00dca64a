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
import * as trainOfBrowsers from "../../src/train/browser.ts";
import * as trainOfNode from "../../src/train/index.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "browser-"));
const entry = join(folder, "program.ts");

/** Runs both kinds of training, and in a browser tries what needs files; Node prints the results as its last line. */
const program = `import { trained as byHand } from "./programs/mlp.ts";
import { refused, stepped, trained } from "./programs/train.ts";
const isNode = typeof document === "undefined";
const tell = (text) => (isNode ? console.log(text) : fetch("/told", { method: "POST", body: text }));
const all = async () => ({
  byHand: await byHand(),
  trained: await trained(),
  stepped: await stepped(),
  refused: isNode ? {} : await refused(),
});
all().then((results) => tell(JSON.stringify(results)), (error) => tell(String(error?.stack ?? error)));
`;

/** What the program prints. */
interface Told {
  readonly byHand: { readonly executor: string; readonly losses: readonly number[] };
  readonly trained: { readonly epochs: number; readonly history: readonly { readonly loss: number }[] };
  readonly stepped: readonly number[];
  readonly refused: { readonly [what: string]: string };
}

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

test.each([
  ["heddle", ofNode, ofBrowsers, ["io", "keras"]],
  [
    "heddle/train",
    trainOfNode,
    trainOfBrowsers,
    [
      "latestCheckpoint",
      "listCheckpoints",
      "loadCheckpoint",
      "readSafetensors",
      "saveCheckpoint",
      "saveSafetensors",
      "tensorsUnder",
    ],
  ],
])("a browser has all of %s but what reads files", (_name, node, browser, missing) => {
  const names = Object.keys(node).filter((name) => !Object.hasOwn(browser, name));
  expect(names.sort()).toEqual(missing);
  expect(Object.keys(browser).filter((name) => !Object.hasOwn(node, name))).toEqual([]);
});

describe.skipIf(!existsSync(join(root, "dist/.stamp")))("a program for browsers", () => {
  beforeAll(() => {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules/heddle"));
    symlinkSync(join(root, "test/e2e/browser"), join(folder, "programs"));
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

  test.skipIf(chromium === undefined)("trains networks in Chromium to the bits that Node has", async () => {
    const { outputFiles } = await bundle({ platform: "browser", write: false, preserveSymlinks: true });
    const told = await inChromium(chromium as string, outputFiles?.[0]?.text ?? "");
    await bundle({ platform: "node", outfile: join(folder, "node.mjs"), preserveSymlinks: true });
    const node = spawnSync(process.execPath, [join(folder, "node.mjs")], {
      encoding: "utf8",
      env: { ...process.env, HEDDLE_EXECUTOR: "reference" },
    });
    expect(node.stderr).toBe("");
    const [here, there] = [node.stdout.trimEnd().split("\n").at(-1), told].map(
      (text) => JSON.parse(text as string) as Told,
    ) as [Told, Told];
    expect(here.byHand.executor).toBe("reference");
    const { refused, ...results } = there;
    expect({ ...results, refused: {} }).toEqual(here);
    const { losses } = here.byHand;
    expect(losses.at(-1)).toBeLessThan(0.5 * (losses[0] as number));
    const { epochs, history } = here.trained;
    expect(history.length).toBeLessThan(epochs);
    expect(history.at(-1)?.loss).toBeLessThan(0.5 * (history[0]?.loss as number));
    expect(here.stepped.at(-1)).toBeLessThan(here.stepped[0] as number);
    expect(refused).toEqual({
      checkpoint: expect.stringMatching(/^file: train: the option checkpoint writes files, and a browser has no files/),
      resume: expect.stringMatching(/^file: train: the option resume reads a file, and a browser/),
      csvLogger: expect.stringMatching(/^file: csvLogger writes a file, and a browser/),
      modelCheckpoint: expect.stringMatching(/^file: modelCheckpoint writes files, and a browser/),
      tensorBoard: expect.stringMatching(/^file: tensorBoard writes files, and a browser/),
      "result.save": expect.stringMatching(/^file: save writes a file, and a browser/),
      "distributedStep.save": expect.stringMatching(/^file: distributedStep: save writes a file, and a browser/),
      "distributedStep.load": expect.stringMatching(/^file: distributedStep: load reads a file, and a browser/),
    });
  });
});
