/** `heddle checkpoint`, in this process. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { loadCheckpoint, saveCheckpoint } from "../../src/checkpoints/index.ts";
import { localStorage } from "../../src/checkpoints/local.ts";
import { main } from "../../src/cli/main.ts";
import { type HostTensor, readSafetensors } from "../../src/io/safetensors.ts";
import { saveParts } from "./parts-state.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "heddle-checkpoint-command-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function heddle(...args: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  const lines = { log: [] as string[], error: [] as string[] };
  const log = vi.spyOn(console, "log").mockImplementation((text) => void lines.log.push(String(text)));
  const error = vi.spyOn(console, "error").mockImplementation((text) => void lines.error.push(String(text)));
  try {
    const status = await main(["checkpoint", ...args]);
    return { status, stdout: lines.log.join("\n"), stderr: lines.error.join("\n") };
  } finally {
    log.mockRestore();
    error.mockRestore();
  }
}

/** A checkpoint in one file, with these weights. */
const saved = (step: number, weights: Record<string, HostTensor>) =>
  saveCheckpoint(folder, {
    step,
    position: { epoch: 0, step },
    seed: 1,
    key: [0, 1],
    tensors: new Map(Object.entries(weights)),
    extra: { optimizer: "adam" },
  });
const vector = (...values: number[]): HostTensor => ({
  dtype: "f32",
  shape: [values.length],
  data: Float32Array.from(values),
});

describe("heddle checkpoint", () => {
  test("ls lists both kinds, and says of each that cannot be read why", async () => {
    await saved(1, { "params/w": vector(1, 2) });
    await saveParts(localStorage(folder), 2);
    await saveParts(localStorage(folder), 3);
    truncateSync(join(folder, "step-00000003", "manifest.json"), 10);
    const { status, stdout } = await heddle("ls", folder);
    expect(status).toBe(0);
    expect(stdout).toMatch(/3 +cannot be read .*manifest.json is not a whole manifest/);
    expect(stdout).toMatch(/2 +epoch 2, batch 3 +6 +\S+ \S+ +2 .*step-00000002$/m);
    expect(stdout).toMatch(/1 +epoch 1, batch 2 +1 +8 B +1 .*step-00000001.safetensors$/m);
    const { stdout: text } = await heddle("ls", folder, "--json");
    expect(JSON.parse(text)).toMatchObject([{ step: 3 }, { step: 2, files: 2, tensors: 6 }, { step: 1, bytes: 8 }]);
    const missing = await heddle("ls", join(folder, "none"));
    expect(missing).toMatchObject({ status: 2, stderr: expect.stringContaining("there is nothing at") });
  });

  test("show prints the newest of a folder, or one", async () => {
    await saved(1, { "params/w": vector(1, 2), "optimizer/m": vector(0) });
    const { stdout } = await heddle("show", folder);
    expect(stdout).toContain("step 1, next is epoch 1, batch 2");
    expect(stdout).toContain("seed 1, optimizer adam");
    expect(stdout).toMatch(/params\/w +f32\[2\] +8 B +1/);
    await saveParts(localStorage(folder), 2);
    expect((await heddle("show", join(folder, "step-00000002"))).stdout).toMatch(
      /params\/body.weight +f32\[6,8\] +192 B +2/,
    );
    expect(JSON.parse((await heddle("show", folder, "--json")).stdout)).toMatchObject({ step: 2, seed: 17 });
  });

  test("verify reads everything, and names what is damaged", async () => {
    await saved(1, { "params/w": vector(1, 2) });
    await saveParts(localStorage(folder), 2);
    expect(await heddle("verify", folder)).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/: whole\n.*: whole$/),
    });
    const part = readdirSync(join(folder, "step-00000002")).find((name) => name.startsWith("part-00001")) as string;
    truncateSync(join(folder, "step-00000002", part), 100);
    expect(await heddle("verify", folder)).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(/part-00001-.* has 100 bytes, not \d+\n.*step-00000001.safetensors: whole$/),
    });
  });

  test("diff compares values", async () => {
    const { path: a } = await saved(1, { "params/w": vector(1, 2, Number.NaN), "params/old": vector(1) });
    const { path: b } = await saved(2, { "params/w": vector(1, 2.5, Number.NaN), "params/new": vector(1) });
    const { status, stdout } = await heddle("diff", a, b);
    expect(status).toBe(1);
    expect(stdout).toMatch(/params\/w +f32\[3\] +f32\[3\] +1 +0\.500/);
    expect(stdout).toMatch(/params\/old +f32\[1\] +missing/);
    expect(stdout).toMatch(/params\/new +missing +f32\[1\]/);
    expect(await heddle("diff", a, a)).toMatchObject({ status: 0, stdout: "the values are the same" });
  });

  test("export writes weights under their names, of one kind or the other, or a whole checkpoint", async () => {
    await saveParts(localStorage(folder), 2);
    const output = join(folder, "weights.safetensors");
    expect(await heddle("export", folder, "-o", output)).toEqual({ status: 0, stdout: "", stderr: "" });
    const { tensors, verified } = await readSafetensors(output);
    expect(verified).toBe(true);
    expect([...tensors.keys()].sort()).toEqual(["bias", "body.weight", "count", "flag", "head.weight"]);
    await heddle("export", folder, "-o", output, "--only", "params.head", "optimizer");
    expect([...(await readSafetensors(output)).tensors.keys()].sort()).toEqual(["head.weight", "momentum"]);
    const whole = join(folder, "whole.safetensors");
    await heddle("export", folder, "-o", whole, "--whole");
    const { path: _path, library: _library, ...state } = await loadCheckpoint(whole);
    const { path: _other, library: _writer, ...wanted } = await loadCheckpoint(join(folder, "step-00000002"));
    expect({ ...state, tensors: new Map([...state.tensors].sort()) }).toEqual({
      ...wanted,
      tensors: new Map([...wanted.tensors].sort()),
    });
    expect((await heddle("export", folder, "-o", output, "--only", "nothing")).stderr).toContain(
      "matches none of the names",
    );
  });

  test("average writes the means of floats, and the integers of the first", async () => {
    const count = (value: number): HostTensor => ({ dtype: "u32", shape: [], data: Uint32Array.of(value) });
    const { path: a } = await saved(1, { "params/w": vector(1, 2), "state/n": count(3), "optimizer/m": vector(9) });
    const { path: b } = await saved(2, { "params/w": vector(2, 4), "state/n": count(5), "optimizer/m": vector(9) });
    const output = join(folder, "mean.safetensors");
    expect((await heddle("average", a, b, "-o", output)).status).toBe(0);
    const { tensors } = await readSafetensors(output);
    expect(Object.fromEntries(tensors)).toEqual({ w: vector(1.5, 3), n: count(3) });
    const { path: c } = await saved(3, { "params/w": vector(2, 4, 8) });
    const wrong = await heddle("average", a, c, "-o", output);
    expect(wrong.stderr).toMatch(/step-00000003.safetensors has params\/w as f32\[3\], not as f32\[2\]/);
  });

  test.each<[string, string[], RegExp]>([
    ["what is not there", ["show", "/none/at/all"], /cannot read the checkpoint \/none\/at\/all: no such file/],
    ["another file", ["verify", new URL("../fixtures/state_dict.py", import.meta.url).pathname], /state_dict.py/],
  ])("of %s says so", async (_name, args, message) => {
    const { status, stdout, stderr } = await heddle(...args);
    expect(status).toBeGreaterThan(0);
    expect(`${stdout}${stderr}`).toMatch(message);
  });

  test("reads format 1", async () => {
    const path = new URL("../fixtures/checkpoint-format-1.safetensors", import.meta.url).pathname;
    expect((await heddle("verify", path)).stdout).toBe(`${path}: whole`);
    expect(readFileSync(path).length).toBeGreaterThan(0);
  });
});
