/** Memory as `heddle plan` predicts it, and as the native core counts it in a training: equal to the byte. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { deviceBytes, type TrainingMemory } from "../../src/report/index.ts";
import { withoutSpeed } from "../cli/heddle-process.ts";
import { bundled } from "../support/bundled.ts";

const command = fileURLToPath(new URL("../cli/heddle.ts", import.meta.url));
const script = new URL("./scripts/memory.ts", import.meta.url);
const alone = bundled(script);

interface Told {
  /** Of one device, or of each rank of a pipeline. */
  readonly memories: readonly TrainingMemory[];
  readonly predicted: number;
  readonly measured: number;
}

/** What each process says. */
function told(name: string, workers = 1): Told[] {
  const launcher = ["--import", "tsx", command, "run", fileURLToPath(script), "--workers", String(workers), "--", name];
  const { status, stdout, stderr } = spawnSync(process.execPath, workers === 1 ? [alone, name] : launcher, {
    env: { ...process.env, NO_COLOR: "1", ...(workers === 1 ? {} : { NODE_OPTIONS: "--conditions=heddle-source" }) },
    encoding: "utf8",
  });
  expect({ status, stderr: withoutSpeed(stderr) }).toEqual({ status: 0, stderr: "" });
  const lines = stdout.split("\n").filter((line) => line.includes('{"memories"'));
  expect(lines).toHaveLength(workers);
  return lines.map((line) => JSON.parse(line.slice(line.indexOf("{"))) as Told);
}

describe.skipIf("error" in loadNative())("peak memory", { timeout: 120_000 }, () => {
  const found = new Map<string, readonly TrainingMemory[]>();

  test.each([
    "one device",
    "data parallel",
    "tensor parallel",
    "fully sharded",
    "pipeline",
    "pipelines times data",
    "fully sharded pipelines",
    "fully sharded pipelines that gather for each action",
    "pipelines with sharded state",
  ])("%s, devices of one process", (name) => {
    const [{ memories, predicted, measured }] = told(name) as [Told];
    expect(measured).toBe(predicted);
    found.set(name, memories);
  });

  test.each(["fully sharded", "pipeline"])("%s, two processes", (name) => {
    for (const { predicted, measured } of told(name, 2)) expect(measured).toBe(predicted);
  });

  const sum = (name: string, of: (memory: TrainingMemory) => number): number =>
    (found.get(name) ?? []).reduce((total, memory) => total + of(memory), 0);

  test("fully sharded over two holds half of the parameters and optimizer state of data parallel", () => {
    for (const part of ["parameters", "optimizer"] as const)
      expect(2 * sum("fully sharded", (memory) => memory[part])).toBe(sum("data parallel", (memory) => memory[part]));
    expect(sum("fully sharded", ({ batches }) => batches)).toBe(sum("data parallel", ({ batches }) => batches));
  });

  test("a fully sharded pipeline over two holds half of the state on each device, and less for a step where each action gathers", () => {
    const whole = (of: (memory: TrainingMemory) => number): number => sum("pipelines times data", of);
    // Parameters without a dim of an even length stay whole.
    for (const part of ["parameters", "optimizer"] as const)
      expect(sum("fully sharded pipelines", (memory) => memory[part])).toBe(whole((memory) => memory[part]) / 2);
    expect(sum("pipelines with sharded state", ({ parameters }) => parameters)).toBe(
      whole(({ parameters }) => parameters),
    );
    expect(sum("pipelines with sharded state", ({ optimizer }) => optimizer)).toBe(
      whole(({ optimizer }) => optimizer) / 2,
    );
    const all = (name: string): number => sum(name, deviceBytes);
    expect(all("fully sharded pipelines that gather for each action")).toBeLessThan(all("fully sharded pipelines"));
    expect(all("fully sharded pipelines")).toBeLessThan(all("pipelines times data"));
    expect(all("pipelines with sharded state")).toBeLessThan(all("pipelines times data"));
  });

  test("the stages of a pipeline hold the parameters and optimizer state of one device between them", () => {
    for (const part of ["parameters", "optimizer"] as const)
      expect(sum("pipeline", (memory) => memory[part])).toBe(sum("one device", (memory) => memory[part]));
  });
});
