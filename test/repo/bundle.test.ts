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
import { type BuildOptions, build as esbuild } from "esbuild";
import { build as vite } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { version } from "../../src/util/version.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const native = join(root, "native/npm/linux-x64-gnu");
const folder = mkdtempSync(join(tmpdir(), "bundle-"));

const program = `
import { data, losses, nn, optim, tensor, train } from "heddle";

const column = (scale: number) => ({ shape: [8, 1], data: Float32Array.from({ length: 8 }, (_, i) => (i / 8) * scale) });

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

/** What people bundle a program for Node with, at its defaults. Each takes the library into the bundle. */
const bundlers: { readonly [name: string]: (out: string) => Promise<unknown> } = {
  "esm.mjs": (outfile) => esbuild({ ...entry, format: "esm", outfile }),
  "cjs.cjs": (outfile) => esbuild({ ...entry, outfile }),
  "vite/program.mjs": (out) =>
    vite({
      root: folder,
      configFile: false,
      logLevel: "error",
      build: { ssr: "program.ts", outDir: dirname(out) },
      ssr: { noExternal: true },
    }),
};
const entry = {
  entryPoints: [join(folder, "program.ts")],
  bundle: true,
  platform: "node",
  logLevel: "error",
} satisfies BuildOptions;

describe.skipIf(!existsSync(join(root, "dist/.stamp")))("a program in one file with the library", () => {
  beforeAll(() => {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules/heddle"));
    if (existsSync(native)) symlinkSync(native, join(folder, `node_modules/heddle-${basename(native)}`));
    writeFileSync(join(folder, "program.ts"), program);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(Object.entries(bundlers))("%s trains and saves", async (name, bundle) => {
    await bundle(join(folder, name));
    const run = spawnSync(process.execPath, [name, name], { cwd: folder, encoding: "utf8" });
    expect(run.stderr).toBe("");
    expect(run.stdout).toContain(`${existsSync(native) ? "native" : "reference"} executor`);
    expect(run.stdout.trim().split("\n").at(-1)).toBe("[[2,3],true]");
    expect(readdirSync(join(folder, "kept", name))).toContain("step-00000060.safetensors");
  });
});

test("bundlers keep every module that defines ops, and what is told of the version is that of the package", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly version: string;
    readonly sideEffects: readonly string[];
  };
  expect(version).toBe(manifest.version);
  // A call or a loop at the beginning of a line is done for its effect, and so is a constant made by a function that registers.
  const effect = /^for \(|^(?:export const \w+[^=]*= )?(?:define\w*|enter|register)(?:<[^(]*)?\(/m;
  for (const name of readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts") || !effect.test(readFileSync(join(root, "src", name), "utf8"))) continue;
    const kept = manifest.sideEffects.some((path) => [`./src/${name}`, `./src/${dirname(name)}/*.ts`].includes(path));
    expect({ name, kept }).toEqual({ name, kept: true });
  }
});
