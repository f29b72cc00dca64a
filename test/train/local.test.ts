/** Local SGD and DiLoCo: equal to the training written out, by any number of workers; resumed to the bit; ended together; refused by name. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compression, layouts, losses, mesh, type Tensor, type TrainOptions, train } from "heddle";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { started, withoutSpeed } from "../cli/heddle-process.ts";
import { expectClose } from "../support/close.ts";
import { bars, inner, linear, outers, writtenOut } from "./synthetic-local.ts";

const native = !("error" in loadNative());
const script = fileURLToPath(new URL("./scripts/local.ts", import.meta.url));
let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-local-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const task = (more: Partial<TrainOptions> = {}): TrainOptions => ({
  model: linear(),
  data: bars(44).shuffle().batch(12),
  loss: losses.softmaxCrossEntropy,
  optimizer: inner(),
  epochs: 2,
  dtype: "f64",
  report: "silent",
  ...more,
});
const numbers = async (tree: unknown): Promise<number[]> => {
  const all: number[] = [];
  for (const leaf of flattenTree(tree, isTensor).leaves) all.push(...(await (leaf as Tensor).data()).map(Number));
  return all;
};

describe("one worker", () => {
  test("a meeting after every step that takes the mean is the training itself", async () => {
    const plain = await train(task());
    const local = await train(task({ localSteps: { steps: 1 } }));
    expectClose(await numbers(local.params), await numbers(plain.params), 1e-9);
    expect(local.history.map(({ loss }) => loss)).toEqual(plain.history.map(({ loss }) => loss));
    expect(local.sentBytes).toBe(0);
  });

  test.each([
    [3, "mean"],
    [3, "diloco"],
    [100, "diloco"],
  ] as const)("rounds of %d steps, outer optimizer %s, as written out", async (steps, outer) => {
    const { params } = await train(task({ localSteps: { steps, outer: outers[outer]() } }));
    expectClose(await numbers(params), await writtenOut(1, steps, outers[outer](), 2), 1e-9);
  });
});

const refusals: readonly (readonly [Partial<TrainOptions>, string])[] = [
  [{ localSteps: { steps: 0 } }, "localSteps.steps"],
  [{ localSteps: { steps: 2, outer: "sgd" as never } }, "localSteps.outer is not an optimizer"],
  [{ localSteps: { step: 2 } as never }, "step"],
  [{ layout: layouts.fullySharded() }, "layout does not go with localSteps"],
  [{ mesh: mesh({ data: 2 }) }, "mesh does not go with localSteps"],
  [{ compression: compression.int8() }, "compression does not go with localSteps"],
  [{ server: {} }, "server does not go with localSteps"],
  [{ ema: 0.9 }, "ema does not go with localSteps"],
  [{ lossScale: true }, "lossScale does not go with localSteps"],
  [{ nan: "skip" }, 'nan: "skip" does not go with localSteps'],
  [{ dtype: "f32", precision: "f16" }, 'precision "f16" does not go with localSteps'],
  [{ checkpoint: { directory: "unused", every: 3 } }, "checkpoint.every is 3 steps, where workers do not meet"],
];
test.each(refusals)("refuses %j by name", async (more, message) => {
  await expect(train(task({ localSteps: { steps: 2 }, ...more }))).rejects.toThrow(message);
});

describe.skipIf(!native)("several workers", () => {
  interface Told {
    readonly params: number[];
    readonly steps: number;
    readonly losses: number[];
    readonly examples: number[];
    readonly validation: number[];
    readonly sent: number;
    readonly hash: string;
  }
  /** What each rank printed, and the lines of the plan. */
  async function run(workers: number, settings: object, ...flags: string[]) {
    const args = ["run", script, "--workers", `${workers}`, ...flags, "--", JSON.stringify(settings)];
    const { status, stdout, stderr } = await started(args).ended;
    expect({ status, stderr: withoutSpeed(stderr) }).toEqual({ status: 0, stderr: "" });
    const told = Array.from({ length: workers }, (_unused, rank) => {
      const line = stdout.split("\n").find((text) => text.includes(`rank ${rank}: {`)) as string;
      return JSON.parse(line.slice(line.indexOf("{"))) as Told;
    });
    return { told, stdout };
  }

  test.each([
    [2, 1, "mean"],
    [3, 2, "mean"],
    [2, 2, "diloco"],
    [3, 100, "diloco"],
  ] as const)("%d workers, rounds of %d steps, outer optimizer %s, as written out", async (workers, steps, outer) => {
    const { told, stdout } = await run(workers, { steps, outer, epochs: 2 });
    const [first] = told as [Told];
    expectClose(first.params, await writtenOut(workers, steps, outers[outer](), 2), 1e-9);
    for (const other of told) expect(other.params).toEqual(first.params);
    expect(first.sent).toBeGreaterThan(0);
    // Of all workers: the rate times the time.
    expect(first.examples).toEqual([44, 44]);
    expect(stdout).toMatch(/^local +\d workers, of which each trains a copy; they meet after/m);
    expect(stdout).toMatch(/^meeting .* sent by each worker, .* per step$/m);
  });

  test("resumes from any checkpoint to the same bits", async () => {
    const settings = { steps: 2, outer: "diloco", epochs: 3, directory };
    const whole = (await run(2, { ...settings, every: 2 })).told[0] as Told;
    const saved = readdirSync(directory)
      .filter((name) => name.startsWith("step-"))
      .sort();
    expect(saved.length).toBeGreaterThan(3);
    // In the middle of an epoch, and at the end of one.
    for (const name of [saved[0], saved[1]]) {
      for (const later of readdirSync(directory))
        if (later.startsWith("step-") && later > (name as string)) rmSync(join(directory, later), { recursive: true });
      const { told } = await run(2, { ...settings, every: 2 }, "--resume");
      // A resumed epoch counts its examples from there.
      expect({ ...told[0], examples: [] }).toEqual({ ...whole, examples: [] });
    }
    const args = ["run", script, "--workers", "3", "--resume", "--", JSON.stringify(settings)];
    const { status, stderr } = await started(args).ended;
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /cannot resume from \S*step-\d+\S*: it is of 2 workers with local steps, .* and this run has 3/,
    );
    expect(stderr).toContain("go on with --workers 2");
  });

  test("all end after the meeting that follows when one asks", async () => {
    const { told } = await run(2, { steps: 3, outer: "mean", epochs: 50, stop: { rank: 1, step: 4 } });
    expect(told[0]?.steps).toBeLessThan(20);
    expect(told[1]?.params).toEqual(told[0]?.params);
  });
});
