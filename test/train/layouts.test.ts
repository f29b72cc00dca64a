/** Parameters in parts: the answer of one device, the bytes that travel, checkpoints between meshes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { layouts, nn, optim, type StepRecord, type TrainOptions, train } from "heddle";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { isTensor, replicate, type Tensor } from "../../src/functions/index.ts";
import { formatLayout, type Mesh, mesh, trafficOf } from "../../src/plan/index.ts";
import { unusedAxes } from "../../src/report/unused.ts";
import { batchLayout } from "../../src/train/feed.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { layoutAxes, stateLayouts } from "../../src/train/layouts.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";
import { bars, options } from "./synthetic.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "heddle-layouts-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A perceptron of four layers: the two in the middle are the pair that tensor parallelism splits. */
const perceptron = (): nn.Layer =>
  nn.sequential(
    nn.flatten(),
    nn.linear(16),
    nn.relu(),
    nn.linear(32),
    nn.relu(),
    nn.dropout(0.25),
    nn.linear(16),
    nn.relu(),
    nn.linear(4),
  );
const pair = layouts.named({ "3.weight": { model: 0 }, "3.bias": { model: 0 }, "6.weight": { model: 1 } });

const task = (more: Partial<TrainOptions>): TrainOptions =>
  options({ model: perceptron(), data: bars(64).shuffle().batch(16), dtype: "f64", epochs: 2, ...more });

interface Trained {
  readonly losses: readonly number[];
  readonly values: readonly number[];
}

async function trained(more: Partial<TrainOptions>): Promise<Trained> {
  const steps: StepRecord[] = [];
  const result = await train(task({ ...more, callbacks: { onStep: (record) => void steps.push(record) } }));
  const { leaves } = flattenTree([result.params, result.optimizerState], isTensor);
  const values = await Promise.all(leaves.map(async (leaf: Tensor) => Array.from(await replicate(leaf).data())));
  return { losses: steps.map(({ loss }) => loss), values: values.flat() };
}

const optimizers = {
  sgd: optim.sgd({ learningRate: 0.1, momentum: 0.9, nesterov: true }),
  adam: optim.adam({ learningRate: 0.01 }),
};

const cases: readonly [string, Record<string, number>, TrainOptions["layout"] & object][] = [
  ["columns, then rows", { model: 2 }, pair],
  ["columns, then rows, times data", { data: 2, model: 2 }, pair],
  ["fully sharded", { data: 2 }, layouts.fullySharded()],
  ["fully sharded over four", { data: 4 }, layouts.fullySharded()],
  ["optimizer state sharded", { data: 2 }, layouts.shardedState()],
  ["optimizer state sharded over four", { data: 4 }, layouts.shardedState()],
  ["the pair, and the state of all else sharded", { data: 2, model: 2 }, [pair, layouts.shardedState()]],
  ["the pair, and all else fully sharded", { data: 2, model: 2 }, [pair, layouts.fullySharded()]],
];

const executors = ["reference", ...(missing === undefined ? (["native"] as const) : [])] as const;
type Executor = (typeof executors)[number];
type OptimizerName = keyof typeof optimizers;

const known = new Map<string, Promise<Trained>>();
/** A training on one device, which several rows are compared with. */
function onOne(executor: Executor, optimizer: OptimizerName): Promise<Trained> {
  const key = `${executor} ${optimizer}`;
  const alone = known.get(key) ?? trained({ executor, optimizer: optimizers[optimizer] });
  known.set(key, alone);
  return alone;
}

const rows = executors.flatMap((executor) =>
  (Object.keys(optimizers) as OptimizerName[]).flatMap((optimizer) =>
    cases.map(([what, axes, layout]) => [what, optimizer, executor, axes, layout] as const),
  ),
);
// A third has each case, now with one executor and optimizer, now with another.
test.each(partOf(rows, 3))(
  "%s gives the answer of one device, %s, %s",
  async (_what, optimizer, executor, axes, layout) => {
    const alone = await onOne(executor, optimizer);
    const apart = await trained({ executor, optimizer: optimizers[optimizer], mesh: mesh(axes), layout });
    expectClose(apart.losses, alone.losses, 1e-9);
    expectClose(apart.values, alone.values, 1e-9);
  },
);

/** Layers of widths that no number of devices divides. */
const odd = (): nn.Layer =>
  nn.sequential(
    ...[nn.flatten(), nn.linear(15), nn.relu(), nn.batchNorm(), nn.linear(13), nn.dropout(0.25), nn.relu()],
    nn.linear(3),
  );
const oddTask = { model: odd(), data: bars(61, { size: 9 }).shuffle().batch(16), optimizer: optimizers.adam };
/** The faster executor. */
const executor = missing === undefined ? "native" : "reference";

const hosts: [string, Record<string, number>, TrainOptions["layout"] & object][] = [
  ["a batch over hosts and devices", { hosts: 2, data: 2 }, []],
  ["hybrid: sharded within hosts, whole across", { hosts: 2, data: 2 }, layouts.fullySharded()],
  ["hybrid, of the optimizer state", { hosts: 2, data: 2 }, layouts.shardedState()],
  ["hybrid, and the pair", { hosts: 2, data: 2, model: 2 }, [pair, layouts.fullySharded()]],
];
test.each(partOf(hosts, 2, 1))("%s gives the answer of one device", async (_what, axes, layout) => {
  const alone = await onOne(executor, "adam");
  const apart = await trained({ executor, optimizer: optimizers.adam, mesh: mesh(axes), layout });
  expectClose(apart.losses, alone.losses, 1e-9);
  expectClose(apart.values, alone.values, 1e-9);
});

describe("dims and batches that do not divide", () => {
  let alone: Trained;
  beforeAll(async () => {
    alone = await trained({ ...oddTask, executor });
  });

  const rows: [string, Record<string, number>, TrainOptions["layout"] & object, TrainOptions["executor"] & string][] = [
    ["fully sharded", { data: 2 }, layouts.fullySharded(), executor],
    ["fully sharded over four", { data: 4 }, layouts.fullySharded(), "reference"],
    ["optimizer state sharded over four", { data: 4 }, layouts.shardedState(), executor],
    ["hybrid", { hosts: 2, data: 2 }, layouts.fullySharded(), executor],
  ];
  test.each(partOf(rows, 2, 1))("%s gives the answer of one device", async (_what, axes, layout, runs) => {
    const apart = await trained({ ...oddTask, executor: runs, mesh: mesh(axes), layout, clip: { norm: 1e3 } });
    expectClose(apart.losses, alone.losses, 1e-9);
    expectClose(apart.values, alone.values, 1e-9);
  });

  test.each<[Record<string, number>, number, string]>([
    [{ data: 4 }, 16, "S(0)"],
    [{ hosts: 2, data: 2 }, 16, "S(0) S(0)"],
    [{ data: 2, hosts: 2, model: 2 }, 16, "S(0) S(0) R"],
    [{ hosts: 2, data: 2 }, 14, "S(0) S(0:4+3)"],
    [{ hosts: 2, data: 2 }, 13, "R S(0:7+6)"],
    [{ hosts: 2, data: 2 }, 2, "R S(0)"],
    [{ hosts: 2, data: 2 }, 1, "R R"],
    [{ hosts: 2, data: 2, stage: 2 }, 14, "R S(0) R"],
    [{ hosts: 2, data: 1 }, 3, "S(0:2+1) R"],
  ])("on %j a batch of %i rows is %s", (axes, rows, layout) => {
    expect(formatLayout(batchLayout(mesh(axes), rows))).toBe(layout);
  });
});

/** Bytes that each device sends in a step for values of more than one element, by collective and axis. */
function sent(axes: Mesh, more: Partial<TrainOptions>): Record<string, number> {
  const settings = resolveOptions(task({ data: bars(64).batch(64), mesh: axes, ...more }));
  const bytes: Record<string, number> = {};
  for (const { name, axis, sent: each } of trafficOf(planStep(settings, modelTypes(settings), axes).plan)) {
    const key = `${name} ${axis}`;
    bytes[key] = (bytes[key] ?? 0) + each;
  }
  return bytes;
}

describe("traffic of a step", () => {
  const weights = [64 * 16, 16 * 32, 32 * 16, 16 * 4];
  const biases = [16, 32, 16, 4];
  const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + 8 * size, 0);
  const activations = 8 * 64 * 16;
  // The loss and the number of right answers travel with the gradients.
  const counts = 8 * 2;
  const endRequest = 8;

  test("columns, then rows: one all-reduce forwards and one backwards, of one activation each", () => {
    const settings = resolveOptions(task({ data: bars(64).batch(64), layout: pair }));
    const axes = mesh({ model: 2 });
    const traffic = trafficOf(planStep(settings, modelTypes(settings), axes).plan);
    // On two devices each sends what it reduces.
    expect(traffic.map(({ name, values, sent: bytes }) => [name, values, bytes])).toEqual([
      // The first one carries whether to end, too.
      ["allReduce", 2, activations + endRequest],
      ["allReduce", 1, activations],
    ]);
  });

  test("data times model: gradients of the parts over data, activations of half the batch over model", () => {
    expect(sent(mesh({ data: 2, model: 2 }), { layout: pair })).toEqual({
      // Half of the rows, once forwards and once backwards.
      "allReduce model": 2 * (activations / 2) + endRequest,
      "allReduce data":
        sum([
          weights[0] as number,
          biases[0] as number,
          biases[2] as number,
          weights[3] as number,
          biases[3] as number,
        ]) +
        sum([weights[1] as number, biases[1] as number, weights[2] as number]) / 2 +
        counts +
        endRequest,
    });
  });

  test.each([2, 4])(
    "fully sharded over %i: half of the bytes of data parallel for each sum, and as many for each gather",
    (parts) => {
      const whole = sent(mesh({ data: parts }), {})["allReduce data"] as number;
      expect(whole).toBeCloseTo(((sum(weights) + sum(biases) + counts + endRequest) * 2 * (parts - 1)) / parts, 9);
      for (const optimizer of Object.values(optimizers)) {
        const split = sent(mesh({ data: parts }), { layout: layouts.fullySharded(), optimizer });
        const share = (parts - 1) / parts;
        // The later weights together are hardly larger than the first: they are kept for the way back.
        expect(split["allGather data"]).toBeCloseTo((sum(weights) + sum(biases)) * share, 9);
        expect(split["reduceScatter data"]).toBeCloseTo((sum(weights) + sum(biases)) * share, 9);
        expect(split["allReduce data"]).toBeCloseTo((counts + endRequest) * 2 * share, 9);
        // Sharded state costs what the all-reduce of gradients costs; an optimizer without state has nothing to shard.
        const ofState = sent(mesh({ data: parts }), { layout: layouts.shardedState(), optimizer });
        expect(Object.values(ofState).reduce((all, bytes) => all + bytes, 0)).toBeCloseTo(whole, 9);
      }
    },
  );
});

test.each(Object.entries(optimizers))("%s: every gradient is summed once", (_name, optimizer) => {
  const parameters = 8 * (64 * 16 + 16 + 16 * 32 + 32 + 32 * 16 + 16 + 16 * 4 + 4);
  expect(sent(mesh({ data: 2 }), { optimizer })).toEqual({ "allReduce data": parameters + 8 * 3 });
});

test("hybrid: parameters are gathered within a host, sums of one shard travel between hosts", () => {
  const parameters = 8 * (64 * 16 + 16 + 16 * 32 + 32 + 32 * 16 + 16 + 16 * 4 + 4);
  for (const layout of [layouts.fullySharded(), layouts.shardedState()]) {
    const bytes = sent(mesh({ hosts: 2, data: 4 }), { layout, optimizer: optimizers.adam });
    const counts = 8 * 3;
    expect(bytes["allGather hosts"]).toBeUndefined();
    expect(bytes["reduceScatter hosts"]).toBeUndefined();
    // On two hosts each device sends what it reduces: a fourth of the gradients, which the four devices of a host share.
    expect(bytes["allReduce hosts"]).toBeCloseTo(parameters / 4 + counts, 9);
    expect(bytes["allGather data"]).toBeCloseTo((parameters * 3) / 4, 9);
    expect(bytes["reduceScatter data"]).toBeCloseTo((parameters * 3) / 4, 9);
  }
});

describe("checkpoints", () => {
  let uninterrupted: Trained;
  beforeAll(async () => {
    uninterrupted = await trained({});
  });

  const pairs = [
    ["fully sharded", "one device", { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() }, {}],
    ["one device", "fully sharded", {}, { mesh: mesh({ data: 4 }), layout: layouts.fullySharded() }],
    ["with sharded state", "one device", { mesh: mesh({ data: 2 }), layout: layouts.shardedState() }, {}],
    [
      "fully sharded within hosts",
      "unevenly",
      { mesh: mesh({ hosts: 2, data: 2 }), layout: layouts.fullySharded() },
      { mesh: mesh({ data: 3 }), layout: layouts.fullySharded() },
    ],
    ["split by model", "split by data", { mesh: mesh({ model: 2 }), layout: pair }, { mesh: mesh({ data: 2 }) }],
  ] as const;
  test.each(partOf(pairs, 3))("written %s, read %s", async (_from, _to, first, second) => {
    const checkpoint = { directory: folder };
    await trained({ ...first, checkpoint, epochs: 1 });
    const resumed = await trained({ ...second, checkpoint, resume: true });
    expectClose(resumed.losses, uninterrupted.losses.slice(4), 1e-9);
    expectClose(resumed.values, uninterrupted.values, 1e-9);
  });
});

describe("mistakes", () => {
  test.each<[string, TrainOptions["layout"] & object, RegExp]>([
    [
      "a name that no parameter has",
      layouts.named({ "3.weigth": { model: 0 } }),
      /layout names "3.weigth".*no such parameter/,
    ],
    ["a dim that is not there", layouts.named({ "8.bias": { model: 1 } }), /parameter "8.bias": .*there is no dim 1/],
  ])("%s", async (_what, layout, message) => {
    const model = nn.sequential(
      ...[nn.flatten(), nn.relu(), nn.relu(), nn.linear(4), nn.relu(), nn.relu(), nn.relu(), nn.relu(), nn.linear(3)],
    );
    await expect(train(task({ model, mesh: mesh({ model: 2 }), layout }))).rejects.toThrow(message);
  });

  test("something that is not a rule", async () => {
    const layout = { "0.weight": { model: 0 } } as unknown as layouts.LayoutRule;
    await expect(train(task({ layout }))).rejects.toThrow("train: layout is not a rule");
  });

  test.each([
    [{ modle: 2 }, layouts.named({ "8.bias": { model: 0 } }), "'model', the mesh modle=2"],
    [{ data: 2 }, layouts.fullySharded("dta"), "'dta', the mesh data=2"],
    [{ data: 1 }, layouts.fullySharded("dta"), "'dta', the mesh data=1"],
    [{ model: 2 }, layouts.named({ "8.bias": { modle: 0 } }), "'modle', the mesh model=2"],
    [{ model: 2 }, () => ({ shard: { modell: 0 } }), "'modell', the mesh model=2"],
    [{ data: 2 }, () => ({ shard: { data: 0 }, gather: ["daat"] }), "'daat', the mesh data=2"],
    [{ data: 2 }, () => ({ shard: {}, state: { daat: 0 } }), "'daat', the mesh data=2"],
  ])("an axis that is nearly one of the mesh is misspelt: %j", (axes, layout, says) => {
    const model = nn.sequential(
      ...[nn.flatten(), nn.relu(), nn.relu(), nn.linear(4), nn.relu(), nn.relu(), nn.relu(), nn.relu(), nn.linear(3)],
    );
    const settings = resolveOptions(task({ model, layout: layout as layouts.LayoutRule }));
    const near = Object.keys(axes)[0];
    expect(() => stateLayouts(settings, modelTypes(settings), mesh(axes))).toThrow(
      new RegExp(`layout splits over ${says} has no such axis.*did you mean '${near}'`, "s"),
    );
  });

  test("other axes are passed over, with a reason where nothing is split instead", () => {
    const settings = resolveOptions(task({ layout: pair }));
    const { plan } = planStep(settings, modelTypes(settings), mesh({ tensor: 2 }));
    const [unused] = unusedAxes(plan, layoutAxes(settings.layoutRules));
    expect(unused).toMatchObject({ axis: "tensor", size: 2 });
    expect(unused?.reason).toMatch(/nothing over 'tensor' \(the layout splits over model\)$/);
    const numbered = resolveOptions(task({ layout: layouts.fullySharded("data2") }));
    expect(() => stateLayouts(numbered, modelTypes(numbered), mesh({ data1: 2, xy: 1 }))).not.toThrow();
  });

  test.each([
    [{ modle: 2 }, []],
    [{ data: 4096 }, []],
    [{ data: 2, modle: 2 }, ["data"]],
  ])("along an axis on which nothing is split nothing is sent: %j", (axes, sending) => {
    const settings = resolveOptions(task({}));
    const { plan } = planStep(settings, modelTypes(settings), mesh(axes));
    expect([...new Set(trafficOf(plan).map(({ axis }) => axis))]).toEqual(sending);
  });

  test("an axis that the mesh does not have is passed over", async () => {
    expect((await trained({ layout: pair, epochs: 1 })).losses).toEqual((await trained({ epochs: 1 })).losses);
  });
});
