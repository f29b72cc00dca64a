/** Updates after each micro-batch, with the parameters of each forward pass kept for its backward pass; beside one device that does the same. */
import { expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  compilePipeline,
  distribute,
  isTensor,
  jit,
  meshOf,
  random,
  type Tensor,
  type Tensors,
  tensor,
  valueAndGrad,
} from "../../src/functions/index.ts";
import { softmaxCrossEntropy } from "../../src/losses/index.ts";
import { clipByGlobalNorm } from "../../src/optim/index.ts";
import { pipedreamVertical, twoBuffered } from "../../src/pipelines/index.ts";
import {
  gpipe,
  type Layout,
  mesh as makeMesh,
  parsePlan,
  printPlan,
  type Schedule,
  type ScheduleMaker,
  shardedOn,
} from "../../src/plan/index.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";
import { batch, type Network, optimizers, perceptron, rows, type State, start } from "./networks.ts";

const network: Network = { ...perceptron(), stages: { 0: 0, 2: 1, 4: 2 } };
const stageOf = (path: string): number | undefined => {
  const match = /^params\.(\d+)\./.exec(path);
  return match === null ? undefined : network.stages[match[1] as string];
};
const isWeight = (path: string): boolean => /\.(weight|bias)$/.test(path);
const key = random.key(3);
const lossOf = (params: Tensors, x: Tensor, y: Tensor): Tensor =>
  softmaxCrossEntropy(network.layer.apply({ params, state: {} }, x, { train: true, key }).y, y);

type OptimizerName = "momentum" | "adam";
const optimizerOf = (name: OptimizerName) => optimizers()[name] as ReturnType<typeof optimizers>[string];

const stepBy = (name: OptimizerName, change: (grads: Tensors) => Tensors = (grads) => grads) =>
  function trainStep(params: Tensors, slots: Tensors, step: Tensor, x: Tensor, y: Tensor) {
    const { value, grad } = valueAndGrad((variables: Tensors) => lossOf(variables, x, y))(params);
    const updated = optimizerOf(name).update(change(grad), slots, params, {
      step,
      learningRate: tensor(0.1, { dtype: "f64" }),
    });
    return { params: updated.params, slots: updated.state, loss: value };
  };

function pipelined(
  name: OptimizerName,
  microBatches: number,
  axes: { readonly stage: number; readonly data?: number },
  executor: "reference" | "native",
  step = stepBy(name),
  schedule: string | Schedule | ScheduleMaker = "pipedream",
  sharded = false,
) {
  const { axes: meshAxes } = makeMesh(axes);
  const runtime = localRuntime({ axes: meshAxes, executor, threads: 1 });
  const { params, slots } = start(network, optimizerOf(name), "f64");
  const { x, y } = batch(0, network, "f64");
  const isBatch = (path: string): boolean => path === "x" || path === "y";
  const whole = meshAxes.map(() => ({ kind: "replicate" as const }));
  const split = meshAxes.map(({ name }) =>
    name === "data" ? { kind: "shard" as const, dim: 0 } : { kind: "replicate" as const },
  );
  const pipeline = compilePipeline(step, [params, slots, tensor(0, { dtype: "i32" }), x, y], runtime, {
    argumentNames: ["params", "slots", "step", "x", "y"],
    microBatches,
    schedule,
    stages: stageOf,
    batch: isBatch,
    layouts: (path) => (isBatch(path) || (sharded && isWeight(path)) ? split : whole),
    uses: (path) => (isWeight(path) ? whole : undefined),
    outputLayouts: (path) => (sharded && isWeight(path) ? split : whole),
    donate: [0, 1],
  });
  return { runtime, pipeline };
}

const values = async (tree: unknown): Promise<number[]> =>
  (
    await Promise.all(
      flattenTree(tree, isTensor).leaves.map(async (leaf: Tensor) => [...(await leaf.data())].map(Number)),
    )
  ).flat();

/** When a schedule updates, and which parameters it uses: the number of updates before. */
interface Rule {
  readonly schedule: string | ScheduleMaker;
  /** Micro-batches of an update. */
  readonly each: number;
  readonly version: (microBatch: number, stage: number) => number;
}

/** Micro-batch `i` of stage `s` of 3 sees the parameters after `i - (2 - s)` updates; or stage 0's; or all those of the update before the last one. */
const rules = {
  pipedream: { schedule: "pipedream", each: 1, version: (index, stage) => index - (2 - stage) },
  "vertical sync": { schedule: "pipedream-vertical", each: 1, version: (index) => index - 2 },
  "two versions": { schedule: "pipedream-2bw", each: 4, version: (index) => Math.floor(index / 4) - 1 },
  "two versions, updates after 8": { schedule: twoBuffered(8), each: 8, version: (index) => Math.floor(index / 8) - 1 },
} satisfies { readonly [name: string]: Rule };

/** The same on one device. */
async function oracle(
  name: OptimizerName,
  microBatches: number,
  steps: number,
  devices: number,
  { each, version }: Rule,
): Promise<{ losses: number[]; params: number[] }> {
  let { params, slots }: State = start(network, optimizerOf(name), "f64");
  const gradient = jit((at: Tensors, x: Tensor, y: Tensor) =>
    valueAndGrad((variables: Tensors) => lossOf(variables, x, y))(at),
  );
  const update = jit((grads: Tensors, before: Tensors, newest: Tensors, step: Tensor) =>
    optimizerOf(name).update(grads, before, newest, { step, learningRate: tensor(0.1, { dtype: "f64" }) }),
  );
  const losses: number[] = [];
  const size = rows / microBatches / devices;
  const updates = microBatches / each;
  for (let step = 0; step < steps; step++) {
    const { x, y } = batch(step, network, "f64");
    const versions = [params];
    let total = 0;
    let grad: Tensors | undefined;
    for (let index = 0; index < microBatches; index++) {
      const seen = Object.fromEntries(
        Object.entries(network.stages).map(([layer, stage]) => {
          const used = versions[Math.max(0, version(index, stage))] as { [layer: string]: Tensors };
          return [layer, used[layer] as Tensors];
        }),
      );
      const all = { ...(params as { [layer: string]: Tensors }), ...seen };
      // A micro-batch has rows of every device.
      for (let device = 0; device < devices; device++) {
        const from = device * (rows / devices) + index * size;
        const part = gradient(
          all,
          x.slice([from, 0], [from + size, x.shape[1] as number]),
          y.slice([from], [from + size]),
        );
        total += (await part.value.item()) / microBatches / devices;
        const { leaves, shape } = flattenTree(part.grad, isTensor);
        const before = grad === undefined ? [] : flattenTree(grad, isTensor).leaves;
        grad = unflattenTree(
          shape,
          leaves.map(
            (leaf: Tensor, at) =>
              (before[at] as Tensor | undefined)?.add(leaf.div(devices * each)) ?? leaf.div(devices * each),
          ),
        ) as Tensors;
      }
      if ((index + 1) % each > 0) continue;
      // The optimizer counts updates.
      const count = tensor(step * updates + versions.length - 1, { dtype: "i32" });
      const updated = update(grad as Tensors, slots, versions.at(-1) as Tensors, count);
      versions.push(updated.params);
      slots = updated.state;
      grad = undefined;
    }
    params = versions.at(-1) as Tensors;
    losses.push(total);
  }
  return { losses, params: await values(params) };
}

type Row = [
  name: OptimizerName,
  microBatches: number,
  axes: { readonly stage: number; readonly data?: number },
  executor: "reference" | "native",
  rule?: keyof typeof rules,
  sharded?: "fully sharded",
];

const executors = ["reference", ...(missing === undefined ? (["native"] as const) : [])] as const;
// Their number is odd: a half has each with one of the two executors.
const table = executors.flatMap((executor): Row[] => [
  ["momentum", 4, { stage: 3 }, executor],
  ["adam", 8, { stage: 3 }, executor],
  ["adam", 2, { stage: 3 }, executor],
  ["momentum", 2, { stage: 3, data: 2 }, executor],
  ["momentum", 4, { stage: 3, data: 2 }, executor],
  ["adam", 4, { stage: 3, data: 2 }, executor, "pipedream", "fully sharded"],
  ["adam", 8, { stage: 3 }, executor, "vertical sync"],
  ["momentum", 4, { stage: 3, data: 2 }, executor, "vertical sync"],
  ["adam", 16, { stage: 3 }, executor, "two versions"],
  ["adam", 16, { stage: 3 }, executor, "two versions, updates after 8"],
  ["momentum", 8, { stage: 3, data: 2 }, executor, "two versions", "fully sharded"],
]);
test.each<Row>(partOf(table, 2))(
  "%s, %i micro-batches on %j (%s), %s: the parameters of one device with gradients as late",
  async (name, microBatches, axes, executor, kind = "pipedream", more?) => {
    const rule: Rule = rules[kind];
    const sharded = more !== undefined;
    const { runtime, pipeline } = pipelined(name, microBatches, axes, executor, stepBy(name), rule.schedule, sharded);
    const expected = await oracle(name, microBatches, 4, "data" in axes ? 2 : 1, rule);
    const put = async (value: Tensor, split: Layout = shardedOn(meshOf(runtime), "data" in axes ? { data: 0 } : {})) =>
      distribute(runtime, await value.data(), value, split);
    const { leaves, shape } = flattenTree(start(network, optimizerOf(name), "f64"), isTensor);
    const held = pipeline.plan.inputs.slice(0, leaves.length).map(({ layout }) => layout);
    expect(held.some((layout) => layout.some(({ kind }) => kind === "shard"))).toBe(sharded);
    let { params, slots } = unflattenTree(
      shape,
      await Promise.all(leaves.map((leaf: Tensor, index) => put(leaf, held[index]))),
    ) as unknown as State;
    const losses: number[] = [];
    for (let step = 0; step < 4; step++) {
      const { x, y } = batch(step, network, "f64");
      const made = pipeline.run(params, slots, tensor(step, { dtype: "i32" }), await put(x), await put(y));
      losses.push(await made.loss.item());
      ({ params, slots } = made);
    }
    expectClose(losses, expected.losses, 1e-9);
    expectClose(await values(params), expected.params, 1e-9);
    runtime.close();
  },
);

test("its plan is read back, with the updates in the schedule", () => {
  for (const [schedule, microBatches, says] of [
    ["pipedream", 2, /^schedule pipedream stages=3 microBatches=2$[\s\S]*^rank 2 {2}2F0 2B0 2U0 2F1 2B1 2U1$/m],
    ["pipedream-vertical", 2, /^schedule pipedream-vertical stages=3 microBatches=2 delay=2$/m],
    [
      "pipedream-2bw",
      8,
      /^schedule pipedream-2bw stages=3 microBatches=8 delay=1$[\s\S]*^rank 2 .*2B3 +2U3 +2F4 .*2B7 +2U7$/m,
    ],
  ] as const) {
    const { runtime, pipeline } = pipelined(
      "momentum",
      microBatches,
      { stage: 3 },
      "reference",
      stepBy("momentum"),
      schedule,
    );
    runtime.close();
    const text = printPlan(pipeline.plan);
    expect(text).toMatch(says);
    expect(printPlan(parsePlan(text))).toBe(text);
  }
});

test.each([
  ["backward passes in two parts", "0F0 0B0 0W0 0U0", { stage: 3 }, /its backward passes are in two parts/],
  ["several stages on a rank", "", { stage: 1 }, /its rank has other stages, too/],
] as const)("is refused: a schedule with %s", (_what, kinds, axes, message) => {
  const row = (stage: number, order = kinds === "" ? "FBU" : "FBWU") =>
    [...order].map((kind) => ({ stage, kind: kind as "F", microBatch: 0 }));
  const together = ["F", "B", "U"].flatMap((kind) =>
    (kind === "F" ? [0, 1, 2] : [2, 1, 0]).flatMap((stage) => row(stage, kind)),
  );
  const ranks = axes.stage === 1 ? [together] : [0, 1, 2].map((stage) => row(stage));
  const schedule = { name: "own", stages: 3, microBatches: 1, ranks };
  expect(() => pipelined("momentum", 1, axes, "reference", stepBy("momentum"), schedule)).toThrow(message);
});

test("a schedule whose forward passes come before the updates that they need is refused", () => {
  const { delay: _none, ...vertical } = pipedreamVertical(3, 4);
  // All forward passes come first, but each wants the newest update.
  const { ranks } = gpipe(3, 4);
  const updated = ranks.map((row) =>
    row.flatMap((action) => (action.kind === "B" ? [action, { ...action, kind: "U" as const }] : [action])),
  );
  const schedule: Schedule = { ...vertical, ranks: updated, delay: 0 };
  expect(() => pipelined("momentum", 4, { stage: 3 }, "reference", stepBy("momentum"), schedule)).toThrow(
    /micro-batch 1 comes before the update that it needs/,
  );
  for (const each of [0, 2, 3, 1.5])
    expect(() => pipelined("momentum", 8, { stage: 3 }, "reference", stepBy("momentum"), twoBuffered(each))).toThrow(
      /schedule 'pipedream-2bw': .* micro-batches for an update do not fit 8 micro-batches and 3 stages/,
    );
});

test.each([
  [
    "an update by the norm of all gradients",
    stepBy("momentum", (grads) => clipByGlobalNorm(grads, 1).grads),
    /stage \d is updated within a step, but an update needs values of other stages/,
  ],
])("is refused: %s", (_what, step, message) => {
  expect(() => pipelined("momentum", 4, { stage: 3 }, "reference", step)).toThrow(message);
});
