/**
 * @module A network declared as Caffe's: layers between named blobs, some of them only in training or only in testing.
 */
import { dirname, join } from "node:path";
import type { Dataset } from "../../data/index.ts";
import { called, checkOptions, HeddleError, readWhole } from "../../extend/index.ts";
import type { Tensor, Tensors } from "../../functions/index.ts";
import { sizeOf, type TensorType } from "../../ir/index.ts";
import * as losses from "../../losses/index.ts";
import { accuracy, type Metrics, topK } from "../../metrics/index.ts";
import { type Layer, scopeKey } from "../../nn/index.ts";
import type { Optimizer } from "../../optim/index.ts";
import { type CaffeLayer, layerOf, outputType } from "./layers.ts";
import { type CaffeSolver, type Multipliers, solverOf } from "./solver.ts";
import { errorAt, type Message, parsePrototxt } from "./text.ts";

/** The phase of a network, which decides which of its layers are used. */
export type CaffePhase = "train" | "test";

/** A network read from a file. */
export interface CaffeNet {
  readonly name: string;
  /**
   * The layers from the data to the blob that the loss compares, or to the last layer. The option `train` of `apply`
   * chooses the phase.
   */
  readonly model: Layer;
  /** The loss of the file, such as `SoftmaxWithLoss`; undefined where the file has none. */
  readonly loss: losses.Loss | undefined;
  /** The metrics of the layers `Accuracy`, by their names. */
  readonly metrics: Metrics;
  /** Shape of the input, batch first; undefined where the file declares none. */
  readonly inputShape: readonly number[] | undefined;
  /** Examples per batch of each phase; undefined where the file has no data layer for the phase. */
  readonly batchSize: { readonly train: number | undefined; readonly test: number | undefined };
  /** `lr_mult` and `decay_mult` by parameter. */
  readonly multipliers: ReadonlyMap<string, Multipliers>;
  /**
   * The dataset with the scale and the batch size of the phase's data layer, in place of the data that the layer names.
   */
  prepare(dataset: Dataset, phase: CaffePhase): Dataset;
}

interface Placed {
  readonly name: string;
  readonly layer: CaffeLayer;
  readonly bottoms: readonly string[];
  readonly top: string;
  readonly phases: readonly CaffePhase[];
  readonly message: Message;
}

/** What a data layer says about the examples. */
interface DataLayer {
  readonly phases: readonly CaffePhase[];
  readonly batch: number | undefined;
  readonly scale: number;
  readonly mean: number;
  /** Fields that change the examples in ways that `prepare` does not. */
  readonly undone: readonly string[];
}

/** Options of {@link parseCaffeNet}. */
export interface CaffeNetOptions {
  /** The stages of each phase, which rules of `include` and `exclude` ask for; default none. */
  readonly stages?: { readonly train?: readonly string[]; readonly test?: readonly string[] };
}

interface Draft {
  readonly file: string;
  readonly stages: NonNullable<CaffeNetOptions["stages"]>;
  readonly layers: Placed[];
  readonly data: DataLayer[];
  readonly metrics: [string, Metrics[string]][];
  readonly multipliers: Map<string, Multipliers>;
  input: string | undefined;
  inputShape: readonly number[] | undefined;
  loss: losses.Loss | undefined;
  /** The blob that the loss compares. */
  compared: string | undefined;
}

/** Whether a rule of `include` or `exclude` holds in a phase. The level of every phase is 0. */
function ruleOf(message: Message, stages: Draft["stages"]): (phase: CaffePhase) => boolean {
  const phase = message.has("phase") ? message.word("phase", ["TRAIN", "TEST"]).toLowerCase() : undefined;
  const [wanted, unwanted] = [message.texts("stage"), message.texts("not_stage")];
  const level = message.number("min_level", 0) <= 0 && message.number("max_level", 0) >= 0;
  message.finish();
  return (current) => {
    const now = stages[current] ?? [];
    const here = (stage: string) => now.includes(stage);
    return level && (phase ?? current) === current && wanted.every(here) && !unwanted.some(here);
  };
}

function phasesOf(layer: Message, stages: Draft["stages"]): CaffePhase[] {
  const [included, excluded] = ["include", "exclude"].map((name) =>
    layer.messages(name).map((message) => ruleOf(message, stages)),
  ) as [((phase: CaffePhase) => boolean)[], ((phase: CaffePhase) => boolean)[]];
  return (["train", "test"] as const).filter(
    (phase) => (included.length === 0 || included.some((rule) => rule(phase))) && !excluded.some((rule) => rule(phase)),
  );
}

const shapeOf = (message: Message): number[] => {
  const dims = message.numbers("dim");
  message.finish();
  return dims;
};

/** The first input is what the model takes; others, such as labels, are what the loss and the metrics take. */
function addInput(draft: Draft, top: string | undefined, shape: readonly number[] | undefined): void {
  draft.input ??= top;
  draft.inputShape ??= shape;
}

/** Fields of a data layer that change its examples; the network is the same without them. */
const changes = {
  transform: ["crop_size", "mirror", "mean_file", "force_color", "force_gray"],
  source: ["new_height", "new_width", "is_color", "crop_size", "mirror", "mean_file"],
} as const;

function addData(draft: Draft, layer: Message, tops: readonly string[], phases: readonly CaffePhase[]): void {
  const source = layer.message("data_param") ?? layer.message("image_data_param") ?? layer.message("hdf5_data_param");
  const transform = layer.message("transform_param");
  const batch = source?.integer("batch_size", 1);
  const scale = transform?.number("scale", 1) ?? 1;
  const means = transform?.numbers("mean_value") ?? [];
  const undone = [
    ...changes.transform.filter((name) => transform?.has(name)),
    ...changes.source.filter((name) => source?.has(name)),
    ...(means.length > 1 ? ["a mean_value for each channel"] : []),
  ];
  const crop = transform?.integer("crop_size", 0, 0) ?? 0;
  const [mean = 0] = means;
  // The dataset names the place of the examples, so these fields change nothing.
  source?.ignore("source", "backend", "prefetch", "rand_skip", "shuffle", "root_folder", ...changes.source);
  source?.finish();
  transform?.ignore(...changes.transform);
  transform?.finish();
  draft.data.push({ phases, batch, scale, mean, undone });
  const known = crop > 0 && means.length > 1 && batch !== undefined;
  addInput(draft, tops[0], known ? [batch, means.length, crop, crop] : undefined);
}

/** Losses of numbers: sums over all elements of an example, the mean over the batch. */
const sums: { readonly [type: string]: (output: Tensor, target: Tensor) => Tensor } = {
  EuclideanLoss: (output, target) => losses.mse(output, target).mul(elementsOf(output) / 2),
  SigmoidCrossEntropyLoss: (output, target) =>
    losses.binaryCrossEntropyWithLogits(output, target).mul(elementsOf(output)),
};
const elementsOf = ({ shape }: Tensor): number => sizeOf(shape.slice(1));

/** Adds the loss of a type and the blob that it compares. Caffe only shows a loss of weight 0, so it is left out. */
function addLoss(draft: Draft, layer: Message, type: string, bottoms: readonly string[]): void {
  const [weight = 1] = layer.numbers("loss_weight");
  const loss = Object.hasOwn(sums, type) ? sums[type] : classLoss(layer);
  if (weight === 0 || loss === undefined) return;
  if (draft.loss !== undefined)
    throw errorAt(layer, "a second loss is not imported", "give it loss_weight: 0, or take one of the losses out");
  draft.compared = bottoms[0];
  draft.loss = (output, target) => {
    const value = loss(output, target.shape.length < 2 ? target : target.reshape(output.shape));
    return weight === 1 ? value : value.mul(weight);
  };
}

function classLoss(layer: Message): (output: Tensor, target: Tensor) => Tensor {
  const message = layer.message("loss_param");
  const ignoreIndex = message?.has("ignore_label") === true ? message.integer("ignore_label", -(2 ** 31)) : undefined;
  message?.word("normalization", ["VALID"], "VALID");
  message?.finish();
  const softmax = layer.message("softmax_param");
  if (softmax?.integer("axis", 1, 1) === 1) softmax.finish();
  const options = ignoreIndex === undefined ? {} : { ignoreIndex };
  return (output, target) => losses.softmaxCrossEntropy(output, target, options);
}

function addAccuracy(draft: Draft, layer: Message, name: string): void {
  const message = layer.message("accuracy_param");
  const k = message?.integer("top_k", 1, 1) ?? 1;
  message?.finish();
  draft.metrics.push([name, k === 1 ? accuracy : topK(k)]);
}

function addMultipliers(draft: Draft, layer: Message, name: string): void {
  layer.messages("param").forEach((message, index) => {
    const multipliers = { rate: message.number("lr_mult", 1), decay: message.number("decay_mult", 1) };
    if (message.has("name"))
      throw errorAt(
        message,
        "parameters shared by name are not imported",
        "write the model with nn, where one layer may be applied twice",
      );
    message.finish();
    draft.multipliers.set(`${name}.${index === 0 ? "weight" : "bias"}`, multipliers);
  });
}

function addLayer(draft: Draft, layer: Message): void {
  const [name, type] = [layer.text("name"), layer.text("type")];
  const [bottoms, tops] = [layer.texts("bottom"), layer.texts("top")];
  const phases = phasesOf(layer, draft.stages);
  addMultipliers(draft, layer, name);
  switch (type) {
    case "Data":
    case "ImageData":
    case "HDF5Data":
      addData(draft, layer, tops, phases);
      break;
    case "Input": {
      const shape = layer.message("input_param")?.messages("shape")[0];
      addInput(draft, tops[0], shape === undefined ? undefined : shapeOf(shape));
      break;
    }
    case "SoftmaxWithLoss":
    case "SigmoidCrossEntropyLoss":
    case "EuclideanLoss":
      addLoss(draft, layer, type, bottoms);
      break;
    case "Accuracy":
      addAccuracy(draft, layer, name);
      break;
    default: {
      const [top] = tops;
      const caffeLayer = layerOf(layer, type);
      if (top === undefined || tops.length > 1) throw errorAt(layer, `layer "${name}" must have one top`);
      if (bottoms.length === 0) throw errorAt(layer, `layer "${name}" has no bottom`, 'say what it takes: bottom: "…"');
      draft.layers.push({ name, layer: caffeLayer, bottoms, top, phases, message: layer });
    }
  }
  layer.ignore("loss_weight", "propagate_down", "phase");
  layer.finish();
}

/** The layers that compute a blob, in their order. */
function needed(draft: Draft, output: string): Placed[] {
  const wanted = new Set([output]);
  const used: Placed[] = [];
  for (const placed of [...draft.layers].reverse()) {
    if (!wanted.has(placed.top)) continue;
    for (const bottom of placed.bottoms) wanted.add(bottom);
    used.unshift(placed);
  }
  return used;
}

function modelOf(draft: Draft, name: string): Layer {
  const { file, input } = draft;
  if (input === undefined)
    throw new HeddleError("format", `${file}: the network has no input`, { hint: "a layer of type Data or Input" });
  const output = draft.compared ?? draft.layers.at(-1)?.top;
  if (output === undefined) throw new HeddleError("format", `${file}: the network has no layers`);
  const layers = needed(draft, output);
  const names = new Set<string>();
  for (const placed of layers) {
    if (names.has(placed.name)) throw errorAt(placed.message, `two layers are named "${placed.name}"`);
    names.add(placed.name);
  }
  const walk = <Blob>(
    first: Blob,
    phase: CaffePhase | undefined,
    make: (placed: Placed, inputs: Blob[]) => Blob,
  ): Blob => {
    const blobs = new Map<string, Blob>([[input, first]]);
    for (const placed of layers) {
      if (phase !== undefined && !placed.phases.includes(phase)) continue;
      const inputs = placed.bottoms.map((bottom) => {
        const blob = blobs.get(bottom);
        if (blob === undefined)
          throw errorAt(placed.message, `layer "${placed.name}" takes "${bottom}", which no layer before it makes`);
        return blob;
      });
      blobs.set(placed.top, make(placed, inputs));
    }
    const blob = blobs.get(output);
    if (blob === undefined) throw new HeddleError("format", `${file}: no layer makes "${output}"`);
    return blob;
  };
  return {
    kind: name === "" ? "caffe" : name,
    init(key, type) {
      const params: [string, Tensors][] = [];
      const result = walk<TensorType>(type, undefined, ({ layer, name: layerName }, inputs) => {
        const wanted = Object.entries(layer.params?.(inputs) ?? {});
        const values = wanted.map(([param, { shape, init }], ordinal) => {
          const paramKey = scopeKey(scopeKey(key, layerName), ordinal);
          return [param, init(paramKey, shape, type.dtype)] as const;
        });
        if (values.length > 0) params.push([layerName, Object.fromEntries(values)]);
        return outputType(layer, inputs, layerName);
      });
      return { params: Object.fromEntries(params), state: {}, output: result };
    },
    apply({ params }, x, options = {}) {
      let ordinal = 0;
      const y = walk<Tensor>(x, options.train === true ? "train" : "test", ({ layer, name: layerName }, inputs) => {
        const key = options.key === undefined ? undefined : scopeKey(options.key, ordinal++);
        return layer.apply(inputs, (params[layerName] ?? {}) as Tensors, { ...options, key });
      });
      return { y, state: {} };
    },
  };
}

/** The dataset as the phase's data layer would give it. */
function prepared(draft: Draft, dataset: Dataset, phase: CaffePhase): Dataset {
  const layer = draft.data.find(({ phases }) => phases.includes(phase));
  if (layer === undefined) throw new HeddleError("model", `${draft.file} has no data layer for phase ${phase}`);
  if (dataset.batchSize !== undefined)
    throw new HeddleError("data", `${dataset.name} is batched; ${draft.file} says how`, { hint: "leave out .batch()" });
  const { batch, scale, mean, undone } = layer;
  if (undone.length > 0)
    throw new HeddleError("data", `${draft.file}: prepare does not do what its data layer says: ${undone.join(", ")}`, {
      hint: `make the rows so beforehand, and give train the dataset with .batch(${batch ?? "n"}) in place of prepare`,
    });
  const scaled = dataset.transform("x", { dtype: "f32", scale, offset: -mean * scale });
  return batch === undefined ? scaled : scaled.batch(batch);
}

const readText = async (path: string): Promise<string> => new TextDecoder().decode(await readWhole("loadCaffe", path));

/**
 * Reads a network in Caffe's text format. `file` is the name in error messages. What a data layer does to its examples
 * (crops, mirrored images, a file of means) is not part of the network: `prepare` refuses it.
 *
 * @throws HeddleError `format` as `file:line:column` for what cannot be read, for misspelt fields, and for types of
 * layers and options that are not imported.
 */
export function parseCaffeNet(text: string, file = "the network", options: CaffeNetOptions = {}): CaffeNet {
  checkOptions("parseCaffeNet", options, ["stages"]);
  const root = parsePrototxt(text, file);
  // A solver has no layers, and a network has no number of iterations.
  if (!root.has("layer") && !root.has("layers") && (root.has("max_iter") || root.has("base_lr")))
    throw errorAt(
      root,
      "this is a solver, not a network",
      "loadCaffe takes the solver first; the network is what its field net names, or the option net",
    );
  const draft: Draft = {
    file,
    stages: options.stages ?? {},
    layers: [],
    data: [],
    metrics: [],
    multipliers: new Map(),
    input: undefined,
    inputShape: undefined,
    loss: undefined,
    compared: undefined,
  };
  const name = root.text("name", "");
  const dims = root.numbers("input_dim");
  const [shape = dims.length === 0 ? undefined : dims] = root.messages("input_shape").map(shapeOf);
  const [input] = root.texts("input");
  if (input !== undefined) addInput(draft, input, shape);
  if (root.has("layers"))
    throw errorAt(root, "layers of the old form (layers { … }) are not imported", "run Caffe's upgrade_net_proto_text");
  for (const layer of root.messages("layer")) addLayer(draft, layer);
  root.ignore("force_backward", "state", "debug_info");
  root.finish();
  const batch = (phase: CaffePhase) => draft.data.find(({ phases }) => phases.includes(phase))?.batch;
  if (draft.inputShape !== undefined) sizeOf(draft.inputShape);
  return {
    name,
    model: modelOf(draft, name),
    loss: draft.loss,
    metrics: Object.fromEntries(draft.metrics),
    inputShape: draft.inputShape,
    batchSize: { train: batch("train"), test: batch("test") },
    multipliers: draft.multipliers,
    prepare: (dataset, phase) => prepared(draft, dataset, phase),
  };
}

/** Reads a solver in Caffe's text format. @throws as {@link parseCaffeNet}. */
export const parseCaffeSolver = (text: string, file = "the solver"): CaffeSolver => solverOf(parsePrototxt(text, file));

/** A network with the solver that trains it. */
export interface CaffeTraining extends CaffeNet {
  readonly solver: CaffeSolver;
  /** The solver's update rule with the network's multipliers. */
  readonly optimizer: Optimizer;
  /** Whole passes over the data that make up the solver's iterations, rounded up. */
  epochs(dataset: Dataset): number;
}

/**
 * Reads a solver and the network that it names (or `net`), for `train`:
 *
 *     const lenet = await io.loadCaffe("lenet_solver.prototxt");
 *     const data_ = lenet.prepare(data.mnist("train").shuffle(), "train");
 *     await train({ ...lenet, data: data_, loss: lenet.loss!, epochs: lenet.epochs(data_) });
 *
 * @param options `net`: the network's file; default the one that the solver names, beside the solver's own
 * @throws as {@link parseCaffeNet}, `file` when one of the two cannot be read, `format` when one is given for the other.
 */
export function loadCaffe(solver: string, options: { readonly net?: string } = {}): Promise<CaffeTraining> {
  return called(async () => {
    checkOptions("loadCaffe", options, ["net"]);
    const rules = parseCaffeSolver(await readText(solver), solver);
    const named = rules.net === undefined ? undefined : join(dirname(solver), rules.net.split("/").at(-1) as string);
    const path = options.net ?? named;
    if (path === undefined)
      throw new HeddleError("option", `${solver} names no network`, { hint: 'give it as { net: "net.prototxt" }' });
    const net = parseCaffeNet(await readText(path), path, { stages: rules.stages });
    return {
      ...net,
      solver: rules,
      optimizer: rules.optimizer(net.multipliers),
      epochs: (dataset) => Math.ceil(rules.maxIterations / dataset.batchesPerEpoch),
    };
  });
}
