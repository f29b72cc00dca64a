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
import { type Layout, mesh as makeMesh, parsePlan, printPlan, type Schedule, shardedOn } from "../../src/plan/index.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
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
  axes: { [axis: string]: number },
  executor: "reference" | "native",
  step = stepBy(name),
  schedule: string | Schedule = "pipedream",
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

/** The same on one device: micro-batch `i` of stage `s` of 3 sees the parameters after `i - (2 - s)` updates. */
async function oracle(
  name: OptimizerName,
  microBatches: number,
  steps: number,
  devices: number,
): Promise<{ losses: number[]; params: number[] }> {
  let { params, slots }: State = start(network, optimizerOf(name), "f64");
  const gradient = jit((at: Tensors, x: Tensor, y: Tensor) =>
    valueAndGrad((variables: Tensors) => lossOf(variables, x, y))(at),
  );
  const update = jit((grads: Tensors, before: Tensors, newest: Tensors, step: Tensor) =>
    optimizerOf(name).update(grads, before, newest, { step, learningRate: tensor(0.1, { dtype: "f64" }) }),
  );
  const losses: number[] = [];
  const each = rows / microBatches / devices;
  for (let step = 0; step < steps; step++) {
    const { x, y } = batch(step, network, "f64");
    const versions = [params];
    let total = 0;
    for (let index = 0; index < microBatches; index++) {
      const seen = Object.fromEntries(
        Object.entries(network.stages).map(([layer, stage]) => {
          const version = versions[Math.max(0, index - (2 - stage))] as { [layer: string]: Tensors };
          return [layer, version[layer] as Tensors];
        }),
      );
      const all = { ...(params as { [layer: string]: Tensors }), ...seen };
      // A micro-batch has rows of every device.
      let grad: Tensors | undefined;
      for (let device = 0; device < devices; device++) {
        const from = device * (rows / devices) + index * each;
        const part = gradient(
          all,
          x.slice([from, 0], [from + each, x.shape[1] as number]),
          y.slice([from], [from + each]),
        );
        total += (await part.value.item()) / microBatches / devices;
        const { leaves, shape } = flattenTree(part.grad, isTensor);
        const before = grad === undefined ? [] : flattenTree(grad, isTensor).leaves;
        grad = unflattenTree(
          shape,
          leaves.map(
            (leaf: Tensor, at) => (before[at] as Tensor | undefined)?.add(leaf.div(devices)) ?? leaf.div(devices),
          ),
        ) as Tensors;
      }
      const updated = update(grad as Tensors, slots, versions.at(-1) as Tensors, tensor(step, { dtype: "i32" }));
      versions.push(updated.params);
      slots = updated.state;
    }
    params = versions.at(-1) as Tensors;
    losses.push(total);
  }
  return { losses, params: await values(params) };
}

const executors = ["reference", ...(missing === undefined ? (["native"] as const) : [])] as const;
test.each(
  executors.flatMap((executor) => [
    ["momentum", 4, { stage: 3 }, executor] as const,
    ["adam", 8, { stage: 3 }, executor] as const,
    ["adam", 2, { stage: 3 }, executor] as const,
    ["momentum", 2, { stage: 3, data: 2 }, executor] as const,
    ["momentum", 4, { stage: 3, data: 2 }, executor] as const,
    ["adam", 4, { stage: 3, data: 2 }, executor, "fully sharded"] as const,
  ]),
)(
  "%s, %i micro-batches on %j (%s): the parameters of one device with gradients as late",
  async (name, microBatches, axes, executor, ...[kind]) => {
    const sharded = kind !== undefined;
    const { runtime, pipeline } = pipelined(name, microBatches, axes, executor, stepBy(name), "pipedream", sharded);
    const expected = await oracle(name, microBatches, 4, "data" in axes ? 2 : 1);
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
  const { runtime, pipeline } = pipelined("momentum", 2, { stage: 3 }, "reference");
  runtime.close();
  const text = printPlan(pipeline.plan);
  expect(text).toContain("rank 2  2F0 2B0 2U0 2F1 2B1 2U1");
  expect(printPlan(parsePlan(text))).toBe(text);
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

test.each([
  [
    "an update by the norm of all gradients",
    stepBy("momentum", (grads) => clipByGlobalNorm(grads, 1).grads),
    /stage \d is updated after each micro-batch, but an update needs values of other stages/,
  ],
])("is refused: %s", (_what, step, message) => {
  expect(() => pipelined("momentum", 4, { stage: 3 }, "reference", step)).toThrow(message);
});
