/** @module Graphs of one device in which collectives appear, as a plan ends in. */
import { gradients } from "heddle/autodiff";
import { apply, elementOp, type Graph, type Node, type Shape, traceGraph } from "heddle/ir";
import * as ops from "heddle/ops";

export const allReduce = (inputs: readonly Node[], axis: string, parts: number, label: string): Node[] => {
  const node = ops.call("allReduce", inputs, { axis, parts, reduction: "sum", label });
  return node.types.length === 1 ? [node] : node.types.map((_type, index) => apply(elementOp, [node], { index }));
};

/** A step of a deep linear network with the batch split over `data`: one bucket per layer. */
export function dataParallelStep(layers: number, size: number, batch: number, parts: number): Graph {
  const shapes: Shape[] = Array.from({ length: layers }, () => [size, size]);
  const specs = [...shapes, [batch / parts, size]].map((shape, index) => ({
    name: index < layers ? `w${index}` : "x",
    type: { dtype: "f64" as const, shape },
  }));
  return traceGraph("dataParallel", specs, (...inputs) => {
    const weights = inputs.slice(0, layers);
    const y = weights.reduce((value, weight) => ops.tanh(ops.matmul(value, weight)), inputs[layers] as Node);
    const loss = ops.div(ops.sum(ops.mul(y, y)), batch);
    const grads = gradients(loss, weights);
    const total = allReduce([loss], "data", parts, "loss")[0] as Node;
    const updated = weights.map((weight, index) => {
      const grad = allReduce([grads[index] as Node], "data", parts, `gradients ${layers - 1 - index}`)[0] as Node;
      return ops.sub(weight, ops.mul(grad, 0.1));
    });
    return [...updated, total];
  });
}

/** The same step on one device. */
export function wholeStep(layers: number, size: number, batch: number): Graph {
  return dataParallelStep(layers, size, batch, 1);
}

/** A bucket of two, a gather, a scatter and an exchange one after the other, without compute between. */
export function chain(parts: number): Graph {
  const specs = [
    { name: "x", type: { dtype: "f64" as const, shape: [4, 6] } },
    { name: "y", type: { dtype: "f64" as const, shape: [3] } },
  ];
  return traceGraph("chain", specs, (x, y) => {
    const [sum, other] = allReduce([x as Node, y as Node], "data", parts, "bucket") as [Node, Node];
    const gathered = ops.call("allGather", [sum], { axis: "data", parts, dim: 1, label: "gather" });
    const part = ops.call("reduceScatter", [gathered], {
      axis: "data",
      parts,
      dim: 0,
      reduction: "sum",
      label: "scatter",
    });
    const exchanged = ops.call("allToAll", [part], { axis: "model", parts, from: 0, to: 1, label: "exchange" });
    const index = ops.cast(ops.call("axisIndex", [], { axis: "data" }), "f64");
    return [ops.add(exchanged, 1), ops.mul(other, index)];
  });
}
