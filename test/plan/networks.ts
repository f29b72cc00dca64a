/** Small networks as graphs, shared by the tests of the planner. */
import { gradients } from "../../src/autodiff/index.ts";
import {
  dtypes,
  type Graph,
  type HostTensor,
  inputSpecs,
  type Node,
  sizeOf,
  type TensorType,
  traceGraph,
} from "../../src/ir/index.ts";
import * as ops from "../support/nodes.ts";
import { randomFrom } from "../support/tensors.ts";

const f64 = (...shape: number[]): TensorType => ({ dtype: "f64", shape });
const i32 = (...shape: number[]): TensorType => ({ dtype: "i32", shape });
const key: TensorType = { dtype: "u32", shape: [2] };

const dense = (x: Node, weight: Node, bias: Node): Node =>
  ops.add(ops.dotGeneral(x, weight, { xBatch: [], yBatch: [], xContract: [1], yContract: [1] }), bias);

/** One step of gradient descent on a two-layer perceptron with dropout: loss, number correct, new parameters. */
export function mlpStep(batch = 8): Graph {
  const inputs = [
    { name: "x", type: f64(batch, 6) },
    { name: "y", type: i32(batch) },
    { name: "key", type: key },
    { name: "w1", type: f64(8, 6) },
    { name: "b1", type: f64(8) },
    { name: "w2", type: f64(4, 8) },
    { name: "b2", type: f64(4) },
  ];
  return traceGraph("mlp", inputs, (x, y, seed, ...params) => {
    const [w1, b1, w2, b2] = params as [Node, Node, Node, Node];
    const hidden = ops.relu(dense(x as Node, w1, b1));
    const keep = ops.lt(ops.randomBits(seed as Node, hidden.shape), ops.constant("u32", 2 ** 31));
    const dropped = ops.select(keep, ops.mul(hidden, 2), 0);
    const logits = dense(dropped, w2, b2);
    const loss = ops.mean(ops.softmaxCrossEntropy(logits, y as Node));
    const correct = ops.sum(ops.cast(ops.eq(ops.argMax(logits), y as Node), "i32"));
    const grads = gradients(loss, params);
    return [loss, correct, ...params.map((param, index) => ops.sub(param, ops.mul(grads[index] as Node, 0.1)))];
  });
}

/** Forward pass of two dense layers, for tensor parallelism. */
export function mlpForward(batch = 8): Graph {
  const inputs = [
    { name: "x", type: f64(batch, 6) },
    { name: "w1", type: f64(6, 8) },
    { name: "w2", type: f64(8, 4) },
  ];
  return traceGraph("forward", inputs, (x, w1, w2) => [
    ops.matmul(ops.relu(ops.matmul(x as Node, w1 as Node)), w2 as Node),
  ]);
}

/** Seeded values for the inputs of a graph; labels are of four classes. */
export function samples(graph: Graph): HostTensor[] {
  const random = randomFrom(11);
  return inputSpecs(graph).map(({ type }) => {
    const value = (): number =>
      type.dtype === "i32"
        ? Math.floor(random() * 4)
        : type.dtype === "u32"
          ? Math.floor(random() * 2 ** 32)
          : random() * 2 - 1;
    return { ...type, data: dtypes[type.dtype].create(Array.from({ length: sizeOf(type.shape) }, value)) };
  });
}
