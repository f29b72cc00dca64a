/** @module The workloads: sizes, arithmetic, and the inputs and initial weights that all peers start from. */

/** A multilayer perceptron with relu between its layers. */
export interface MlpSizes {
  readonly kind: "mlp";
  readonly batch: number;
  /** Inputs, hidden layers, classes. */
  readonly widths: readonly number[];
}

/** Twice convolution (padding "same"), relu and 2x2 max pooling; then a hidden layer with dropout, and the classes. */
export interface LeNetSizes {
  readonly kind: "lenet";
  readonly batch: number;
  readonly side: number;
  readonly channels: readonly [number, number];
  readonly kernel: number;
  readonly hidden: number;
  readonly classes: number;
  readonly dropout: number;
}

/** `y = sqrt((sigmoid(a b + c) tanh(a) - 0.5 b)^2 + 1)`, elementwise. */
export interface ChainSizes {
  readonly kind: "chain";
  readonly elements: number;
}

/** Some rows of a large table, moved towards targets: `mean((table[ids] - targets)^2)`. */
export interface EmbeddingSizes {
  readonly kind: "embedding";
  /** Ids of a step. */
  readonly batch: number;
  readonly rows: number;
  readonly features: number;
}

/** The operations that eager workloads repeat; each peer has a function for each. */
export type EagerOperation = "add" | "scale" | "sum" | "matmul" | "softmax" | "slice" | "step" | "xty";

/** Operations that are not compiled, of matrices x and y; their results are read at the end. */
export interface EagerSizes {
  readonly kind: "eager";
  readonly operation: EagerOperation;
  readonly x: readonly [rows: number, columns: number];
  readonly y: readonly [rows: number, columns: number];
  /** Repetitions in a step; an operation whose result has the size of x is applied to its own result. */
  readonly count: number;
}

export type TrainingSizes = MlpSizes | LeNetSizes | EmbeddingSizes;
export type Sizes = TrainingSizes | ChainSizes | EagerSizes;

/** Stochastic gradient descent of the training workloads. */
export interface Sgd {
  readonly learningRate: number;
  readonly momentum: number;
  readonly nesterov: boolean;
}

export interface Workload {
  readonly name: string;
  readonly title: string;
  readonly sizes: Sizes;
  /** Undefined where nothing is trained. */
  readonly sgd?: Sgd;
  /** Processes that share the batch; with several, each has one thread. */
  readonly processes: number;
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
const tinyLenet: LeNetSizes = { ...lenet, batch: 8, side: 8, channels: [2, 4], kernel: 3, hidden: 16, dropout: 0 };
const embedding: EmbeddingSizes = { kind: "embedding", batch: 4096, rows: 1e6, features: 32 };
const tinyEmbedding: EmbeddingSizes = { kind: "embedding", batch: 16, rows: 64, features: 4 };
const sgd: Sgd = { learningRate: 0.01, momentum: 0.9, nesterov: true };

/** A row that is looked up once moves 2% of the way to its target: the mean divides its gradient by the size of all looked-up rows. */
const embeddingSgd = ({ batch, features }: EmbeddingSizes): Sgd => ({
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
    name: "eager-xty",
    title: "X^T y, 100,000 x 100",
    sizes: { kind: "eager", operation: "xty", x: [100_000, 100], y: [100_000, 1], count: 1 },
    processes: 1,
  },
];

/** The workloads in full size. */
export const workloads: readonly Workload[] = [
  { name: "mlp", title: "784-512-512-10, batch 128", sizes: mlp, sgd, processes: 1 },
  { name: "lenet", title: "LeNet, batch 128", sizes: lenet, sgd, processes: 1 },
  { name: "chain", title: "10 elementwise ops, 4,000,000 f32", sizes: { kind: "chain", elements: 4e6 }, processes: 1 },
  {
    name: "embedding",
    title: "4,096 rows of a table of 1,000,000 x 32",
    sizes: embedding,
    sgd: embeddingSgd(embedding),
    processes: 1,
  },
  { name: "lenet-dp", title: "LeNet, two processes with 64 images each", sizes: lenet, sgd, processes: 2 },
  ...eagerWorkloads,
];

/** Small sizes for a quick test of the harness. */
export const tinySizes: Readonly<Record<Exclude<Sizes["kind"], "eager">, Sizes>> = {
  mlp: { kind: "mlp", batch: 8, widths: [12, 16, 16, 4] },
  lenet: tinyLenet,
  chain: { kind: "chain", elements: 4096 },
  embedding: tinyEmbedding,
};

/** A workload in a size that tests only the harness. */
export function tinyWorkload(workload: Workload): Workload {
  const full = workload.sizes;
  if (full.kind === "eager")
    return { ...workload, sizes: { ...full, x: [8, 8], y: [8, full.y[1]], count: Math.min(full.count, 3) } };
  const sizes = tinySizes[full.kind];
  return { ...workload, sizes, ...(sizes.kind === "embedding" ? { sgd: embeddingSgd(sizes) } : {}) };
}

/** Floating-point operations of a step's matrix products and convolutions: forward, by the weights, by the inputs. */
export function matrixFlops(sizes: Sizes): number {
  if (sizes.kind === "chain" || sizes.kind === "embedding" || sizes.kind === "eager") return 0;
  const layers = multiplyAdds(sizes);
  // The first layer has no gradient by its input.
  const perExample = layers.reduce((total, count, index) => total + 2 * count * (index === 0 ? 2 : 3), 0);
  return perExample * sizes.batch;
}

/**
 * Bytes that must cross memory: inputs read once, outputs written once. Only for the workloads bound by memory: the chain, X^T y, and
 * the embedding, where only the looked-up rows of the table count.
 */
export function compulsoryBytes(sizes: Sizes): number {
  if (sizes.kind === "chain") return 16 * sizes.elements;
  if (sizes.kind === "eager") return sizes.operation === "xty" ? 4 * (count(sizes.x) + count(sizes.y)) : 0;
  if (sizes.kind !== "embedding") return 0;
  const { batch, features } = sizes;
  const distinct = new Set(embeddingIds(sizes)).size;
  return 4 * (batch * (features + 1) + 2 * distinct * features);
}

/** Multiply-adds of each layer's forward pass for one example. */
function multiplyAdds(sizes: MlpSizes | LeNetSizes): number[] {
  if (sizes.kind === "mlp") {
    return sizes.widths.slice(1).map((width, index) => width * (sizes.widths[index] as number));
  }
  const { side, kernel, hidden, classes } = sizes;
  const [first, second] = sizes.channels;
  const half = side / 2;
  return [
    side * side * kernel * kernel * first,
    half * half * kernel * kernel * first * second,
    flattened(sizes) * hidden,
    hidden * classes,
  ];
}

const flattened = ({ side, channels }: LeNetSizes): number => channels[1] * (side / 4) ** 2;

/** A parameter: its name, as PyTorch's `Sequential` has it, and its shape. */
export type ParameterShape = readonly [name: string, shape: readonly number[]];

/** Parameters in the order of the data file. */
export function parameterShapes(sizes: Sizes): ParameterShape[] {
  const layer = (place: number, weight: readonly number[]): ParameterShape[] => [
    [`${place}.weight`, weight],
    [`${place}.bias`, [weight[0] as number]],
  ];
  switch (sizes.kind) {
    case "mlp":
      return sizes.widths.slice(1).flatMap((width, index) => layer(2 * index, [width, sizes.widths[index] as number]));
    case "lenet": {
      const { kernel, hidden, classes, channels } = sizes;
      return [
        ...layer(0, [channels[0], 1, kernel, kernel]),
        ...layer(3, [channels[1], channels[0], kernel, kernel]),
        ...layer(7, [hidden, flattened(sizes)]),
        ...layer(10, [classes, hidden]),
      ];
    }
    case "embedding":
      return [["0.weight", [sizes.rows, sizes.features]]];
    case "chain":
    case "eager":
      return [];
  }
}

/**
 * Inputs of a step that are floats: `x`, where there are classes; `targets` of the embedding; `a`, `b`, `c` of the chain; `x`
 * and `y` of eager operations.
 */
export function inputShapes(sizes: Sizes): ParameterShape[] {
  switch (sizes.kind) {
    case "mlp":
      return [["x", [sizes.batch, sizes.widths[0] as number]]];
    case "lenet":
      return [["x", [sizes.batch, 1, sizes.side, sizes.side]]];
    case "embedding":
      return [["targets", [sizes.batch, sizes.features]]];
    case "chain":
      return ["a", "b", "c"].map((name): ParameterShape => [name, [sizes.elements]]);
    case "eager":
      return [
        ["x", sizes.x],
        ["y", sizes.y],
      ];
  }
}

const count = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Parameters, then inputs, as f32 one after another, then labels or ids as i32: the same bytes for every peer. */
export function workloadData(sizes: Sizes): Uint8Array {
  const draw = randomNumbers(1);
  const parts: Float32Array[] = [];
  for (const [name, shape] of parameterShapes(sizes)) {
    // PyTorch's initial values of layers; a bias takes the range of the weight before it.
    const weight = name.endsWith(".weight") ? shape : (parameterShapes(sizes)[parts.length - 1]?.[1] ?? shape);
    const bound = 1 / Math.sqrt(count(weight.slice(1)));
    parts.push(floats(shape, () => bound * (2 * draw() - 1)));
  }
  const classes = sizes.kind === "mlp" ? (sizes.widths.at(-1) as number) : sizes.kind === "lenet" ? sizes.classes : 0;
  const labels = integers(sizes, classes, draw);
  for (const [, shape] of inputShapes(sizes)) {
    const values = floats(shape, draw);
    if (sizes.kind === "chain") parts.push(values.map((value) => 4 * value - 2));
    else if (sizes.kind === "embedding") parts.push(values);
    // Rows of about 1 in sum, so that powers stay numbers.
    else if (sizes.kind === "eager") parts.push(values.map((value) => value / 4));
    else parts.push(withPattern(values, labels, classes));
  }
  return Buffer.concat([...parts, labels].map((part) => Buffer.from(part.buffer)));
}

/** Labels, or the embedding's ids, which replace them in the data. */
function integers(sizes: Sizes, classes: number, draw: () => number): Int32Array {
  if (sizes.kind === "chain" || sizes.kind === "eager") return new Int32Array();
  if (sizes.kind === "embedding") return embeddingIds(sizes);
  return Int32Array.from({ length: sizes.batch }, () => Math.floor(draw() * classes));
}

/** Ids, few of them frequent, like those of users and products. */
function embeddingIds({ batch, rows }: EmbeddingSizes): Int32Array {
  const draw = randomNumbers(2);
  return Int32Array.from({ length: batch }, () => {
    const part = draw();
    return Math.floor(rows * part * part * part);
  });
}

/** Fills an array in a loop, as `Float32Array.from` takes seconds for a large table. */
function floats(shape: readonly number[], draw: () => number): Float32Array {
  const values = new Float32Array(count(shape));
  for (let index = 0; index < values.length; index++) values[index] = draw();
  return values;
}

/** Noise with every `classes`-th value brighter, starting at the label: a pattern to learn, so that losses fall. */
function withPattern(noise: Float32Array, labels: Int32Array, classes: number): Float32Array {
  const perRow = noise.length / labels.length;
  return noise.map((value, index) => {
    const bright = (index % perRow) % classes === labels[Math.floor(index / perRow)];
    return 0.5 * value + (bright ? 0.5 : 0);
  });
}

/** Uniform numbers in [0, 1): mulberry32. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
