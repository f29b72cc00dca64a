/**
 * @module Local steps: each worker trains a copy of the model on its rows, and after a round of steps the copies meet. An outer optimizer takes
 * what the round has changed, on the mean, for a gradient:
 *
 *     g = s - 1/n Σ pᵢ        s the parameters before the round, pᵢ those of worker i after it
 *     s, outer = outer.update(g, outer, s)
 *
 * With SGD at rate 1 this is local SGD (Stich 2019), the mean of the copies; with Nesterov's momentum it is DiLoCo (Douillard et al. 2023,
 * algorithm 1). The state of the inner optimizer stays with its worker.
 */
import { full, isTensor, planFunction, type Tensor, type Tensors } from "../functions/index.ts";
import { partOf } from "../functions/parts.ts";
import { isFloat } from "../ir/dtype.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import { type Optimizer, sgd } from "../optim/index.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { deviceCount, type Layout, type Mesh, replicated, shardedOn, trafficOf } from "../plan/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { formatBytes } from "../util/text.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { mapTensors } from "./accumulate.ts";
import { modelTypes } from "./functions.ts";
import type { LocalSteps, Settings, TrainOptions } from "./options.ts";
import type { ModelTypes, TrainState } from "./values.ts";

/** The axis of the workers. */
export const workerAxis = "data";

/** Options that local steps do not go with, with the reason. */
const refusedOptions: readonly (readonly [option: keyof TrainOptions, reason: string])[] = [
  ["server", "servers update parameters after every step"],
  ["pipeline", "each worker has the whole model"],
  ["mesh", "each worker has the whole model"],
  ["layout", "each worker has the whole model"],
  ["compression", "no gradients travel"],
  ["lossScale", "workers would reject different steps"],
  ["ema", "the average of a worker's steps is not that of the meetings"],
];

/** Checks the option `localSteps` and what goes with it, also by the command line. @throws HeddleError `option` */
export function checkLocalSteps(options: TrainOptions, compression: unknown): void {
  const { localSteps, checkpoint, nan, precision } = options;
  if (localSteps === undefined) return;
  checkOptions("train: localSteps", localSteps, ["steps", "outer"]);
  const { steps, outer } = localSteps;
  checkInteger("train", "localSteps.steps", steps, 1);
  if (outer !== undefined && (typeof outer?.init !== "function" || typeof outer.update !== "function"))
    throw new HeddleError("option", `train: localSteps.outer is not an optimizer, but ${shown(outer)}`, {
      hint: "such as optim.sgd({ learningRate: 0.7, momentum: 0.9, nesterov: true })",
    });
  for (const [option, reason] of refusedOptions)
    if (options[option] !== undefined || (option === "compression" && compression !== undefined))
      throw new HeddleError("option", `train: ${option} does not go with localSteps: ${reason}`);
  if (precision === "f16")
    throw new HeddleError(
      "option",
      'train: precision "f16" does not go with localSteps: workers would reject different steps',
      {
        hint: 'precision: "bf16" needs no scale of the loss',
      },
    );
  if (nan === "skip" || nan === "rollback")
    throw new HeddleError(
      "option",
      `train: nan: "${nan}" does not go with localSteps: workers would reject different steps`,
    );
  for (const [name, { every }] of [["checkpoint", checkpoint ?? {}] as const, ...partsOf(checkpoint)])
    if (typeof every === "number" && every % steps !== 0)
      throw new HeddleError("option", `train: ${name}.every is ${every} steps, where workers do not meet`, {
        hint: `take a multiple of localSteps.steps, ${steps}, or "epoch"`,
      });
}

const partsOf = (checkpoint: TrainOptions["checkpoint"]): [string, { readonly every?: unknown }][] =>
  Object.entries(checkpoint?.parts ?? {}).map(([name, part]) => [`checkpoint.parts.${name}`, part]);

/** The outer optimizer: by default the parameters become the mean. */
export const outerOf = ({ outer }: LocalSteps): Optimizer => outer ?? sgd({ learningRate: 1 });

/** The optimizer's state of a whole training: that of all workers, stacked; that of the outer optimizer; and the number of rounds. */
export interface LocalState {
  readonly inner: Tensors;
  readonly outer: Tensors;
  readonly rounds: Tensor;
}

/** Whether a value of the state has a row for each worker. */
export const isByWorker = (path: string): boolean => path.startsWith("optimizer.inner.");

/** The layout of a value with a row for each worker. */
export const byWorker = (mesh: Mesh): Layout => shardedOn(mesh, { [workerAxis]: 0 });

/** What checkpoints and results are of: the state of all workers. Its optimizer only makes the first state. */
export function wholeTraining(
  settings: Settings,
  workers: number,
): { readonly settings: Settings; readonly types: ModelTypes } {
  const inner = settings.optimizer;
  const outer = outerOf(settings.localSteps as LocalSteps);
  const stacked = (x: Tensor): Tensor => x.broadcastTo([workers, ...x.shape]);
  const optimizer: Optimizer = {
    ...inner,
    name: `${inner.name}, local, ${outer.name}`,
    init: (params) =>
      ({
        inner: mapTensors(inner.init(params), stacked),
        outer: outer.init(params),
        rounds: full([], 0, { dtype: "i32" }),
      }) as unknown as Tensors,
    update: () => {
      throw new HeddleError("internal", "the optimizer of all workers takes no step");
    },
  };
  const whole: Settings = { ...settings, optimizer };
  return { settings: whole, types: modelTypes(whole) };
}

/** The training of one worker: its rows of each batch, and its own optimizer. */
export function localTraining(
  { localSteps: _localSteps, ...settings }: Settings,
  rank: number,
  workers: number,
): { readonly settings: Settings; readonly types: ModelTypes } {
  const smallest = Math.min(...settings.data.batchSizes);
  if (smallest < workers)
    throw new HeddleError("data", `train: a batch of ${smallest} rows cannot be shared by ${workers} workers`, {
      hint: "leave the last batch out by .batch(size, { dropRemainder: true }), or take fewer workers",
    });
  const [rows] = settings.data.batchSizes as [number];
  if (rows % workers !== 0)
    throw new HeddleError("data", `train: a batch of ${rows} rows has no equal parts for ${workers} workers`, {
      hint: `with localSteps the rows of a batch are a multiple of the workers, such as ${Math.ceil(rows / workers) * workers}`,
    });
  // Copies of workers differ between two meetings.
  const own: Settings = { ...settings, data: settings.data.share(rank, workers), checkReplicas: false };
  return { settings: own, types: modelTypes(own) };
}

/** What a meeting takes: parameters and layer state of all workers, stacked; those after the last meeting, and the outer optimizer's state. */
export interface MeetingInput {
  readonly local: Tensors;
  readonly layers: Tensors;
  readonly params: Tensors;
  readonly outer: Tensors;
  readonly rounds: Tensor;
  readonly learningRate: Tensor;
}

/** The function of a meeting, which is compiled. Floats of the layers' state become their mean; integers, such as counts, stay as they are. */
export const meetingFunction = (outer: Optimizer) =>
  function meeting({ local, layers, params, outer: state, rounds, learningRate }: MeetingInput) {
    const means = flattenTree<Tensor>(
      mapTensors(local, (each) => each.mean(0)),
      isTensor,
    ).leaves;
    const { leaves, shape } = flattenTree<Tensor>(params, isTensor);
    const changed = leaves.map((before, index) => before.sub(means[index] as Tensor));
    const updated = outer.update(unflattenTree(shape, changed) as Tensors, state, params, {
      step: rounds,
      learningRate,
    });
    return {
      params: updated.params,
      outer: updated.state,
      rounds: rounds.add(1),
      layers: mapTensors(layers, (each) => each.mean(0)),
    };
  };

/** The types of a meeting's inputs. */
export function meetingTypes(settings: Settings, types: ModelTypes, workers: number): unknown {
  const outer = outerOf(settings.localSteps as LocalSteps);
  const { params, layers } = metParts(types, types.state as never, isTensorType);
  const stacked = (tree: unknown): unknown => {
    const { leaves, shape } = flattenTree<TensorType>(tree, isTensorType);
    return unflattenTree(
      shape,
      leaves.map((type) => ({ dtype: type.dtype, shape: [workers, ...type.shape] })),
    );
  };
  return {
    local: stacked(params),
    layers: stacked(layers),
    params,
    outer: (types.state.optimizer as unknown as LocalState).outer,
    rounds: { dtype: "i32", shape: [] },
    learningRate: { dtype: settings.dtype, shape: learningRatesAt(outer, 0).shape },
  };
}

/** What meets: the trained parameters, and the floats of the layers' state; as trees without what does not. */
export function metParts(
  { trained, state }: ModelTypes,
  values: Pick<TrainState, "params" | "state">,
  isLeaf: (value: unknown) => boolean,
): { readonly params: Tensors; readonly layers: Tensors } {
  const types = flattenTree<TensorType>(state.state, isTensorType);
  const floats = new Set(types.paths.filter((_path, index) => isFloat((types.leaves[index] as TensorType).dtype)));
  return {
    params: trained === undefined ? values.params : partOf(values.params, trained, isLeaf),
    layers: partOf(values.state, floats, isLeaf),
  };
}

/** The planner's options for a meeting. */
export const meetingOptions = ({ machine }: Settings, mesh: Mesh) => ({
  name: "meeting",
  machine,
  layouts: (path: string): Layout => (/^(local|layers)\./.test(path) ? byWorker(mesh) : replicated(mesh)),
  outputLayouts: (): Layout => replicated(mesh),
  donate: ["params", "outer"],
});

/** Bytes that each worker sends in a meeting, by its plan. */
export function meetingBytes(settings: Settings, types: ModelTypes, mesh: Mesh): number {
  const example = [meetingTypes(settings, types, deviceCount(mesh))] as Parameters<typeof planFunction>[1];
  const meeting = meetingFunction(outerOf(settings.localSteps as LocalSteps));
  const { plan } = planFunction(meeting, example, mesh, meetingOptions(settings, mesh));
  return trafficOf(plan).reduce((sum, { sent }) => sum + sent, 0);
}

/** Lines about local steps, for the report of a plan. */
export function localLines(settings: Settings, workers: number, bytes: number): string[] {
  const { steps } = settings.localSteps as LocalSteps;
  const outer = outerOf(settings.localSteps as LocalSteps);
  const rates = learningRatesAt(outer, 0).values.join(", ");
  const when = `after ${plural(steps, "step")} and at the end of an epoch`;
  return [
    `local      ${plural(workers, "worker")}, of which each trains a copy; they meet ${when}; outer optimizer ${outer.name}, learning rate ${rates}`,
    `meeting    ${formatBytes(Math.ceil(bytes))} sent by each worker, ${formatBytes(Math.ceil(bytes / steps))} per step`,
  ];
}
