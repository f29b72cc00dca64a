/** @module A small convnet and its gradient as graphs, for tests of passes and plans. */
import { gradients } from "../../src/autodiff/index.ts";
import type { DType } from "../../src/ir/dtype.ts";
import { type InputSpec, traceGraph } from "../../src/ir/graph.ts";
import type { Graph, Node } from "../../src/ir/node.ts";
import { add, broadcastInDim, call, matmul, mean, relu, reshape, softmaxCrossEntropy, transpose } from "./nodes.ts";

export interface LeNetSizes {
  readonly batch: number;
  readonly side: number;
  readonly channels: readonly [number, number];
  readonly kernel: number;
  readonly classes: number;
  readonly dtype: DType;
}

export const smallLeNet: LeNetSizes = { batch: 4, side: 8, channels: [3, 4], kernel: 3, classes: 5, dtype: "f64" };

function convLayer(x: Node, weight: Node, bias: Node): Node {
  const pad = ((weight.shape[2] as number) - 1) / 2;
  const attrs = {
    layout: "bf01,oi01->bf01",
    strides: [1, 1],
    padding: [
      [pad, pad],
      [pad, pad],
    ],
    inputDilation: [1, 1],
    kernelDilation: [1, 1],
  };
  const y = call("conv", [x, weight], attrs);
  const active = relu(add(y, broadcastInDim(bias, y.shape, [1])));
  return call("reduceWindow", [active], {
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
}

function loss([x, labels, w1, b1, w2, b2, w3, b3]: readonly Node[]): Node {
  const y = convLayer(convLayer(x as Node, w1 as Node, b1 as Node), w2 as Node, b2 as Node);
  const flat = reshape(y, [y.shape[0] as number, -1]);
  const logits = add(matmul(flat, transpose(w3 as Node)), b3 as Node);
  return mean(softmaxCrossEntropy(logits, labels as Node));
}

function leNetInputs({ batch, side, channels: [c1, c2], kernel, classes, dtype }: LeNetSizes): InputSpec[] {
  const input = (name: string, ...shape: number[]): InputSpec => ({ name, type: { dtype, shape } });
  return [
    input("x", batch, 1, side, side),
    { name: "labels", type: { dtype: "i32", shape: [batch] } },
    input("w1", c1, 1, kernel, kernel),
    input("b1", c1),
    input("w2", c2, c1, kernel, kernel),
    input("b2", c2),
    input("w3", classes, c2 * (side / 4) ** 2),
    input("b3", classes),
  ];
}

/** conv, relu and max pool twice, flatten, linear, cross-entropy: channels first, as users write it. */
export const leNet = (sizes: LeNetSizes = smallLeNet): Graph =>
  traceGraph("leNet", leNetInputs(sizes), (...inputs) => [loss(inputs)]);

/** The loss and its gradients by the six parameters. */
export const leNetGradient = (sizes: LeNetSizes = smallLeNet): Graph =>
  traceGraph("leNetGradient", leNetInputs(sizes), (...inputs) => {
    const value = loss(inputs);
    return [value, ...gradients(value, inputs.slice(2))];
  });
