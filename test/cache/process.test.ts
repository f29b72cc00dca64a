/** A run that finds its programs on the disk prints what a run without them prints. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const command = fileURLToPath(new URL("../../bin/heddle.js", import.meta.url));
const library = new URL("../../dist/node/index.js", import.meta.url).href;

const script = `
import { data, losses, nn, optim, train } from "${library}";
const x = Float32Array.from({ length: 640 }, (_, index) => Math.sin(index));
const y = Int32Array.from({ length: 64 }, (_, index) => index % 4);
const columns = { x: { data: x, shape: [64, 10] }, y: { data: y, shape: [64] } };
const { history } = await train({
  model: nn.sequential(nn.linear(16), nn.relu(), nn.layerNorm(), nn.linear(4)),
  data: data.fromArrays(columns).batch(16), loss: losses.softmaxCrossEntropy, optimizer: optim.adam({ learningRate: 0.01 }),
  epochs: 2, report: "silent",
});
console.log(JSON.stringify(history.map(({ loss }) => loss)));
`;

test("cold, warm and without the cache", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-cache-"));
  try {
    writeFileSync(join(folder, "train.mjs"), script);
    const run = (cache: string): string => {
      const { stdout, stderr } = spawnSync(process.execPath, [command, "run", "train.mjs"], {
        cwd: folder,
        env: { ...process.env, HEDDLE_CACHE: cache },
        encoding: "utf8",
      });
      expect(stderr).toBe("");
      return stdout;
    };
    const without = run("off");
    expect(without).toMatch(/^\[\d/);
    expect(readdirSync(folder)).toEqual(["train.mjs"]);
    const outputs = [run("kept"), run("kept")];
    expect(outputs).toEqual([without, without]);
    expect(readdirSync(join(folder, "kept")).filter((name) => /^[0-9a-f]{64}$/.test(name)).length).toBeGreaterThan(0);
    // No package.json above the folder: nothing is kept.
    expect(run("on")).toBe(without);
    expect(readdirSync(folder)).toEqual(["kept", "train.mjs"]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 120_000);
