import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import commonjsPlugin from "@rollup/plugin-commonjs";
import { nodeResolve } from "@rollup/plugin-node-resolve";
import { type BuildOptions, build as esbuild } from "esbuild";
import { type Plugin, rollup } from "rollup";
import { build as vite } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import webpack from "webpack";
import { version } from "../../src/util/version.ts";
import { isWhole } from "../support/sample.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const native = join(root, "native/npm/linux-x64-gnu");
const folder = mkdtempSync(join(tmpdir(), "bundle-"));
const kept = mkdtempSync(join(tmpdir(), "bundle-kept-"));

const program = `
import { data, losses, nn, optim, tensor, train } from "heddle";

const column = (scale) => ({ shape: [8, 1], data: Float32Array.from({ length: 8 }, (_, i) => (i / 8) * scale) });

async function main() {
  const { history } = await train({
    model: nn.sequential(nn.linear(4), nn.relu(), nn.linear(1)),
    data: data.fromArrays({ x: column(1), y: column(2) }).batch(4),
    loss: losses.mse,
    optimizer: optim.adam({ learningRate: 0.1 }),
    epochs: 30,
    checkpoint: { directory: \`kept/\${process.argv[2]}\`, every: 30 },
  });
  console.log(JSON.stringify([await tensor([1, 2]).add(1).array(), (history.at(-1)?.loss ?? 1) < 0.05]));
}
void main();
`;

// Its types are written for CommonJS, and take the default for the whole module.
const commonjs = commonjsPlugin as unknown as () => Plugin;
const entry = join(folder, "program.mjs");
const options = { entryPoints: [entry], bundle: true, platform: "node", logLevel: "error" } satisfies BuildOptions;

/**
 * What people bundle a program for Node with, at its defaults: the files that come of it, and how. Each takes the library into
 * the bundle.
 */
const bundlers: readonly (readonly [files: readonly string[], bundle: () => Promise<unknown>])[] = [
  [["esbuild/program.mjs"], () => esbuild({ ...options, format: "esm", outfile: join(folder, "esbuild/program.mjs") })],
  [["esbuild/program.cjs"], () => esbuild({ ...options, outfile: join(folder, "esbuild/program.cjs") })],
  [["small/program.cjs"], () => esbuild({ ...options, minify: true, outfile: join(folder, "small/program.cjs") })],
  [
    ["vite/program.mjs"],
    () =>
      vite({
        root: folder,
        configFile: false,
        logLevel: "error",
        build: { ssr: entry, outDir: join(folder, "vite") },
        ssr: { noExternal: true },
      }),
  ],
  [
    ["rollup/program.mjs", "rollup-cjs/program.cjs"],
    async () => {
      const bundle = await rollup({ input: entry, plugins: [nodeResolve(), commonjs()], onwarn: () => {} });
      await bundle.write({ dir: join(folder, "rollup"), entryFileNames: "[name].mjs" });
      await bundle.write({
        dir: join(folder, "rollup-cjs"),
        format: "cjs",
        entryFileNames: "[name].cjs",
        chunkFileNames: "[name].cjs",
      });
    },
  ],
  [["webpack/program.cjs"], bundleByWebpack],
];

async function bundleByWebpack(): Promise<void> {
  const compiler = webpack({
    context: folder,
    entry,
    target: "node",
    mode: "production",
    // Terser takes half a minute; esbuild's own minifier shows that short names do no harm.
    optimization: { minimize: false },
    output: { path: join(folder, "webpack"), filename: "program.cjs" },
  });
  const stats = await new Promise<webpack.Stats | undefined>((resolve, reject) => {
    compiler.run((error, result) => (error ? reject(error) : resolve(result)));
  });
  expect(stats?.toString({ all: false, errors: true, warnings: true })).toBe("");
}

describe.skipIf(!existsSync(join(root, "dist/.stamp")))("a program in one file with the library", () => {
  beforeAll(() => {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules/heddle"));
    if (existsSync(native)) symlinkSync(native, join(folder, `node_modules/heddle-${basename(native)}`));
    writeFileSync(entry, program);
  });
  afterAll(() => {
    for (const each of [folder, kept]) rmSync(each, { recursive: true, force: true });
  });

  // Rollup is in Vite, and takes as long again: `npm run test:grids` has it by itself, too.
  const some = isWhole() ? bundlers : bundlers.filter(([files]) => !files.includes("rollup/program.mjs"));
  test.each(some)("%j train and save", { timeout: 240_000 }, async (files, bundle) => {
    await bundle();
    for (const file of files) {
      // From elsewhere: the native package is found beside the program.
      const run = spawnSync(process.execPath, [join(folder, file), file], { cwd: kept, encoding: "utf8" });
      expect(run.stderr).toBe("");
      expect(run.stdout).toContain(`${existsSync(native) ? "native" : "reference"} executor`);
      expect(run.stdout.trim().split("\n").at(-1)).toBe("[[2,3],true]");
      expect(readdirSync(join(kept, "kept", file))).toContain("step-00000060.safetensors");
    }
  });
});

test("importing the library loads nothing that is for terminals or for the command", async () => {
  const { metafile } = await esbuild({
    entryPoints: [join(root, "src/index.ts")],
    absWorkingDir: root,
    bundle: true,
    format: "esm",
    packages: "external",
    platform: "node",
    conditions: ["heddle-source"],
    write: false,
    metafile: true,
  });
  const loaded = new Set(["src/index.ts"]);
  for (const path of loaded) {
    const imports = metafile.inputs[path]?.imports ?? [];
    for (const { path: next, kind } of imports) if (kind === "import-statement") loaded.add(next);
  }
  const packages = [...loaded].filter((path) => !path.startsWith("src/") && !path.startsWith("node:"));
  expect(packages.sort()).toEqual([
    "@bufbuild/protobuf/wire",
    "@noble/hashes/sha2.js",
    "@noble/hashes/utils.js",
    "fflate",
  ]);
  expect([...loaded].filter((path) => /^src\/(?:cli|launch)\//.test(path))).toEqual([]);
});

test("bundlers keep every module that defines ops, and what is told of the version is that of the package", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly version: string;
    readonly sideEffects: readonly string[];
  };
  expect(version).toBe(manifest.version);
  // A call or a loop at the beginning of a line is done for its effect, and so is a constant made by a function that registers.
  const effect = /^for \(|^(?:export const \w+[^=]*= )?(?:define\w*|enter|register\w*|\w+Rules\.define)(?:<[^(]*)?\(/m;
  for (const name of readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts") || !effect.test(readFileSync(join(root, "src", name), "utf8"))) continue;
    const kept = manifest.sideEffects.some((path) => [`./src/${name}`, `./src/${dirname(name)}/*.ts`].includes(path));
    expect({ name, kept }).toEqual({ name, kept: true });
  }
});
