/**
 * @module TensorFlow.js in Node as a peer: its WebAssembly backend with SIMD, by one thread, as it has threads in browsers alone. The
 * backend whose kernels are native code, tfjs-node, downloads these when it is installed.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import type { GemmSizes, InferSizes, LeNetSizes, MlpSizes, Sizes } from "../kinds/index.ts";
import { timed } from "./heddle-data.ts";
import { digest, type Peer, readSpec, type Spec, serve } from "./link.ts";
import { readNumbers } from "./numbers.ts";

interface TfTensor {
  readonly shape: number[];
  dataSync(): Float32Array;
  dispose(): void;
  matMul(other: TfTensor, transposeThis?: boolean): TfTensor;
  add(other: TfTensor): TfTensor;
  mul(other: TfTensor): TfTensor;
  neg(): TfTensor;
  mean(): TfTensor;
  sum(axis?: number): TfTensor;
  relu(): TfTensor;
  logSoftmax(): TfTensor;
  reshape(shape: readonly number[]): TfTensor;
  transpose(dims: readonly number[]): TfTensor;
  slice(begin: readonly number[], size: readonly number[]): TfTensor;
  pad(paddings: readonly (readonly [number, number])[]): TfTensor;
}

interface Kernel {
  readonly kernelName: string;
  readonly backendName: string;
  readonly kernelFunc: (call: {
    readonly inputs: { readonly x: TfTensor; readonly dy: TfTensor };
    readonly attrs: { readonly filterShape: readonly [number, number, number, number] };
  }) => TfTensor;
}

/** The part of TensorFlow.js that is used. */
interface Tf {
  readonly version_core: string;
  readonly train: {
    momentum(
      rate: number,
      momentum: number,
      nesterov: boolean,
    ): {
      minimize(loss: () => TfTensor, returnCost: true, variables: readonly TfTensor[]): TfTensor;
    };
  };
  setBackend(name: string): Promise<boolean>;
  registerKernel(kernel: Kernel): void;
  tensor(values: Float32Array | Int32Array, shape: readonly number[], dtype?: "int32"): TfTensor;
  variable(value: TfTensor): TfTensor;
  oneHot(labels: TfTensor, classes: number): TfTensor;
  cast(x: TfTensor, dtype: "float32"): TfTensor;
  conv2d(x: TfTensor, filter: TfTensor, strides: number, padding: "same"): TfTensor;
  maxPool(x: TfTensor, size: number, strides: number, padding: "valid"): TfTensor;
  dropout(x: TfTensor, rate: number): TfTensor;
  stack(tensors: readonly TfTensor[]): TfTensor;
  tidy(run: () => TfTensor): TfTensor;
  matMul(a: TfTensor, b: TfTensor): TfTensor;
}

const spec = readSpec();
const installed = createRequire(join(process.env["HEDDLE_BENCH_NODE"] as string, "package.json"));
const tf = installed("@tensorflow/tfjs-core") as Tf;
// Methods of tensors, and gradients of what the backend computes.
installed("@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops");
installed("@tensorflow/tfjs-core/dist/register_all_gradients");
installed("@tensorflow/tfjs-backend-wasm");
if (!(await tf.setBackend("wasm"))) throw new Error("the WebAssembly backend of TensorFlow.js does not start");

/** The gradient of a convolution by its filter, which the backend lacks: a product for each place of the filter. */
tf.registerKernel({
  kernelName: "Conv2DBackpropFilter",
  backendName: "wasm",
  kernelFunc: ({ inputs: { x, dy }, attrs: { filterShape } }) =>
    tf.tidy(() => {
      const [rows, columns, from, to] = filterShape;
      const [batch, height, width] = x.shape as [number, number, number];
      const margin = (size: number): [number, number] => [(size - 1) >> 1, size >> 1];
      const padded = x.pad([[0, 0], margin(rows), margin(columns), [0, 0]]);
      const gradient = dy.reshape([-1, to]);
      const places = Array.from({ length: rows * columns }, (_unused, place) => {
        const begin = [0, Math.floor(place / columns), place % columns, 0];
        return padded.slice(begin, [batch, height, width, from]).reshape([-1, from]).matMul(gradient, true);
      });
      return tf.stack(places).reshape(filterShape);
    }),
});

type Parameters = ReadonlyMap<string, TfTensor>;

/** Weights and images in the order of dims that TensorFlow takes. */
function ordered(sizes: Sizes, name: string, x: TfTensor): TfTensor {
  const { shape } = x;
  if (name === "x") return shape.length === 4 ? x.transpose([0, 2, 3, 1]) : x;
  if (shape.length === 4) return x.transpose([2, 3, 1, 0]);
  if (sizes.kind === "lenet" && name === "7.weight") {
    // Its inputs are a flattened image, channels first in the data file.
    const [side, out] = [sizes.side / 4, shape[0] as number];
    const image = x.reshape([out, -1, side, side]).transpose([2, 3, 1, 0]);
    return image.reshape([-1, out]);
  }
  return name.endsWith(".weight") ? x.transpose([1, 0]) : x;
}

function layer(params: Parameters, name: number, x: TfTensor): TfTensor {
  return x.matMul(params.get(`${name}.weight`) as TfTensor).add(params.get(`${name}.bias`) as TfTensor);
}

function forward(sizes: MlpSizes | LeNetSizes, params: Parameters, x: TfTensor, dropout: boolean): TfTensor {
  if (sizes.kind === "mlp")
    return sizes.widths.slice(1).reduce((input, _width, index) => {
      const y = layer(params, 2 * index, input);
      return index === sizes.widths.length - 2 ? y : y.relu();
    }, x);
  let y = x;
  for (const name of [0, 3]) {
    const convolved = tf.conv2d(y, params.get(`${name}.weight`) as TfTensor, 1, "same");
    y = tf.maxPool(convolved.add(params.get(`${name}.bias`) as TfTensor).relu(), 2, 2, "valid");
  }
  const hidden = layer(params, 7, y.reshape([sizes.batch, -1])).relu();
  return layer(params, 10, dropout && sizes.dropout > 0 ? tf.dropout(hidden, sizes.dropout) : hidden);
}

function read(spec: Spec, sizes: Sizes): { params: Map<string, TfTensor>; inputs: TfTensor[]; labels: TfTensor[] } {
  const { parameters, inputs, integers } = readNumbers(spec);
  const placed = ([name, shape, values]: (typeof parameters)[number]): [string, TfTensor] => [
    name,
    ordered(sizes, name, tf.tensor(values, shape)),
  ];
  return {
    params: new Map(parameters.map(placed)),
    inputs: inputs.map((input) => placed(input)[1]),
    labels: integers.map(([, shape, values]) => tf.tensor(values, shape, "int32")),
  };
}

function training(spec: Spec, sizes: MlpSizes | LeNetSizes): Omit<Peer, "versions"> {
  const { optimizer } = spec;
  if (optimizer?.kind !== "sgd") throw new Error(`${sizes.kind} is trained by ${optimizer?.kind} here`);
  const start = (dropout: boolean): (() => number) => {
    const { params: read_, inputs, labels } = read(spec, sizes);
    const params = new Map([...read_].map(([name, value]) => [name, tf.variable(value)]));
    const classes = sizes.kind === "mlp" ? (sizes.widths.at(-1) as number) : sizes.classes;
    const wanted = tf.cast(tf.oneHot(labels[0] as TfTensor, classes), "float32");
    const update = tf.train.momentum(optimizer.learningRate, optimizer.momentum, optimizer.nesterov);
    const loss = (): TfTensor =>
      forward(sizes, params, inputs[0] as TfTensor, dropout)
        .logSoftmax()
        .mul(wanted)
        .sum(-1)
        .mean()
        .neg();
    return () => {
      const cost = update.minimize(loss, true, [...params.values()]);
      const [value] = cost.dataSync() as unknown as [number];
      cost.dispose();
      return value;
    };
  };
  let step: (() => number) | undefined;
  return {
    async check() {
      const next = start(false);
      return [next(), next(), next()];
    },
    steps: (count) =>
      timed(count, 1, () => {
        step ??= start(true);
        const value = step();
        return () => value;
      }),
  };
}

/** What is not trained: its result is read, except of a product, which is done when the call returns. */
function evaluation(spec: Spec, sizes: InferSizes | GemmSizes): Omit<Peer, "versions"> {
  const { params, inputs } = read(spec, sizes.kind === "infer" ? sizes.network : sizes);
  const [x, other] = inputs as [TfTensor, TfTensor];
  const run =
    sizes.kind === "infer" ? () => tf.tidy(() => forward(sizes.network, params, x, false)) : () => tf.matMul(x, other);
  return {
    async check() {
      const values = run().dataSync();
      return sizes.kind === "infer" ? Array.from(values) : [digest(values)];
    },
    steps: (count) =>
      timed(count, 1, () => {
        const y = run();
        const value = sizes.kind === "infer" ? (y.dataSync()[0] as number) : 0;
        y.dispose();
        return () => value;
      }),
  };
}

const { sizes } = spec;
const peer =
  sizes.kind === "infer" || sizes.kind === "gemm"
    ? evaluation(spec, sizes)
    : training(spec, sizes as MlpSizes | LeNetSizes);
await serve(spec, { ...peer, versions: { tfjs: `${tf.version_core} (wasm)` } });
process.exit(0);
