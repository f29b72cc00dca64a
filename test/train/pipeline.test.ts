/**
 * Checkpoints and evaluation of trainings by stages, with the stages as virtual devices of one process. `npm run test:processes` runs a part
 * of the rows, `npm run test:grids` all.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { layouts, nn, optim, random, type StepRecord, type TrainOptions, train } from "heddle";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadCheckpoint } from "../../src/checkpoints/index.ts";
import { withSource } from "../../src/compile/index.ts";
import { isOnStage, isTensor, replicate, type Tensor } from "../../src/functions/index.ts";
import type { HostTensors } from "../../src/io/safetensors.ts";
import { formatLayout, type Mesh, mesh, printLayouts, printPlan } from "../../src/plan/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";
import { bars, options } from "./synthetic.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "heddle-stages-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const perceptron = (): nn.Layer =>
  nn.sequential(nn.flatten(), nn.linear(16), nn.relu(), nn.dropout(0.25), nn.linear(8), nn.relu(), nn.linear(3));

/** 60 rows in batches of 16: the last one, of 12 rows, takes fewer micro-batches than a batch of 16. */
const task = (more: Partial<TrainOptions>): TrainOptions =>
  options({
    model: perceptron(),
    data: bars(60).shuffle().batch(16),
    evaluate: bars(33, { seed: 5 }),
    optimizer: optim.adam({ learningRate: 0.02 }),
    dtype: "f64",
    epochs: 4,
    ...more,
  });

interface Trained {
  readonly losses: readonly number[];
  readonly evaluations: readonly number[];
  readonly values: readonly number[];
  readonly checkpoint: string | undefined;
}

async function trained(more: Partial<TrainOptions>): Promise<Trained> {
  const steps: StepRecord[] = [];
  const result = await train(task({ ...more, callbacks: { onStep: (record) => void steps.push(record) } }));
  const { leaves } = flattenTree([result.params, result.optimizerState], isTensor);
  const values = await Promise.all(leaves.map(async (leaf: Tensor) => Array.from(await replicate(leaf).data())));
  return {
    losses: steps.map(({ loss }) => loss),
    evaluations: result.history.flatMap(({ validation }) =>
      validation === undefined ? [] : [validation.loss, validation.metrics["accuracy"] as number],
    ),
    values: values.flat(),
    checkpoint: result.checkpoint,
  };
}

const stages = (one: Partial<TrainOptions["pipeline"] & object> = {}): Partial<TrainOptions> => ({
  pipeline: { stages: { 1: 0, 4: 1, 6: 1 }, microBatches: 4, ...one },
});

const meshes: { [name: string]: Partial<TrainOptions> } = {
  "one device": {},
  "two stages": stages(),
  "two stages, all forward passes first": stages({ schedule: "gpipe" }),
  "three stages": stages({ stages: { 1: 0, 4: 1, 6: 2 } }),
  "two stages times data": { mesh: mesh({ stage: 2, data: 2 }), ...stages({ microBatches: 2 }) },
  "three stages, backward passes in two parts": stages({ stages: { 1: 0, 4: 1, 6: 2 }, schedule: "zb-h1" }),
  "fully sharded": { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() },
  "two stages, the first one's layer split over its devices": {
    mesh: mesh({ stage: 2, model: 2 }),
    layout: layouts.named({ "1.weight": { model: 0 }, "1.bias": { model: 0 } }),
    ...stages(),
  },
};
const sharded: { readonly [name: string]: Partial<TrainOptions> } = {
  "fully sharded": { layout: layouts.fullySharded() },
  "fully sharded, gathered for each action": {
    layout: layouts.fullySharded(),
    ...stages({ microBatches: 2, gatherEach: true }),
  },
  "fully sharded, backward passes in two parts": {
    layout: layouts.fullySharded(),
    ...stages({ microBatches: 2, schedule: "zb-h1" }),
  },
  "fully sharded, the first one's layer split over model, too": {
    mesh: mesh({ stage: 2, data: 2, model: 2 }),
    layout: [layouts.named({ "1.weight": { model: 0 }, "1.bias": { model: 0 } }), layouts.fullySharded()],
  },
  "sharded state": { layout: layouts.shardedState() },
};
for (const [name, more] of Object.entries(sharded))
  meshes[`two stages times data, ${name}`] = {
    mesh: mesh({ stage: 2, data: 2 }),
    ...stages({ microBatches: 2 }),
    ...more,
  };
const named = (name: string): Partial<TrainOptions> => meshes[name] as Partial<TrainOptions>;

const executors = ["reference", ...(missing === undefined ? (["native"] as const) : [])] as const;
type Executor = (typeof executors)[number];

const known = new Map<string, Promise<Trained>>();

/** A training on one of the meshes from its start to its end, once for all that compare with it. */
function uninterrupted(name: string, executor: Executor = "reference"): Promise<Trained> {
  const key = `${executor}: ${name}`;
  const made = known.get(key) ?? trained({ executor, ...named(name) });
  known.set(key, made);
  return made;
}

describe.each(executors)("%s executor", (executor) => {
  // Another part on each executor.
  test.each(partOf(Object.keys(meshes).slice(1), 3, executor === "reference" ? 0 : 1))(
    "%s: trains and evaluates as one device does",
    async (name) => {
      const [alone, apart] = [await uninterrupted("one device", executor), await uninterrupted(name, executor)];
      expectClose(apart.losses, alone.losses, 1e-9);
      expectClose(apart.evaluations, alone.evaluations, 1e-9);
      expectClose(apart.values, alone.values, 1e-9);
    },
  );

  test("guarded steps keep their counts and scale across a checkpoint", async () => {
    const guarded = { executor, nan: "skip", ...stages() } as const;
    const checkpoint = { directory: folder };
    await trained({ ...guarded, epochs: 2, checkpoint });
    const resumed = await trained({ ...guarded, checkpoint, resume: true });
    const { losses, values } = await trained(guarded);
    expect(resumed.losses).toEqual(losses.slice(8));
    expect(resumed.values).toEqual(values);
  });
});

describe("a plan in a file", () => {
  afterEach(() => {
    delete process.env["HEDDLE_PLAN_FILE"];
  });

  const splits: readonly (readonly [string, Mesh])[] = [
    ["two stages", mesh({ stage: 2 })],
    ["two stages, all forward passes first", mesh({ stage: 2 })],
    ["two stages times data", mesh({ stage: 2, data: 2 })],
    ["fully sharded", mesh({ data: 2 })],
    ["two stages times data, fully sharded", mesh({ stage: 2, data: 2 })],
    ["two stages times data, fully sharded, gathered for each action", mesh({ stage: 2, data: 2 })],
  ];
  test("gathers once for a step or once for each action, and scatters once", () => {
    const counts = ["fully sharded", "fully sharded, gathered for each action"].map((name) => {
      const settings = resolveOptions(task(named(`two stages times data, ${name}`)));
      const { programs } = planStep(settings, modelTypes(settings), mesh({ stage: 2, data: 2 }));
      const values = (op: string) =>
        programs.map(({ program }) =>
          program.steps.reduce(
            (sum, step) => sum + (step.kind === "collective" && step.op === op ? step.results.length : 0),
            0,
          ),
        );
      return { gathered: values("allGather"), scattered: values("reduceScatter") };
    });
    // Stage 0 has one layer, whose weight the backward pass does not need; stage 1 has two, of which one bias is whole.
    expect(counts).toEqual([
      { gathered: [2, 3], scattered: [2, 3] },
      { gathered: [4, 10], scattered: [2, 3] },
    ]);
  });

  test.each([false, true])(
    "gathers weights in 16 bits where layers compute in them; for each action: %s",
    async (gatherEach) => {
      const more = {
        mesh: mesh({ stage: 2, data: 2 }),
        ...stages({ microBatches: 2, gatherEach }),
        dtype: "f32",
        precision: "bf16",
        epochs: 1,
      } as const;
      const layout = layouts.fullySharded();
      const settings = resolveOptions(task({ ...more, layout }));
      const { programs } = planStep(settings, modelTypes(settings), more.mesh);
      const gathered = programs.flatMap(({ program }) =>
        program.steps.flatMap((step) =>
          step.kind === "collective" && step.op === "allGather"
            ? step.results.map((result) => program.values[result]?.dtype)
            : [],
        ),
      );
      expect(new Set(gathered)).toEqual(new Set(["bf16"]));
      expectClose((await trained({ ...more, layout })).losses, (await trained(more)).losses, 1e-5);
    },
  );

  test.each(partOf(splits, 3))("%s: its layouts, or all of it, have the bits of the options", async (name, axes) => {
    const expected = await trained({ ...named(name), epochs: 1 });
    const settings = resolveOptions(task(named(name)));
    const { plan, graph } = planStep(settings, modelTypes(settings), axes);
    const path = join(folder, "step.plan");
    for (const print of [printLayouts, printPlan] as const) {
      writeFileSync(path, print(withSource(plan, graph)));
      process.env["HEDDLE_PLAN_FILE"] = path;
      expect(await trained({ epochs: 1 })).toEqual(expected);
      delete process.env["HEDDLE_PLAN_FILE"];
    }
  });
});

describe("checkpoints", () => {
  test.each(partOf([...Object.keys(meshes).slice(1, 5), "two stages times data, fully sharded"], 3, 1))(
    "%s: a run that goes on has the bits of one never interrupted",
    async (name) => {
      const whole = await uninterrupted(name);
      const checkpoint = { directory: folder, every: 3 };
      await trained({ ...named(name), epochs: 2, checkpoint });
      const resumed = await trained({ ...named(name), checkpoint, resume: true });
      expect(resumed.losses).toEqual(whole.losses.slice(8));
      expect(resumed.evaluations).toEqual(whole.evaluations);
      expect(resumed.values).toEqual(whole.values);
    },
  );

  const pairs = [
    ["two stages", "one device"],
    ["one device", "two stages"],
    ["two stages", "three stages"],
    ["two stages times data", "fully sharded"],
    ["fully sharded", "two stages"],
    ["two stages times data, fully sharded", "three stages"],
    ["two stages times data, fully sharded", "one device"],
    ["fully sharded", "two stages times data, fully sharded"],
    ["two stages", "two stages times data, sharded state"],
  ] as const;
  test.each(partOf(pairs, 5, 1))("written by %s, read by %s", async (first, second) => {
    const checkpoint = { directory: folder };
    await trained({ ...named(first), checkpoint, epochs: 2 });
    const resumed = await trained({ ...named(second), checkpoint, resume: true });
    const whole = await uninterrupted("one device");
    expectClose(resumed.losses, whole.losses.slice(8), 1e-9);
    expectClose(resumed.values, whole.values, 1e-9);
  });

  test("a stage's values in the file are those of a training without stages, by the same names", async () => {
    const [one, two] = [join(folder, "one"), join(folder, "two")];
    const files = [
      await trained({ checkpoint: { directory: one } }),
      await trained({ checkpoint: { directory: two }, ...stages() }),
    ];
    const loaded = await Promise.all(files.map(({ checkpoint }) => loadCheckpoint(checkpoint as string)));
    const [left, right] = loaded.map(({ tensors }) => tensors) as [HostTensors, HostTensors];
    expect([...right.keys()]).toEqual([...left.keys()]);
    for (const [name, { data }] of left) expectClose(right.get(name)?.data ?? [], data, 1e-9);
  });
});

describe("batch norm by groups of rows", () => {
  const given = (groups: number | undefined, more: Partial<TrainOptions>): Partial<TrainOptions> => ({
    model: nn.sequential(
      nn.flatten(),
      nn.linear(16),
      nn.batchNorm(groups === undefined ? {} : { groups }),
      nn.relu(),
      nn.linear(8),
      nn.batchNorm(groups === undefined ? {} : { groups }),
      nn.relu(),
      nn.linear(3),
    ),
    // Adam would divide the rounding of small gradients by their size.
    optimizer: optim.sgd({ learningRate: 0.05, momentum: 0.9 }),
    epochs: 2,
    ...more,
  });
  const pipeline = { stages: { 1: 0, 2: 0, 4: 1, 5: 1, 7: 1 }, microBatches: 4 };

  test.each([
    [4, { pipeline }],
    [4, { pipeline: { ...pipeline, schedule: "zb-h1" } }],
    [8, { pipeline, mesh: mesh({ stage: 2, data: 2 }), data: bars(64).shuffle().batch(32) }],
    [8, { pipeline }],
  ] as const)(
    "of %i groups trains, evaluates and keeps running statistics as one device does",
    async (groups, more) => {
      const { data = bars(64).shuffle().batch(16) } = more as Partial<TrainOptions>;
      const [alone, apart] = [await trained(given(groups, { data })), await trained(given(groups, { data, ...more }))];
      expectClose(apart.losses, alone.losses, 1e-9);
      expectClose(apart.evaluations, alone.evaluations, 1e-9);
      expectClose(apart.values, alone.values, 1e-9);
      const whole = await trained(given(undefined, { data }));
      expect(Math.abs((whole.losses.at(-1) as number) - (alone.losses.at(-1) as number))).toBeGreaterThan(1e-6);
    },
  );

  test("without groups is refused, with what to do", async () => {
    await expect(trained(given(undefined, { pipeline }))).rejects.toThrow(
      /needs the whole batch at once[\s\S]*hint: .*batchNorm\({ groups }\)/,
    );
  });
});

describe("updates after each micro-batch", () => {
  const given = (stages: { [layer: string]: number }, more: Partial<TrainOptions> = {}): Partial<TrainOptions> => ({
    data: bars(64).batch(16),
    optimizer: optim.adam({ learningRate: 0.02 }),
    ema: 0.9,
    model: nn.sequential(nn.flatten(), nn.linear(16), nn.relu(), nn.linear(3)),
    pipeline: { stages, microBatches: 4, schedule: "pipedream" },
    ...more,
  });

  test("on one stage: a training whose batches are the micro-batches", async () => {
    const { pipeline: _none, ...plain } = given({});
    const [alone, apart] = [await trained({ ...plain, data: bars(64).batch(4) }), await trained(given({ 1: 0, 3: 0 }))];
    expectClose(apart.values, alone.values, 1e-9);
    expectClose(apart.evaluations, alone.evaluations, 1e-9);
  });

  test("on two stages the loss falls, and a step of which all gradients decide is refused", async () => {
    for (const schedule of ["pipedream", "pipedream-vertical", "pipedream-2bw"]) {
      const pipeline = { stages: { 1: 0, 3: 1 }, microBatches: 4, schedule };
      const { losses } = await trained(
        given({}, { optimizer: optim.sgd({ learningRate: 0.05, momentum: 0.9 }), pipeline }),
      );
      // Two versions make two updates for a batch, not four.
      expect(losses.at(-1)).toBeLessThan((losses[0] as number) * (schedule === "pipedream-2bw" ? 0.75 : 0.5));
    }
    await expect(trained(given({ 1: 0, 3: 1 }, { clip: { norm: 1 } }))).rejects.toThrow(
      /an update needs values of other stages/,
    );
  });
});

describe("several stages on each rank", () => {
  const four = () =>
    nn.sequential(
      nn.flatten(),
      nn.linear(12),
      nn.relu(),
      nn.linear(10),
      nn.tanh(),
      nn.linear(8),
      nn.relu(),
      nn.linear(3),
    );
  const pipeline = { stages: { 1: 0, 3: 1, 5: 2, 7: 3 }, microBatches: 4, schedule: "interleaved" };

  test.each([
    ["the default mesh", { pipeline }],
    ["a mesh with data", { pipeline, mesh: mesh({ stage: 2, data: 2 }) }],
    ["four on one rank", { pipeline: { ...pipeline, stagesPerRank: 4 } }],
    ["one on each rank", { pipeline, mesh: mesh({ stage: 4 }) }],
  ] as const)("on %s train, evaluate, predict and resume as one device does", async (_what, more) => {
    const alone = await train(task({ model: four() }));
    const checkpoint = { directory: folder };
    await train(task({ model: four(), epochs: 2, checkpoint, ...more }));
    const apart = await train(task({ model: four(), checkpoint, resume: true, ...more }));
    const lossesOf = ({ history }: typeof alone) =>
      history.flatMap(({ loss, validation }) => [loss, validation?.loss ?? 0]);
    expectClose(lossesOf(apart), lossesOf(alone), 1e-9);
    const rows = bars(21, { seed: 9 });
    const predicted = async (result: typeof alone) => Array.from(await (await result.predict(rows)).data());
    expectClose(await predicted(apart), await predicted(alone), 1e-9);
  });

  test.each([
    [{ ...pipeline, stagesPerRank: 3 }, /4 stages cannot be 3 on each rank/],
    [{ ...pipeline, stagesPerRank: 0 }, /pipeline\.stagesPerRank/],
    [
      { ...pipeline, schedule: "zb-h3" },
      /there is no schedule 'zb-h3'[\s\S]*gpipe, 1f1b, interleaved, zb-h1, zb-h2, pipedream/,
    ],
    [{ ...pipeline, schedule: "1f1b", stagesPerRank: 2 }, /schedule '1f1b' of 4 stages has 4 ranks, not 2/],
  ] as const)("are refused: %j", async (given, message) => {
    await expect(train(task({ model: four(), epochs: 1, pipeline: given }))).rejects.toThrow(message);
  });
});

test("parts of unequal sizes are refused, and parameters that would have them are stored whole", async () => {
  const model = nn.sequential(nn.flatten(), nn.linear(201), nn.relu(), nn.linear(3));
  const given = { model, epochs: 1, pipeline: { stages: { 1: 0, 3: 1 }, microBatches: 2 } };
  const named = layouts.named({ "1.weight": { model: 0 } });
  await expect(train(task({ ...given, mesh: mesh({ stage: 2, model: 2 }), layout: named }))).rejects.toThrow(
    /parameter "1\.weight": f64\[201,64\] cannot be .*dim 0 has 201 elements/,
  );
  const { params } = await train(task({ ...given, mesh: mesh({ stage: 2, data: 2 }), layout: layouts.fullySharded() }));
  const placed = flattenTree(params, isTensor).leaves.map((leaf: Tensor) => formatLayout(leaf.value.layout));
  expect(placed).toEqual(["O(0) S(1)", "O(0) R", "O(1) R", "O(1) R"]);
});

describe("results", () => {
  test("are on their stages, predict and evaluate as they are", async () => {
    const [alone, apart] = [await train(task({})), await train(task(stages()))];
    const { leaves, paths } = flattenTree(apart.params, isTensor);
    leaves.forEach((leaf: Tensor, index) => {
      expect(isOnStage(leaf)).toBe(true);
      expect(leaf.value.layout).toEqual([{ kind: "only", coordinate: paths[index]?.startsWith("1.") ? 0 : 1 }]);
    });
    const rows = bars(20, { seed: 9 });
    expect((await apart.evaluate(rows)).loss).toBeCloseTo((await alone.evaluate(rows)).loss, 12);
  });

  test.each(partOf(Object.keys(meshes).slice(1, 5), 2, 1))(
    "%s: predict a dataset and batches by stages as one device does",
    async (name) => {
      const [alone, apart] = [await train(task({ epochs: 1 })), await train(task({ ...named(name), epochs: 1 }))];
      const numbers = async (made: Promise<Tensor>): Promise<number[]> => Array.from(await (await made).data());
      const rows = bars(21, { seed: 9 });
      expectClose(await numbers(apart.predict(rows)), await numbers(alone.predict(rows)), 1e-9);
      const { shape } = rows.columns.get("x") as { shape: readonly number[] };
      for (const count of [1, 6, 7, 16]) {
        const x = random.normal(random.key(count), [count, ...shape.slice(1)], { dtype: "f64" });
        const [staged, whole] = [await apart.predict(x), await alone.predict(x)];
        expect(staged.shape).toEqual(whole.shape);
        expectClose(await numbers(Promise.resolve(staged)), await numbers(Promise.resolve(whole)), 1e-9);
      }
    },
  );
});
