import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { canRun } from "../../bench/commands.ts";
import {
  compulsoryBytes,
  type EmbeddingSizes,
  inputShapes,
  matrixFlops,
  parameterShapes,
  workloadData,
} from "../../bench/kinds/index.ts";
import { shareOfLimit } from "../../bench/limits.ts";
import { disagreements } from "../../bench/measure.ts";
import { parseOptions, peerNames, UsageError } from "../../bench/options.ts";
import { behind, type Comparison, comparisons, geometricMean, pagePart } from "../../bench/page.ts";
import { digest } from "../../bench/peers/link.ts";
import { reasonFor, reasons } from "../../bench/reasons.ts";
import type { Results } from "../../bench/report.ts";
import { formatTable, type Row } from "../../bench/report.ts";
import { fastestRun, measureInTurns } from "../../bench/schedule.ts";
import { median, percentile, relativeDifference, smallest } from "../../bench/statistics.ts";
import {
  bf16Workloads,
  eagerWorkloads,
  gemmWorkloads,
  inferWorkloads,
  int8Workloads,
  linalgWorkloads,
  reduceWorkloads,
  tinySizes,
  tinyWorkload,
  twoWorkloads,
  type Workload,
  workloads,
} from "../../bench/workloads.ts";
import { partOf } from "../support/sample.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const namesOf = (list: readonly Workload[]): string[] => list.map(({ name }) => name);
const [gemm, reduce, infer, eager] = [gemmWorkloads, reduceWorkloads, inferWorkloads, eagerWorkloads].map(namesOf) as [
  string[],
  string[],
  string[],
  string[],
];
const [bf16, int8, two] = [bf16Workloads, int8Workloads, twoWorkloads].map(namesOf) as [string[], string[], string[]];
const workload = (name: string) => [...workloads, ...linalgWorkloads].find((one) => one.name === name)!;

describe("options", () => {
  test.each([
    {
      args: [],
      want: {
        only: [
          "mlp",
          "lenet",
          "chain",
          "embedding",
          "lstm",
          "gpt",
          "resnet20",
          "embed",
          ...two,
          ...bf16,
          ...gemm,
          ...reduce,
          ...infer,
          ...int8,
          ...eager,
          "start",
          "plans",
        ],
        threads: [1, 2],
        seconds: 10,
      },
    },
    { args: ["--only", "start,eager"], want: { only: [...eager, "start"] } },
    { args: ["--quick"], want: { seconds: 2, tiny: false, whole: false, out: undefined } },
    {
      args: ["--only", "int8,bf16"],
      want: { only: ["bf16-mlp", "bf16-lenet", "bf16-gpt", "int8-mlp-128", "int8-mlp-1"] },
    },
    { args: ["--whole"], want: { seconds: 1, whole: true, resume: false, out: ".heddle/bench-results/whole.json" } },
    { args: ["--whole", "--resume", "--seconds", "0.1"], want: { seconds: 0.1, whole: true, resume: true } },
    { args: ["--peers", "torch-tuned,heddle"], want: { peers: ["heddle", "torch-tuned"] } },
    {
      args: ["--only", "lenet", "--threads", "1", "--seconds", "5"],
      want: { only: ["lenet"], threads: [1], seconds: 5 },
    },
  ])("$args", ({ args, want }) => expect(parseOptions(args)).toMatchObject(want));

  test.each([
    { args: ["--only", "vgg"], says: "'vgg' is none of mlp, lenet" },
    { args: ["--peers", "heddle,numpy"], says: "'numpy' is none of heddle" },
    { args: ["--threads", "0"], says: "--threads: '0'" },
    { args: ["--threads", "1.5"], says: "whole numbers" },
    { args: ["--seconds", "soon"], says: "--seconds: 'soon'" },
    { args: ["--fast"], says: "--fast" },
    { args: ["--whole", "--tiny"], says: "--tiny sizes are no results" },
    { args: ["--resume"], says: "--out names its file" },
  ])("$args is refused", ({ args, says }) => {
    expect(() => parseOptions(args)).toThrow(UsageError);
    expect(() => parseOptions(args)).toThrow(says);
  });
});

describe("workloads", () => {
  test("arithmetic and parameters, counted by hand", () => {
    // 784 x 512 has no gradient by its input; the others have all three products.
    expect(matrixFlops(workload("mlp").sizes)).toBe(128 * 2 * (2 * 784 * 512 + 3 * (512 * 512 + 512 * 10)));
    const [first, second] = [28 * 28 * 25 * 32, 14 * 14 * 25 * 32 * 64];
    expect(matrixFlops(workload("lenet").sizes)).toBe(128 * 2 * (2 * first + 3 * (second + 3136 * 512 + 512 * 10)));
    const shapes = parameterShapes(workload("lenet").sizes).map(([, shape]) => shape.reduce((a, b) => a * b));
    expect(shapes.reduce((a, b) => a + b)).toBe(1_663_370);
  });

  test("arithmetic of sequences", () => {
    const gates = 2 * 128 * 1024 + 3 * 256 * 1024;
    expect(matrixFlops(workload("lstm").sizes)).toBe(32 * 64 * 2 * (gates + 3 * 256 * 128));
    const block = 4 * 256 * 256 + 2 * 4 * 256 * 256 + 2 * 128 * 256;
    expect(matrixFlops(workload("gpt").sizes)).toBe(8 * 128 * 6 * (4 * block + 256 * 4096));
    const weights = (name: string): number =>
      parameterShapes(workload(name).sizes).reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b), 0);
    expect(weights("lstm")).toBe(4 * 256 * (128 + 256 + 2) + 128 * 257);
    expect(weights("gpt")).toBe(4096 * 256 + 128 * 256 + 4 * (12 * 256 * 256 + 13 * 256) + 2 * 256);
  });

  test("arithmetic of the residual network and of the bags", () => {
    const { sizes } = workload("resnet20");
    // A convolution costs the same in every stage; the first of a later stage, from half of the channels, costs half.
    const stage = 32 * 32 * 9 * 16 * 16;
    const all = 2 * 27 * 32 * 32 * 16 + 3 * (6 * stage + 2 * (5 * stage + stage / 2) + 64 * 10);
    expect(matrixFlops(sizes)).toBe(64 * 2 * all);
    const weights = parameterShapes(sizes).reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b), 0);
    // The count of He et al. for CIFAR-10, option A.
    expect(weights).toBe(269_722);
    expect(matrixFlops(workload("embed").sizes)).toBe(4096 * 2 * 3 * (16 * 64 + 64));
    expect(compulsoryBytes(workload("reduce-softmax").sizes)).toBe(4 * 2 * 4096 * 1024);
    expect(compulsoryBytes(workload("reduce-sum").sizes)).toBe(4 * (4096 * 1024 + 4096));
    expect(compulsoryBytes(workload("reduce-cross-entropy").sizes)).toBe(4 * (2 * 1024 * 4096 + 1024));
  });

  test("norms begin as the identity", () => {
    const { sizes } = tinyWorkload(workload("gpt"));
    const shapes = parameterShapes(sizes);
    const place = shapes.findIndex(([name]) => name === "blocks.0.norm1.weight");
    const start = shapes.slice(0, place).reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b), 0);
    const values = new Float32Array(Uint8Array.from(workloadData(sizes)).buffer, 4 * start, 16);
    expect([...values]).toEqual([...Array(8).fill(1), ...Array(8).fill(0)]);
  });

  test("arithmetic of what is not trained", () => {
    expect(matrixFlops(workload("gemm-1x4096x4096").sizes)).toBe(2 * 4096 * 4096);
    expect(matrixFlops(workload("gemm-128x784x512").sizes)).toBe(2 * 128 * 784 * 512);
    expect(matrixFlops(workload("infer-mlp").sizes)).toBe(2 * (784 * 512 + 512 * 512 + 512 * 10));
    const images = 28 * 28 * 25 * 32 + 14 * 14 * 25 * 32 * 64 + 3136 * 512 + 512 * 10;
    expect(matrixFlops(workload("infer-lenet-64").sizes)).toBe(64 * 2 * images);
    const quantised = 2 * 1024 * 2048 + 2048 * 2048;
    expect(matrixFlops(workload("int8-mlp-128").sizes)).toBe(128 * 2 * quantised);
    // Biases, too; inputs are floats.
    expect(compulsoryBytes(workload("int8-mlp-1").sizes)).toBe(quantised + 2 * 2048 + 1024 + 4 * 1024);
    expect(compulsoryBytes(workload("infer-mlp").sizes)).toBe(4 * (784 * 512 + 512 * 512 + 512 * 10 + 1034 + 784));
    expect(compulsoryBytes(workload("gemm-1x4096x4096").sizes)).toBe(4 * (4096 * 4096 + 2 * 4096));
  });

  test("the data is the same every time, and as long as its parts", () => {
    const { sizes } = { sizes: tinySizes.mlp };
    const data = workloadData(sizes);
    expect(Buffer.compare(data, workloadData(sizes))).toBe(0);
    expect(data.length).toBe(4 * (12 * 16 + 16 + 16 * 16 + 16 + 16 * 4 + 4 + 8 * 12 + 8));
    expect(workloadData(tinySizes.chain).length).toBe(4 * 3 * 4096);
    expect(workloadData(tinySizes.embedding).length).toBe(4 * (64 * 4 + 16 * 4 + 16));
  });

  /** The ids in the data, which are the last part of it, and how often each occurs. */
  function idsOf(sizes: EmbeddingSizes) {
    const ids = [...new Int32Array(Uint8Array.from(workloadData(sizes)).buffer.slice(-4 * sizes.batch))];
    return { ids, times: [...new Set(ids)].map((id) => ids.filter((other) => other === id).length) };
  }

  test("ids of the embedding lie in the table, few are frequent, and no row overshoots its target", () => {
    expect(parameterShapes(workload("embedding").sizes)).toEqual([["0.weight", [1_000_000, 32]]]);
    expect(inputShapes(workload("embedding").sizes)).toEqual([["targets", [4096, 32]]]);
    // The ids do not depend on the width of the table, of which there is no need here.
    const full = { ...(workload("embedding").sizes as EmbeddingSizes), features: 1 };
    for (const sizes of [full, tinySizes.embedding as EmbeddingSizes]) {
      const { ids, times } = idsOf(sizes);
      expect(ids.every((id) => id >= 0 && id < sizes.rows)).toBe(true);
      expect(times.length).toBeLessThan(sizes.batch);
      expect(times.length).toBeGreaterThan(sizes.batch / 2);
      // Each time that a row is looked up, it goes 2% of the way.
      expect(0.02 * Math.max(...times)).toBeLessThan(1);
      // Targets and ids are read, and every row that is looked up is read and written.
      const { batch, features } = sizes;
      expect(compulsoryBytes(sizes)).toBe(4 * (batch * features + batch + 2 * times.length * features));
    }
    expect(matrixFlops(full)).toBe(0);
  });

  test("the embedding's rate follows from what its mean divides by", () => {
    const full = workload("embedding");
    expect(full.optimizer).toEqual({ kind: "sgd", learningRate: 0.01 * 4096 * 32, momentum: 0, nesterov: false });
    expect(tinyWorkload(full)).toMatchObject({
      sizes: tinySizes.embedding,
      optimizer: { learningRate: 0.01 * 16 * 4 },
    });
    expect(tinyWorkload(workload("mlp")).optimizer).toEqual(workload("mlp").optimizer);
  });
});

test("statistics", () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(median([])).toBeNaN();
  expect(digest([1, -2])).toBe((1 + 2 * 4) / 2);
  expect(digest(Array(8).fill(1))).toBe((1 + 2 + 3 + 4 + 5 + 6 + 7 + 1) / 8);
  expect(percentile([4, 1, 3, 2], 50)).toBe(2);
  expect(percentile([4, 1, 3, 2], 99)).toBe(4);
  expect(percentile([], 99)).toBeNaN();
  expect(smallest([3, 1, 2])).toBe(1);
  expect(relativeDifference(2, 1)).toBe(0.5);
  expect(relativeDifference(0, 0)).toBe(0);
  expect(fastestRun([9, 1, 2, 3, 2, 9])).toBe(2);
  expect(fastestRun([4, 2])).toBe(3);
});

test("which peer can run what", () => {
  const peersOf = (name: string) => peerNames.filter((peer) => canRun(peer, workload(name)));
  const torch = ["torch-eager", "torch-tuned", "torch-compile"];
  const inference = ["onnxruntime", "onnxruntime-node", "openvino"];
  expect(peersOf("mlp")).toEqual(["heddle", ...torch, "jax-jit", "tfjs"]);
  expect(peersOf("gpt")).toEqual(["heddle", ...torch, "jax-jit"]);
  expect(peersOf("bf16-lenet")).toEqual(["heddle", ...torch]);
  expect(peersOf("lenet-dp")).toEqual(["heddle", "torch-eager", "torch-tuned"]);
  expect(peersOf("gemm-256")).toEqual(["heddle", "torch-eager", "torch-tuned", "jax-jit", "tfjs"]);
  expect(peersOf("infer-mlp")).toEqual(["heddle", "heddle-sync", ...torch, "jax-jit", ...inference, "tfjs"]);
  expect(peersOf("int8-mlp-1")).toEqual(["heddle", "heddle-sync", ...inference]);
  expect(peersOf("eager-chain")).toEqual(["heddle", "torch-eager"]);
});

test("the share of the limit that binds", () => {
  const limits = { flops: 1e11, bytes: 1e10 };
  expect(shareOfLimit({ flops: 1e8, bytes: 1e6 }, 2, limits)).toBe(0.5);
  expect(shareOfLimit({ flops: 1e8, bytes: 3e7 }, 4, limits)).toBe(0.75);
  expect(shareOfLimit({ flops: 0, bytes: 0 }, 4, limits)).toBeUndefined();
});

describe("turns", () => {
  /** Steps of fixed length, and a record of who ran. */
  function contender(name: string, milliseconds: number, record: string[], failsAt = Infinity) {
    let calls = 0;
    return {
      name,
      steps: async (count: number) => {
        calls++;
        record.push(`${name}${count}`);
        if (calls >= failsAt) throw new Error(`${name} fails`);
        return { milliseconds: Array.from({ length: count }, () => milliseconds), losses: [10 / calls, 9 / calls] };
      },
    };
  }

  test("blocks alternate, with as many steps as fill their time", async () => {
    const record: string[] = [];
    const contenders = [contender("a", 100, record), contender("b", 250, record)];
    const found = await measureInTurns(contenders, { seconds: 1, blockSeconds: 0.5, warmUp: 2 }, () => {});
    expect(record).toEqual(["a1", "a2", "b1", "b2", "a5", "b2", "b2", "a5"]);
    expect(found.get("a")).toMatchObject({ firstLoss: 10, lastLoss: 9 / 4, fastestMilliseconds: 100 });
    expect(found.get("a")?.milliseconds.length).toBe(10);
  });

  test("a slow one warms up for a second", async () => {
    const record: string[] = [];
    const contenders = [contender("a", 500, record), contender("b", 1, record), contender("c", 3000, record)];
    await measureInTurns(contenders, { seconds: 0.01, blockSeconds: 0.01, warmUp: 40 }, () => {});
    expect(record).toEqual(["a1", "a2", "a2", "b1", "b2", "b38", "c1", "c2", "a1", "b10", "c1"]);
  });

  test("one that fails is told, and does not stop the others", async () => {
    const record: string[] = [];
    const contenders = [contender("a", 100, record, 3), contender("b", 100, record)];
    const failures: string[] = [];
    const duration = { seconds: 0.4, blockSeconds: 0.2, warmUp: 2 };
    const found = await measureInTurns(contenders, duration, (name, { message }) => failures.push(name, message));
    expect([...found.keys()]).toEqual(["b"]);
    expect(failures).toEqual(["a", "a fails"]);
    expect(record).toEqual(["a1", "a2", "b1", "b2", "a2", "b2", "b2"]);
  });
});

test.each([
  { values: [2.3001, 2.2, 2.1], wrong: false },
  { values: [2.3, 2.25, 2.1], wrong: true },
  { values: [2.3, 2.2], wrong: true },
  { values: [Number.NaN, 2.2, 2.1], wrong: true },
])("losses $values beside 2.3, 2.2, 2.1: disagree $wrong", ({ values, wrong }) => {
  const checks = new Map([
    ["heddle", [2.3, 2.2, 2.1]],
    ["other", values],
  ]);
  expect(disagreements("mlp", checks).length).toBe(wrong ? 1 : 0);
});

const row = (peer: string, medianMilliseconds: number, ratio: number): Row => ({
  workload: "mlp",
  peer,
  processes: 1,
  threads: 2,
  medianMilliseconds,
  minimumMilliseconds: 1,
  slowMilliseconds: undefined,
  steps: 7,
  ratio,
  gflops: undefined,
  gigabytesPerSecond: undefined,
  peakBytes: 2.5e8,
  firstMilliseconds: 9,
  firstLoss: undefined,
  lastLoss: undefined,
});

test("the table", () => {
  expect(formatTable([row("heddle", 2, 1), row("jax-jit", 123.4, 61.7)])).toMatchInlineSnapshot(`
    "| workload | threads | peer    | median ms | min ms | ratio | GFLOP/s | GB/s | of limit | peak MB | of torch | steps |
    | -------- | ------: | ------- | --------: | -----: | ----: | ------: | ---: | -------: | ------: | -------: | ----: |
    | mlp      |       2 | heddle  |      2.00 |   1.00 |  1.00 |       - |    - |        - |     250 |        - |     7 |
    | mlp      |       2 | jax-jit |       123 |   1.00 | 61.70 |       - |    - |        - |     250 |        - |     7 |"
  `);
  const waiting = { ...row("heddle", 0.0352, 1), slowMilliseconds: 0.1234, minimumMilliseconds: 0.03 };
  expect(formatTable([waiting])).toMatchInlineSnapshot(`
    "| workload | threads | peer   | median us | p99 us | min us | ratio | of limit | peak MB | of torch | steps |
    | -------- | ------: | ------ | --------: | -----: | -----: | ----: | -------: | ------: | -------: | ----: |
    | mlp      |       2 | heddle |      35.2 |    123 |   30.0 |  1.00 |        - |     250 |        - |     7 |"
  `);
  expect(formatTable([row("heddle", 2, 1), waiting])).toBe(
    `${formatTable([row("heddle", 2, 1)])}\n\n${formatTable([waiting])}`,
  );
});

describe("the page of a whole run", () => {
  const rows = [
    { ...row("heddle", 2, 1), memoryShare: 0.5, limitShare: 0.625 },
    row("torch-tuned", 3, 1.5),
    row("jax-jit", 1.5, 0.75),
    { ...row("heddle", 0.5, 1), workload: "infer-mlp", threads: 1 },
    { ...row("heddle-sync", 0.25, 0.5), workload: "infer-mlp", threads: 1 },
    { ...row("onnxruntime", 1, 2), workload: "infer-mlp", threads: 1 },
    { ...row("heddle", 4, 1), workload: "plans" },
  ];

  test("every way of Heddle beside the fastest other peer", () => {
    const compared = comparisons(rows);
    expect(compared.map(({ workload, heddle, best, ratio }) => [workload, heddle.peer, best.peer, ratio])).toEqual([
      ["mlp", "heddle", "jax-jit", 0.75],
      ["infer-mlp", "heddle", "onnxruntime", 2],
      ["infer-mlp", "heddle-sync", "onnxruntime", 4],
    ]);
    expect(geometricMean(compared.map(({ ratio }) => ratio))).toBeCloseTo(6 ** (1 / 3), 12);
    expect(behind(compared)).toEqual(["- `mlp`: 0.75 of jax-jit (threads: 2). Why: not known yet."]);
    const [mlp] = compared as [Comparison];
    expect(behind([{ ...mlp, workload: "gpt" }])).toEqual([
      `- \`gpt\`: 0.75 of jax-jit (threads: 2). Why: ${reasons["gpt"]}.`,
    ]);
  });

  test("tables, reasons and targets", () => {
    const results: Results = {
      date: "2026-01-02T03:04:05Z",
      machine: { cpu: "A", cores: 2, memoryBytes: 2 ** 34, system: "linux", node: "v1", heddle: "1.0", commit: "abc" },
      versions: { torch: "2" },
      load: [0.5, 1],
      seconds: 1,
      limits: { "1": { flops: 2e11, bytes: 1.5e10 } },
      rows,
      problems: [{ workload: "mlp", peer: "tfjs", message: "it failed\nhere" }],
      plans: [
        { training: "mlp", mesh: "data=1", threads: 1, predicted: 2, measured: 3 },
        { training: "mlp", mesh: "data=2", threads: 1, predicted: 1, measured: 1.25 },
      ],
    };
    const text = pagePart(results);
    expect(text).toContain("200 GFLOP/s and 15.0 GB/s by 1 thread.");
    expect(text).toContain("| `mlp` | 2 | 2.00 | jax-jit | 1.50 | **0.75** | 250 | 50 % | 63 % |");
    expect(text).toContain("| `infer-mlp`, `heddle-sync` | 1 | 0.250 | onnxruntime | 1.00 | 4.00 | 250 | - | - |");
    expect(text).toContain("| row, ms | threads | heddle | heddle-sync | torch-tuned | jax-jit | onnxruntime |");
    expect(text).toContain("- `mlp`, tfjs: it failed\n");
    expect(text).toContain("| `mlp` | 1 | 2.00, 3.00, 1.50 | 1.00, 1.25, 1.25 |");
    expect(text).toContain("| all | 3 | 1 | 1.82 |");
    expect(text).toContain("| one thread | 2 | 0 | 2.83 |");
  });

  test("reasons are for rows that there are", () => {
    const all = [...workloads.map(({ name }) => name), "start"];
    const named = (key: string) => all.some((name) => name === key || (key.endsWith("-") && name.startsWith(key)));
    expect(Object.keys(reasons).filter((key) => !named(key))).toEqual([]);
    expect(reasonFor("eager-add")).toBe(reasons["eager-"]);
    expect(reasonFor("vgg")).toBeUndefined();
  });
});

test.each([
  { names: ["mlp", "lenet", "chain", "embedding", "lenet-dp", "gpt-fsdp"] },
  { names: ["lstm", "gpt", "resnet20", "embed"] },
  { names: [...bf16, ...int8] },
  { names: ["gemm-256", "gemm-1x4096x4096", ...infer] },
  { names: linalgWorkloads.map(({ name }) => name) },
  { names: [...reduce, "eager-chain", "eager-step", "eager-xty"] },
])("the harness measures Heddle in $names, and keeps the results", { timeout: 120_000 }, ({ names: all }) => {
  const names = partOf(all, 9);
  const folder = mkdtempSync(join(tmpdir(), "heddle-bench-test-"));
  try {
    const out = join(folder, "results.json");
    const peers = ["--peers", "heddle,heddle-sync", "--tiny", "--threads", "1", "--seconds", "0.02"];
    const args = ["--import", "tsx", "bench/main.ts", "--only", names.join(","), ...peers, "--out", out];
    const { status, stderr, stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("the results are in");
    const { rows, problems, machine, versions, limits } = JSON.parse(readFileSync(out, "utf8")) as Results;
    expect(problems).toEqual([]);
    expect(versions).toMatchObject({ node: process.version });
    expect(machine.cores).toBeGreaterThan(0);
    expect(limits?.["1"]?.flops).toBeGreaterThan(1e8);
    const expected = [...workloads, ...linalgWorkloads]
      .filter(({ name }) => names.includes(name))
      .flatMap(({ name, sizes: { kind } }) => [
        [name, two.includes(name) ? 2 : 1, "heddle", 1],
        ...(kind === "infer" || kind === "int8" ? [[name, 1, "heddle-sync", expect.any(Number)]] : []),
      ]);
    expect(rows.map((row) => [row.workload, row.processes, row.peer, row.ratio])).toEqual(expected);
    for (const row of rows) {
      expect(row.medianMilliseconds).toBeGreaterThan(0);
      expect(row.peakBytes).toBeGreaterThan(1e7);
      if (workload(row.workload).optimizer !== undefined) expect(row.lastLoss).toBeLessThan(row.firstLoss as number);
      if ([...infer, ...int8].includes(row.workload))
        expect(row.slowMilliseconds).toBeGreaterThanOrEqual(row.medianMilliseconds);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
