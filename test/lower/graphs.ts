/** @module Graphs that lowering is tested on: training steps and attention, built from ops alone. */
import { gradients } from "heddle/autodiff";
import {
  type DType,
  dtypes,
  type Graph,
  type HostTensor,
  type InputSpec,
  type Node,
  type Shape,
  sizeOf,
  type TensorType,
  traceGraph,
} from "heddle/ir";
import * as ops from "../support/nodes.ts";

/** A graph with what lowering it as a step needs. */
export interface TestGraph {
  readonly graph: Graph;
  readonly outputNames: readonly string[];
  readonly donated: readonly (number | undefined)[];
}

type Parameters = readonly InputSpec[];

/** A training step: parameters and velocities with momentum, then the batch; outputs are the new ones and the loss. */
export function trainingStep(
  name: string,
  parameters: Parameters,
  batch: Parameters,
  loss: (parameters: Node[], batch: Node[]) => Node,
): TestGraph {
  const velocities = parameters.map((one) => ({ ...one, name: `velocity.${one.name}` }));
  const count = parameters.length;
  const graph = traceGraph(name, [...parameters, ...velocities, ...batch], (...inputs) => {
    const weights = inputs.slice(0, count);
    const value = loss(weights, inputs.slice(2 * count));
    const grads = gradients(value, weights);
    const moved = grads.map((grad, index) => ops.add(ops.mul(inputs[count + index] as Node, 0.9), grad));
    const stepped = weights.map((weight, index) => ops.sub(weight, ops.mul(moved[index] as Node, 0.01)));
    return [...stepped, ...moved, value];
  });
  return {
    graph,
    outputNames: [...parameters.map((one) => one.name), ...velocities.map((one) => one.name), "loss"],
    donated: [...parameters.map((_one, index) => index), ...velocities.map((_one, index) => count + index), undefined],
  };
}

const spec = (name: string, dtype: DType, shape: Shape): InputSpec => ({ name, type: { dtype, shape } });

/** A perceptron with one hidden layer. */
export function mlpStep(
  dtype: DType = "f32",
  sizes: readonly [number, number, number, number] = [128, 784, 512, 10],
): TestGraph {
  const [batch, input, hidden, classes] = sizes;
  return trainingStep(
    "mlp",
    [
      spec("0.weight", dtype, [input, hidden]),
      spec("0.bias", dtype, [hidden]),
      spec("2.weight", dtype, [hidden, classes]),
      spec("2.bias", dtype, [classes]),
    ],
    [spec("x", dtype, [batch, input]), spec("label", "i32", [batch])],
    ([w0, b0, w1, b1], [x, label]) => {
      const first = ops.maximum(ops.add(ops.matmul(x as Node, w0 as Node), b0 as Node), 0);
      const logits = ops.add(ops.matmul(first, w1 as Node), b1 as Node);
      return ops.mean(ops.softmaxCrossEntropy(logits, label as Node));
    },
  );
}

function conv(x: Node, weight: Node, bias: Node, padding: number): Node {
  const y = ops.call("conv", [x, weight], {
    layout: "bf01,oi01->bf01",
    strides: [1, 1],
    padding: [
      [padding, padding],
      [padding, padding],
    ],
    inputDilation: [1, 1],
    kernelDilation: [1, 1],
  });
  return ops.add(y, ops.reshape(bias, [1, bias.shape[0] as number, 1, 1]));
}

const pool = (x: Node): Node =>
  ops.call("reduceWindow", [x], {
    op: "max",
    window: [1, 1, 2, 2],
    strides: [1, 1, 2, 2],
    padding: [
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
    ],
  });

/** LeNet as its users write it: NCHW, two convolutions with pooling, two linear layers. */
export function lenetStep(
  dtype: DType = "f32",
  batch = 128,
  size = 28,
  channels: readonly [number, number, number] = [32, 64, 512],
): TestGraph {
  const [c1, c2, hidden] = channels;
  const flat = c2 * (size / 4) ** 2;
  const shapes: readonly Shape[] = [
    [c1, 1, 5, 5],
    [c1],
    [c2, c1, 5, 5],
    [c2],
    [hidden, flat],
    [hidden],
    [10, hidden],
    [10],
  ];
  return trainingStep(
    "lenet",
    shapes.map((shape, index) =>
      spec(`${[0, 3, 7, 9][index >> 1]}.${index % 2 === 0 ? "weight" : "bias"}`, dtype, shape),
    ),
    [spec("x", dtype, [batch, 1, size, size]), spec("label", "i32", [batch])],
    ([w0, b0, w1, b1, w2, b2, w3, b3], [x, label]) => {
      const first = pool(ops.relu(conv(x as Node, w0 as Node, b0 as Node, 2)));
      const second = pool(ops.relu(conv(first, w1 as Node, b1 as Node, 2)));
      const rows = ops.reshape(second, [batch, flat]);
      const third = ops.relu(ops.add(ops.matmul(rows, ops.transpose(w2 as Node)), b2 as Node));
      const logits = ops.add(ops.matmul(third, ops.transpose(w3 as Node)), b3 as Node);
      return ops.mean(ops.softmaxCrossEntropy(logits, label as Node));
    },
  );
}

/** Self-attention over [batch, length, heads · width], with its gradients. */
export function attentionStep(
  dtype: DType = "f64",
  [batch, length, heads, width]: readonly [number, number, number, number] = [2, 5, 3, 4],
): TestGraph {
  const size = heads * width;
  return trainingStep(
    "attention",
    [spec("qkv", dtype, [size, 3 * size]), spec("out", dtype, [size, size])],
    [spec("x", dtype, [batch, length, size])],
    ([qkv, out], [x]) => {
      const split = ops.reshape(ops.matmul(x as Node, qkv as Node), [batch, length, 3, heads, width]);
      const part = (index: number): Node => {
        const one = ops.slice(split, [0, 0, index, 0, 0], [batch, length, index + 1, heads, width]);
        return ops.transpose(ops.reshape(one, [batch, length, heads, width]), [0, 2, 1, 3]);
      };
      const scores = ops.mul(ops.matmul(part(0), ops.transpose(part(1), [0, 1, 3, 2])), 1 / Math.sqrt(width));
      const mixed = ops.transpose(ops.matmul(ops.softmax(scores), part(2)), [0, 2, 1, 3]);
      const y = ops.add(ops.matmul(ops.reshape(mixed, [batch, length, size]), out as Node), x as Node);
      return ops.mean(ops.mul(y, ops.tanh(y)));
    },
  );
}

/** Deterministic values for an input: floats in (-1, 1), small integers. */
export function valuesFor(type: TensorType, seed: number): HostTensor {
  let state = (seed * 2654435761 + 1) >>> 0;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const float = dtypes[type.dtype].kind === "float";
  const data = dtypes[type.dtype]
    .create(sizeOf(type.shape))
    .map(() => (float ? next() * 2 - 1 : type.dtype === "bool" ? Math.round(next()) : Math.floor(next() * 3)));
  return { ...type, data } as HostTensor;
}

export const inputsFor = (graph: Graph): HostTensor[] =>
  graph.inputs.map((input, index) => valuesFor(input.types[0] as TensorType, index + 1));
