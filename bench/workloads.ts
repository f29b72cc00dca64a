/** @module The workloads: their sizes, and how they are trained. */
import {
  type EagerOperation,
  type EmbeddingSizes,
  type EmbedSizes,
  type GemmSizes,
  type GptSizes,
  inputShapes,
  integerShapes,
  type LeNetSizes,
  type LinalgProblem,
  type LinalgSizes,
  type LstmSizes,
  type MlpSizes,
  parameterShapes,
  type ReduceOperation,
  type ResnetSizes,
  type Sizes,
} from "./kinds/index.ts";
import type { Spec } from "./peers/link.ts";

/** How the training workloads update their parameters; what is not said is PyTorch's default. */
export type OptimizerSettings =
  | {
      readonly kind: "sgd";
      readonly learningRate: number;
      readonly momentum: number;
      readonly nesterov: boolean;
    }
  | { readonly kind: "adam" | "adamW" | "adagrad"; readonly learningRate: number };

export interface Workload {
  readonly name: string;
  readonly title: string;
  readonly sizes: Sizes;
  /** Undefined where nothing is trained. */
  readonly optimizer?: OptimizerSettings;
  /** The dtype in which layers compute; their parameters stay f32. Default f32. */
  readonly precision?: "bf16";
  /** Processes that share the batch; with several, each has one thread. */
  readonly processes: number;
  /** Whether parameters, gradients and optimizer state are divided among the processes; default false. */
  readonly sharded?: true;
  /** The fraction by which losses or results of peers may differ. Default 1e-3. */
  readonly tolerance?: number;
}

const mlp: MlpSizes = { kind: "mlp", batch: 128, widths: [784, 512, 512, 10] };
const lenet: LeNetSizes = {
  kind: "lenet",
  batch: 128,
  side: 28,
  channels: [32, 64],
  kernel: 5,
  hidden: 512,
  classes: 10,
  dropout: 0.5,
};
const tinyMlp: MlpSizes = { kind: "mlp", batch: 8, widths: [12, 16, 16, 4] };
const tinyLenet: LeNetSizes = { ...lenet, batch: 8, side: 8, channels: [2, 4], kernel: 3, hidden: 16, dropout: 0 };
const embedding: EmbeddingSizes = { kind: "embedding", batch: 4096, rows: 1e6, features: 32 };
const tinyEmbedding: EmbeddingSizes = { kind: "embedding", batch: 16, rows: 64, features: 4 };
const lstm: LstmSizes = {
  kind: "lstm",
  batch: 32,
  steps: 64,
  inputs: 128,
  hidden: 256,
  classes: 128,
};
const gpt: GptSizes = {
  kind: "gpt",
  batch: 8,
  steps: 128,
  layers: 4,
  width: 256,
  heads: 4,
  vocabulary: 4096,
};
const resnet: ResnetSizes = { kind: "resnet", batch: 64, side: 32, channels: [16, 32, 64], blocks: 3, classes: 10 };
const embed: EmbedSizes = { kind: "embed", batch: 4096, ids: 8, rows: 1e6, features: 16, hidden: 64 };
const optimizer: OptimizerSettings = { kind: "sgd", learningRate: 0.01, momentum: 0.9, nesterov: true };

/** A row that is looked up once moves 2% of the way to its target: the mean divides its gradient by the size of all looked-up rows. */
const embeddingSgd = ({ batch, features }: EmbeddingSizes): OptimizerSettings => ({
  kind: "sgd",
  learningRate: 0.01 * batch * features,
  momentum: 0,
  nesterov: false,
});

/** A thousand operations on small matrices: milliseconds of a step are microseconds of an operation. */
const smallEager = (operation: EagerOperation, title: string, count = 1000): Workload => ({
  name: `eager-${operation}`,
  title,
  sizes: { kind: "eager", operation, x: [8, 8], y: [8, 8], count },
  processes: 1,
});

/** The workloads of `--only eager`. */
export const eagerWorkloads: readonly Workload[] = [
  smallEager("add", "1,000 x = x + y, 8 x 8"),
  smallEager("scale", "1,000 x = x * 0.5, 8 x 8"),
  smallEager("sum", "1,000 sums of all of x, 8 x 8"),
  smallEager("matmul", "1,000 x = x y, 8 x 8"),
  smallEager("softmax", "1,000 x = softmax(x), 8 x 8"),
  smallEager("slice", "1,000 times two rows of x, 8 x 8"),
  smallEager("step", "77 steps of a regression, by 13 operations each, 8 x 8", 77),
  {
    name: "eager-chain",
    title: "50 chains of 20 operations, 64 x 64",
    sizes: { kind: "eager", operation: "chain", x: [64, 64], y: [64, 64], count: 50 },
    processes: 1,
  },
  {
    name: "eager-xty",
    title: "X^T y, 100,000 x 100",
    sizes: { kind: "eager", operation: "xty", x: [100_000, 100], y: [100_000, 1], count: 1 },
    processes: 1,
  },
];

const gemmWorkload = (m: number, k: number, n: number): Workload => {
  const cube = m === k && k === n;
  const sizes: GemmSizes = { kind: "gemm", m, k, n };
  return { name: `gemm-${cube ? m : `${m}x${k}x${n}`}`, title: `${m} x ${k} times ${k} x ${n}`, sizes, processes: 1 };
};

/** The workloads of `--only gemm`. */
export const gemmWorkloads: readonly Workload[] = [
  gemmWorkload(256, 256, 256),
  gemmWorkload(1024, 1024, 1024),
  gemmWorkload(2048, 2048, 2048),
  gemmWorkload(128, 784, 512),
  gemmWorkload(32, 256, 1024),
  gemmWorkload(1, 4096, 4096),
];

const reduceWorkload = (operation: ReduceOperation, rows = 4096, columns = 1024): Workload => ({
  name: `reduce-${operation}`,
  title: `${operation} of ${rows} rows of ${columns}`,
  sizes: { kind: "reduce", operation, rows, columns },
  processes: 1,
});

/** The workloads of `--only reduce`. */
export const reduceWorkloads: readonly Workload[] = [
  reduceWorkload("softmax"),
  reduceWorkload("layer-norm"),
  reduceWorkload("sum"),
  reduceWorkload("argmax"),
  reduceWorkload("cross-entropy", 1024, 4096),
];

const inferWorkload = (network: MlpSizes | LeNetSizes, title: string): Workload => ({
  name: `infer-${network.kind}${network.batch === 1 ? "" : `-${network.batch}`}`,
  title: `${title}, batch ${network.batch}, inference`,
  sizes: { kind: "infer", network },
  processes: 1,
});

/** The workloads of `--only infer`. */
export const inferWorkloads: readonly Workload[] = [
  inferWorkload({ ...mlp, batch: 1 }, "784-512-512-10"),
  inferWorkload({ ...lenet, batch: 1 }, "LeNet"),
  inferWorkload({ ...lenet, batch: 64 }, "LeNet"),
];

/** The trainings in f32. */
const trainings: readonly Workload[] = [
  { name: "mlp", title: "784-512-512-10, batch 128", sizes: mlp, optimizer, processes: 1 },
  { name: "lenet", title: "LeNet, batch 128", sizes: lenet, optimizer, processes: 1 },
  { name: "chain", title: "10 elementwise ops, 4,000,000 f32", sizes: { kind: "chain", elements: 4e6 }, processes: 1 },
  {
    name: "embedding",
    title: "4,096 rows of a table of 1,000,000 x 32",
    sizes: embedding,
    optimizer: embeddingSgd(embedding),
    processes: 1,
  },
  {
    name: "lstm",
    title: "LSTM 128-256, 64 steps, 128 classes at each, batch 32",
    sizes: lstm,
    optimizer: { kind: "adam", learningRate: 1e-3 },
    processes: 1,
  },
  {
    name: "gpt",
    title: "decoder of 4 layers of 256, 8 x 128 tokens of 4,096",
    sizes: gpt,
    optimizer: { kind: "adamW", learningRate: 1e-3 },
    processes: 1,
  },
  {
    name: "resnet20",
    title: "ResNet-20, batch 64",
    sizes: resnet,
    optimizer: { ...optimizer, nesterov: false },
    processes: 1,
  },
  {
    name: "embed",
    title: "4,096 bags of 8 ids of a table of 1,000,000 x 16",
    sizes: embed,
    optimizer: { kind: "adagrad", learningRate: 0.01 },
    processes: 1,
  },
];

const twoProcesses = (name: string): Workload[] => {
  const workload = trainings.find((training) => training.name === name) as Workload;
  const title = `${workload.title}, in two processes with half of the batch each`;
  // PyTorch's batch norms see the half of a process, Heddle's the whole batch.
  const shared = { ...workload, processes: 2, ...(workload.sizes.kind === "resnet" ? { tolerance: 1e-2 } : {}) };
  return [
    { ...shared, name: `${name}-dp`, title },
    { ...shared, name: `${name}-fsdp`, title: `${title}, fully sharded`, sharded: true },
  ];
};

/** What a training of Heddle reads, where no harness asks it for steps; `data`: the file of its numbers. */
export const trainingSpec = ({ sizes, optimizer, sharded, precision, processes }: Workload, data: string): Spec => ({
  ...{ port: 0, token: "", peer: "heddle", threads: 1, processes, sharded: sharded ?? false },
  ...{ sizes, optimizer: optimizer ?? null, precision: precision ?? null, data, onnx: null },
  parameters: parameterShapes(sizes),
  inputs: inputShapes(sizes),
  integers: integerShapes(sizes),
});

/** The workloads of `--only two`: data parallel and fully sharded. */
export const twoWorkloads: readonly Workload[] = ["lenet", "resnet20", "gpt"].flatMap(twoProcesses);

const bf16Workload = (name: string): Workload => {
  const workload = trainings.find((training) => training.name === name) as Workload;
  // Rounded to 8 bits, by each peer at other places.
  return { ...workload, name: `bf16-${name}`, title: `${workload.title}, in bf16`, precision: "bf16", tolerance: 1e-2 };
};

/** The workloads of `--only bf16`. */
export const bf16Workloads: readonly Workload[] = ["mlp", "lenet", "gpt"].map(bf16Workload);

const int8Workload = (batch: number): Workload => ({
  name: `int8-mlp-${batch}`,
  title: `1024-2048-2048-1024, batch ${batch}, inference in i8`,
  sizes: { kind: "int8", network: { kind: "mlp", batch, widths: [1024, 2048, 2048, 1024] } },
  processes: 1,
  tolerance: 1e-2,
});

/** The workloads of `--only int8`. */
export const int8Workloads: readonly Workload[] = [int8Workload(128), int8Workload(1)];

const linalgWorkload = (
  problem: LinalgProblem,
  rows: number,
  columns: number,
  { entries = 0, count = 0, tolerance = 1e-6 } = {},
): Workload => ({
  name: `linalg-${problem}`,
  title: `${problem}, ${rows}x${columns}${entries === 0 ? "" : `, ${entries} entries a row`}, f64`,
  sizes: { kind: "linalg", problem, rows, columns, entries, count },
  processes: 1,
  tolerance,
});

/** The workloads of `--only linalg`, which are measured only when they are named: their data takes gigabytes. */
export const linalgWorkloads: readonly Workload[] = [
  linalgWorkload("cg-dense", 100_000, 1000, { count: 20 }),
  linalgWorkload("direct", 100_000, 1000),
  linalgWorkload("cg-sparse", 1_000_000, 1000, { entries: 10, count: 20 }),
  linalgWorkload("kmeans", 100_000, 50, { count: 20 }),
  // Those that end at a tolerance do so at different points.
  linalgWorkload("logistic", 100_000, 100, { tolerance: 1e-3 }),
  linalgWorkload("svm", 100_000, 100, { tolerance: 1e-3 }),
  linalgWorkload("pca", 100_000, 100),
  linalgWorkload("mmchain", 1_000_000, 100, { count: 50 }),
  linalgWorkload("wsloss", 100_000, 10_000, { entries: 10 }),
];

/** The workloads in full size. */
export const workloads: readonly Workload[] = [
  ...trainings,
  ...twoWorkloads,
  ...bf16Workloads,
  ...gemmWorkloads,
  ...reduceWorkloads,
  ...inferWorkloads,
  ...int8Workloads,
  ...eagerWorkloads,
];

/** Small sizes for a quick test of the harness. */
export const tinySizes: Readonly<
  Record<Exclude<Sizes["kind"], "eager" | "infer" | "int8" | "linalg" | "reduce">, Sizes>
> = {
  mlp: tinyMlp,
  lenet: tinyLenet,
  chain: { kind: "chain", elements: 4096 },
  gemm: { kind: "gemm", m: 8, k: 12, n: 16 },
  lstm: { kind: "lstm", batch: 4, steps: 5, inputs: 6, hidden: 8, classes: 3 },
  gpt: { kind: "gpt", batch: 2, steps: 6, layers: 2, width: 8, heads: 2, vocabulary: 11 },
  resnet: { ...resnet, batch: 4, side: 8, channels: [2, 4, 8], blocks: 1 },
  embed: { kind: "embed", batch: 16, ids: 3, rows: 64, features: 4, hidden: 5 },
  embedding: tinyEmbedding,
};

/** A workload in a size that tests only the harness. */
export function tinyWorkload(workload: Workload): Workload {
  const full = workload.sizes;
  if (full.kind === "eager")
    return {
      ...workload,
      sizes: { ...full, x: [8, 8], y: [8, Math.min(8, full.y[1])], count: Math.min(full.count, 3) },
    };
  if (full.kind === "linalg") return { ...workload, sizes: tinyLinalg(full) };
  if (full.kind === "reduce") return { ...workload, sizes: { ...full, rows: 8, columns: 16 } };
  if (full.kind === "infer") {
    const { batch } = full.network;
    const network = full.network.kind === "mlp" ? { ...tinyMlp, batch } : { ...tinyLenet, batch: Math.min(batch, 8) };
    return { ...workload, sizes: { ...full, network } };
  }
  if (full.kind === "int8")
    return { ...workload, sizes: { ...full, network: { ...tinyMlp, batch: full.network.batch } } };
  const sizes = tinySizes[full.kind];
  return { ...workload, sizes, ...(sizes.kind === "embedding" ? { optimizer: embeddingSgd(sizes) } : {}) };
}

/** Enough rows for every class and cluster. */
const tinyLinalg = (sizes: LinalgSizes): LinalgSizes => ({
  ...sizes,
  rows: 400,
  columns: Math.min(sizes.columns, 30),
  count: Math.min(sizes.count, 3),
});
