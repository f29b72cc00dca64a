/** @module Heddle's peer for compiled functions that are not trained. */
import { distribute, losses, nn, type Tensor, valueAndGrad } from "heddle";
import { replicated } from "heddle/plan";
import { compileFunction } from "heddle/tensor";
import type { ChainSizes, GemmSizes, ReduceOperation, ReduceSizes } from "../kinds/index.ts";
import { type Runtime, readTensors, timed } from "./heddle-data.ts";
import { digest, type Peer, type Spec } from "./link.ts";

type FunctionSizes = ChainSizes | GemmSizes | ReduceSizes;

/** Of the inputs that are floats, then those that are integers. */
type Compiled = (...inputs: Tensor[]) => Tensor[];

const norm = nn.layerNorm({ affine: false });

const reductions: Readonly<Record<ReduceOperation, Compiled>> = {
  softmax: (x) => [x!.softmax()],
  "layer-norm": (x) => [norm.apply({ params: {}, state: {} }, x!).y],
  sum: (x) => [x!.sum(1)],
  argmax: (x) => [x!.argMax(1)],
  "cross-entropy": (x, labels) => {
    const { value, grad } = valueAndGrad((logits: Tensor) => losses.softmaxCrossEntropy(logits, labels!))(x!);
    return [value, grad];
  },
};

function functionOf(sizes: FunctionSizes): Compiled {
  if (sizes.kind === "gemm") return (a, b) => [a!.matmul(b!)];
  if (sizes.kind === "reduce") return reductions[sizes.operation];
  return (a, b, c) => [a!.mul(b!).add(c!).sigmoid().mul(a!.tanh()).sub(b!.mul(0.5)).pow(2).add(1).sqrt()];
}

export function compiled(spec: Spec, runtime: Runtime): Peer {
  const whole = replicated({ axes: runtime.axes });
  const place = (values: Float32Array | Int32Array, shape: readonly number[]): Tensor =>
    distribute(runtime, values, { shape, dtype: values instanceof Float32Array ? "f32" : "i32" }, whole);
  const { inputs, integers } = readTensors(spec, place, place);
  const all = [...inputs, ...integers];
  const { kind } = spec.sizes;
  const compiledFunction = compileFunction(functionOf(spec.sizes as FunctionSizes), all, runtime, { name: kind });
  const { executable } = compiledFunction.compiled;
  const shards = runtime.local.map((_device, device) => all.map((input) => input.value.shards[device]!));
  return {
    versions: {},
    async check() {
      const results = compiledFunction.run(...all);
      return Promise.all(results.map(async (result) => digest(await result.data())));
    },
    steps: (count) =>
      timed(count, 2, () => {
        // Waits for the run itself: reading the result would copy all of it.
        const { outputs, done } = executable.run(shards);
        return async () => {
          await done;
          for (const list of outputs) for (const output of list) output.dispose();
          return 0;
        };
      }),
  };
}
