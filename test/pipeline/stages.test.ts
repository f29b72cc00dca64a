import { afterAll, describe, expect, it } from "vitest";
import type { Machine } from "../../src/cost/index.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  compileFunction,
  compilePipeline,
  type PipelineOptions,
  planFunction,
  replicate,
  type Tensor,
  type Tensors,
  tensor,
  valueAndGrad,
} from "../../src/functions/index.ts";
import { softmaxCrossEntropy } from "../../src/losses/index.ts";
import {
  formatLayout,
  gpipe,
  mesh as makeMesh,
  oneFOneB,
  only,
  parseLayout,
  parsePlan,
  printPlan,
  type Schedule,
  shard,
  simulate,
  verifyPlan,
} from "../../src/plan/index.ts";
import {
  cutPlan,
  type DeviceProgram,
  type Program,
  parseProgram,
  printProgram,
  type Step,
  verifyProgram,
  verifyTransfers,
} from "../../src/program/index.ts";
import { bytesKept, predictedWaits, printPipeline } from "../../src/report/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import { apart } from "./compare.ts";
import { compiled, optimizers, perceptron } from "./networks.ts";

process.env["HEDDLE_EXECUTOR"] = "reference";
const runtimes: Runtime[] = [];
afterAll(() => {
  for (const runtime of runtimes) runtime.close();
});

/** What a rank does, in order: regions by name, sends and receives by label and peer. */
const outline = ({ steps }: Program): string =>
  steps
    .flatMap((step: Step) => {
      if (step.kind === "run") return [step.region.name];
      if (step.kind !== "collective") return [];
      const { op, label, attrs } = step;
      return [op === "send" ? `${label}→${attrs["peer"]}` : op === "receive" ? `${attrs["peer"]}→${label}` : op];
    })
    .join(" ");

const known = new Map<string, ReturnType<typeof compiled>["pipeline"]>();

/** Compiled once for all tests, which only read it. */
function planOf(schedule: string, microBatches = 4): ReturnType<typeof compiled>["pipeline"] {
  const key = `${schedule} ${microBatches}`;
  const pipeline =
    known.get(key) ??
    compiled(perceptron(), optimizers()["momentum"] as never, "f32", { schedule, microBatches }).pipeline;
  known.set(key, pipeline);
  return pipeline;
}

describe("the programs of a pipeline", () => {
  // The test's step also returns the gradients, which every stage is sent after the update.
  it("follow the schedule, with what travels between", () => {
    expect(planOf("gpipe").programs.map(({ program }) => outline(program))).toEqual([
      "0F0 0F0→1 0F1 0F1→1 0F2 0F2→1 0F3 0F3→1 1→1B0 0B0 1→1B1 0B1 1→1B2 0B2 1→1B3 0B3 update update.0→1 1→update.0",
      "0→0F0 1F0 0→0F1 1F1 0→0F2 1F2 0→0F3 1F3 1B0 1B0→0 1B1 1B1→0 1B2 1B2→0 1B3 1B3→0 update 0→update.0 update.0→0",
    ]);
    expect(planOf("1f1b").programs.map(({ program }) => outline(program))).toEqual([
      "0F0 0F0→1 0F1 0F1→1 1→1B0 0B0 0F2 0F2→1 1→1B1 0B1 0F3 0F3→1 1→1B2 0B2 1→1B3 0B3 update update.0→1 1→update.0",
      "0→0F0 1F0 0→0F1 1B0 1B0→0 1F1 1B1 0→0F2 1B1→0 1F2 1B2 0→0F3 1B2→0 1F3 1B3 1B3→0 update 0→update.0 update.0→0",
    ]);
  });

  it("are whole, and read back from their text", () => {
    for (const schedule of ["gpipe", "1f1b"] as const)
      for (const { program } of planOf(schedule).programs) {
        verifyProgram(program);
        expect(printProgram(parseProgram(printProgram(program)))).toBe(printProgram(program));
      }
  });

  it("follow from the plan as it is read back from its text", () => {
    const unlike = compiled(perceptron(), optimizers()["adam"] as never, "f32", {
      schedule: "gpipe",
      mesh: { stage: 2, data: 2 },
      microBatches: 2,
    }).pipeline;
    for (const { plan, programs } of [planOf("gpipe"), planOf("1f1b"), unlike]) {
      const read = parsePlan(printPlan(plan));
      verifyPlan(read);
      expect(printPlan(read)).toBe(printPlan(plan));
      // Inside, values are named by their numbers in the trace, of which a text knows nothing.
      const plain = (list: readonly DeviceProgram[]) =>
        list.map(({ program, ...part }) => ({
          ...part,
          text: printProgram({ ...program, donated: [] }).replaceAll(/\b(v|sum)\d+:/g, "$1:"),
        }));
      expect(plain(cutPlan(read))).toEqual(plain(programs));
    }
  });

  it("hold only the parameters of their stage", () => {
    const names = planOf("1f1b").programs.map(({ program }) =>
      program.inputs.map(({ name }) => name).filter((name) => name.startsWith("params")),
    );
    expect(names).toEqual([
      ["params.0.weight", "params.0.bias", "params.2.weight", "params.2.bias"],
      ["params.4.weight", "params.4.bias"],
    ]);
  });

  it("keep as many micro-batches as the simulation says", () => {
    for (const [schedule, make] of [
      ["gpipe", gpipe],
      ["1f1b", oneFOneB],
    ] as const) {
      const { plan, programs } = planOf(schedule, 8);
      const { peakLive } = simulate(plan.pipeline?.schedule as Schedule);
      expect(peakLive).toEqual(make === gpipe ? [8, 8] : [2, 1]);
      expect(programs.map(({ program }) => mostKept(program))).toEqual(peakLive);
    }
  });

  it("keep the bytes that the report says", () => {
    // Per micro-batch of 4 rows: rank 0 keeps the results of two layers and gets a gradient, rank 1 keeps what it gets and the logits; by 1f1b
    // the next input arrives before the backward pass.
    const [layers, gradient, last] = [4 * (12 + 10) * 4, 4 * 10 * 4, 4 * (10 + 4) * 4];
    const kept = (schedule: string): number[] => planOf(schedule, 4).programs.map(({ program }) => bytesKept(program));
    expect(kept("gpipe")).toEqual([4 * layers + gradient, 4 * last]);
    expect(kept("1f1b")).toEqual([2 * layers + gradient, last + gradient]);
    // The gradients that a W reads are kept after its B.
    expect(kept("zb-h1")[1]).toBeGreaterThan(last);
    expect(kept("zb-h1")[1]).toBeLessThan(kept("gpipe")[1] as number);
  });

  it("are refused when they do not agree, with the steps marked", () => {
    const programs = planOf("1f1b").programs.map(({ program }) => program);
    const [one, other] = programs as [Program, Program];
    const transfers = one.steps.filter(({ kind }) => kind === "collective");
    const early = one.steps.map((step) => {
      const place = transfers.indexOf(step as never);
      return place === 0 ? (transfers[2] as Step) : place === 2 ? (transfers[0] as Step) : step;
    });
    expect(() => verifyTransfers([{ ...one, steps: early }, other])).toThrow(
      /deadlock: rank 0 waits to receive '1B0' from rank 1, rank 1 waits to receive '0F0' from rank 0\ntime[^\n]*\nrank 0 {2}0F0 +>1→1B0</,
    );
    const renamed = one.steps.map((step) => (step === transfers[0] ? { ...transfers[0], label: "0F9" } : step) as Step);
    expect(() => verifyTransfers([{ ...one, steps: renamed }, other])).toThrow(
      "rank 0 sends '0F9' f32[4,10], but rank 1 receives '0F0' f32[4,10]",
    );
  });

  it("wait for each other less where backward passes are in two parts, by the cost model", () => {
    // Links and calls that take no time: what is left is the schedule.
    const machine: Machine = { flops: 1e9, memory: 1e12, latency: 0, bandwidth: 1e15, call: 0, handover: 0 };
    const [plain, split] = ["1f1b", "zb-h1"].map((schedule) => predictedWaits(planOf(schedule, 4).programs, machine));
    expect(split?.seconds).toBeLessThan(plain?.seconds as number);
    for (const { waits } of [plain, split] as ReturnType<typeof predictedWaits>[])
      for (const share of waits) expect(share).toBeGreaterThan(0);
  });

  it("print as a plan", () => {
    const { plan, programs } = planOf("1f1b");
    expect(printPipeline(plan, programs).split("\n").slice(5, 11).join("\n")).toMatchInlineSnapshot(`
      "schedule 1f1b stages=2 microBatches=4
      time    0   1   2   3 4   5   6   7   8   9   10  11  12 13  14
      rank 0  0F0 0F1 .   . 0B0 =   0F2 0B1 =   0F3 0B2 =   .  0B3 =
      rank 1  .   1F0 1B0 = 1F1 1B1 =   1F2 1B2 =   1F3 1B3 =  .   .
      idle 20.0 %; micro-batches kept at most: rank 0 2, rank 1 1
      sent per step: rank 0 1.50 KB, rank 1 820 B"
    `);
  });
});

/** The most micro-batches of which a rank holds forward values that a backward pass is to read. */
function mostKept({ steps }: Program): number {
  const kept = new Map<number, string>();
  let most = 0;
  steps.forEach((step, index) => {
    if (step.kind === "free") for (const value of step.values) kept.delete(value);
    if (step.kind !== "run") return;
    const forward = /^\dF(\d+)/.exec(step.region.name);
    const later = steps.slice(index + 1);
    if (forward !== null)
      for (const value of step.results)
        if (
          later.some((user) => user.kind === "run" && /^\dB/.test(user.region.name) && user.arguments.includes(value))
        )
          kept.set(value, forward[1] as string);
    most = Math.max(most, new Set(kept.values()).size);
  });
  return most;
}

const rows = 8;
const x = tensor(
  Float64Array.from({ length: rows * 3 }, (_unused, index) => Math.cos(index)),
  { shape: [rows, 3], dtype: "f64" },
);
const y = tensor(
  Int32Array.from({ length: rows }, (_unused, index) => index % 3),
  { shape: [rows], dtype: "i32" },
);
const square = (phase: number): Tensor =>
  tensor(
    Float64Array.from({ length: 9 }, (_unused, index) => Math.sin(index + phase)),
    { shape: [3, 3], dtype: "f64" },
  );
const weights = (): { [name: string]: Tensor } => ({ a: square(1), b: square(2), c: square(3) });

type Loss = (params: { [name: string]: Tensor }, x: Tensor, y: Tensor) => Tensor;

const trainStep = (loss: Loss, clip = false) =>
  function step(params: Tensors, inputs: Tensor, labels: Tensor) {
    const { value, grad } = valueAndGrad(loss)(params as { [name: string]: Tensor }, inputs, labels);
    const norm = Object.values(grad)
      .map((one) => one.mul(one).sum())
      .reduce((sum, one) => sum.add(one))
      .sqrt();
    const next = Object.fromEntries(
      Object.entries(params as { [name: string]: Tensor }).map(([name, weight]) => {
        const own = grad[name] as Tensor;
        return [name, weight.sub((clip ? own.div(norm.add(1)) : own).mul(0.1))];
      }),
    );
    return { params: next, loss: value };
  };

const options = (more: Partial<PipelineOptions> = {}): PipelineOptions => ({
  argumentNames: ["params", "x", "y"],
  microBatches: 4,
  stages: (path) => ({ "params.a": 0, "params.b": 1, "params.c": 2 })[path],
  batch: (path) => path === "x" || path === "y",
  ...more,
});

const through = ([a, b, c]: readonly Tensor[], inputs: Tensor): Tensor =>
  inputs
    .matmul(a as Tensor)
    .tanh()
    .matmul(b as Tensor)
    .tanh()
    .matmul(c as Tensor);

const chained: Loss = ({ a, b, c }, inputs, labels) =>
  softmaxCrossEntropy(
    inputs
      .matmul(a as Tensor)
      .tanh()
      .matmul(b as Tensor)
      .tanh()
      .matmul(c as Tensor),
    labels,
  );

const losses: { readonly [name: string]: readonly [Loss, boolean] } = {
  "a chain of three stages": [chained, false],
  "a skip over a stage": [
    ({ a, b, c }, inputs, labels) => {
      const first = inputs.matmul(a as Tensor).tanh();
      return softmaxCrossEntropy(
        first
          .matmul(b as Tensor)
          .tanh()
          .add(first)
          .matmul(c as Tensor)
          .add(first),
        labels,
      );
    },
    false,
  ],
  "a clip by the norm of all gradients": [chained, true],
  "a penalty on all weights": [
    (params, inputs, labels) =>
      Object.values(params).reduce(
        (sum, one) => sum.add(one.mul(one).sum().mul(0.01)),
        chained(params, inputs, labels),
      ),
    false,
  ],
  "an input that the last stage needs too": [
    ({ a, b, c }, inputs) =>
      through([a, b, c] as Tensor[], inputs)
        .mul(inputs)
        .mean(),
    false,
  ],
  "a mean over the rows that a mask leaves, more in one micro-batch than in another": [
    ({ a, b, c }, inputs) => {
      const mask = inputs.slice([0, 0], [rows, 1]).reshape([rows]).gt(0.3).cast("f64");
      const output = through([a, b, c] as Tensor[], inputs);
      return output.mul(output).sum(1).mul(mask).sum().div(mask.sum());
    },
    false,
  ],
};

const planned = (step: (...inputs: never[]) => unknown, mesh: { [axis: string]: number }, pipeline: PipelineOptions) =>
  planFunction(step, [weights(), x, y], makeMesh(mesh), { ...pipeline, pipeline });

describe("stages", () => {
  it.each(Object.keys(losses))("give what one device gives: %s", async (name) => {
    const [loss, clip] = losses[name] as (typeof losses)[string];
    const step = trainStep(loss, clip);
    const alone = localRuntime({ executor: "reference" });
    const runtime = localRuntime({ axes: makeMesh({ stage: 3 }).axes, executor: "reference" });
    runtimes.push(alone, runtime);
    const whole = compileFunction(step, [weights(), x, y], alone);
    for (const schedule of ["gpipe", "1f1b"] as const) {
      const staged = compilePipeline(step, [weights(), x, y], runtime, options({ schedule }));
      let [one, other]: Tensors[] = [weights(), weights()];
      for (let count = 0; count < 5; count++) {
        const [left, right] = [whole.run(one as Tensors, x, y), staged.run(other as Tensors, x, y)];
        expect(apart(await left.loss.data(), await right.loss.data())).toBeLessThan(1e-9);
        [one, other] = [left.params, right.params];
      }
      for (const key of ["a", "b", "c"]) {
        const of = (tree: Tensors | undefined): Tensor => (tree as { [name: string]: Tensor })[key] as Tensor;
        expect(apart(await of(one).data(), await of(other).data())).toBeLessThan(1e-9);
      }
    }
  });

  const plan = (loss: Loss, more: Partial<PipelineOptions> = {}, mesh: { [axis: string]: number } = { stage: 3 }) =>
    planned(trainStep(loss), mesh, options(more));
  const both = { stage: 3, data: 2 };

  it.each([
    [
      "stages against the order of the network",
      () => plan(chained, { stages: (path) => ({ "params.a": 2, "params.b": 1, "params.c": 0 })[path] }),
      /'params\.b' is on stage 1, but dot f64\[2,3\], f64\[3,3\] -> f64\[2,3\] needs it on stage 2/,
    ],
    [
      "a parameter that two stages use",
      () =>
        plan(({ a, b, c }, inputs, labels) =>
          softmaxCrossEntropy(
            inputs
              .matmul(a as Tensor)
              .tanh()
              .matmul(b as Tensor)
              .matmul(c as Tensor)
              .matmul(a as Tensor),
            labels,
          ),
        ),
      /'params\.a' is on stage 0, but .* needs it on stage 2/,
    ],
    [
      "statistics over the batch inside the network",
      () =>
        plan(({ a, b, c }, inputs, labels) => {
          const first = inputs.matmul(a as Tensor);
          return chained({ a: b as Tensor, b: c as Tensor, c: square(5) }, first.sub(first.mean(0)), labels);
        }),
      /needs the whole batch at once, so it cannot be split into micro-batches/,
    ],
    [
      "rows that do not divide",
      () => plan(chained, { microBatches: 3 }),
      /input 'x' of 8 rows cannot be split into 3 equal micro-batches/,
    ],
    [
      "a parameter in unequal parts",
      () => plan(chained, { layouts: (path) => (path === "params.a" ? parseLayout("R S(0:2+1)") : undefined) }, both),
      /'params\.a' as S\(0:2\+1\) gives the devices of a stage parts of unequal sizes/,
    ],
    [
      "rows in unequal parts",
      () => plan(chained, { layouts: (path) => (path === "x" ? parseLayout("R S(0:6+2)") : undefined) }, both),
      /S\(0:6\+2\).* dim 0 is split unevenly on another axis/,
    ],
    [
      "a gap between stages",
      () => plan(chained, { stages: (path) => ({ "params.a": 0, "params.b": 2, "params.c": 2 })[path] }),
      /no parameter is on stage 1, but 'params\.b' is on stage 2/,
    ],
    ["a mesh without stages", () => plan(chained, {}, { data: 2 }), /mesh data=2 has no axis 'stage'/],
    ["a mesh with other stages", () => plan(chained, {}, { stage: 2 }), /has 3 ranks, axis 'stage' has 2 devices/],
    ["an unknown schedule", () => plan(chained, { schedule: "2f2b" as never }), /there is no schedule '2f2b'/],
    [
      "a schedule for other stages",
      () => plan(chained, { schedule: gpipe(2, 4) }),
      /is for 2 stages and 4 micro-batches; there are 3 and 4/,
    ],
    ["no batch", () => plan(chained, { batch: () => false }), /no input is a batch to split into micro-batches/],
    ["no stages", () => plan(chained, { stages: () => undefined }), /no input is on any stage/],
    [
      "an output with a row for every row",
      () =>
        planned(
          (params: Tensors, inputs: Tensor, labels: Tensor) => ({
            ...trainStep(chained)(params, inputs, labels),
            rows: inputs.matmul((params as { a: Tensor }).a),
          }),
          { stage: 3 },
          options(),
        ),
      /output 'rows' has a row for every row of the batch/,
    ],
  ])("are refused by name: %s", (_what, run, message) => {
    expect(run).toThrow(message);
  });

  it("hold values that others cannot use before they are replicated", async () => {
    const runtime = localRuntime({ axes: makeMesh({ stage: 3 }).axes, executor: "reference" });
    runtimes.push(runtime);
    const staged = compilePipeline(trainStep(chained), [weights(), x, y], runtime, options());
    const { params, loss } = staged.run(weights(), x, y);
    const { a, c } = params as { a: Tensor; c: Tensor };
    expect([a, c, loss].map(({ value }) => formatLayout(value.layout))).toEqual(["O(0)", "O(2)", "R"]);
    expect(parseLayout("S(0) O(2)")).toEqual([shard(0), only(2)]);
    expect(() => c.add(1)).toThrow(
      /is O\(2\): it is on one stage of a pipeline only\n.*\n {2}hint: call replicate\(x\)/,
    );
    const everywhere = replicate(c);
    expect(formatLayout(everywhere.value.layout)).toBe("R");
    for (const shardOf of everywhere.value.shards) expect(shardOf.readSync()).toEqual(c.value.shards[2]?.readSync());
    expect(
      apart(await everywhere.add(1).data(), (await c.data()).map((value) => Number(value) + 1) as Float64Array),
    ).toBe(0);
  });

  it("keeps what an optimizer holds for a parameter where the parameter is", () => {
    const stages = planOf("1f1b").plan.inputs.flatMap(({ name, stage }) =>
      name.startsWith("slots") ? [`${name} ${stage}`] : [],
    );
    expect(stages).toEqual([
      "slots.momentumBuffer.0.weight 0",
      "slots.momentumBuffer.0.bias 0",
      "slots.momentumBuffer.2.weight 0",
      "slots.momentumBuffer.2.bias 0",
      "slots.momentumBuffer.4.weight 1",
      "slots.momentumBuffer.4.bias 1",
    ]);
  });
});
