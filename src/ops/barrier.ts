/** @module Optimization barriers: nodes that use the result are not merged with nodes that use the input. */
import { equationOf, letters } from "../ir/equation.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import type { TensorType } from "../ir/shape.ts";
import { range } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { f32, moves } from "./movement.ts";

defineOp<Record<string, never>>({
  name: "optimizationBarrier",
  doc: "The first input, unchanged. No rewrite looks through the op, and nothing that uses the result runs before the other inputs are computed.",
  example: { inputs: [f32([2], [1, 2]), f32([], [3])], attrs: {}, outputs: [f32([2], [1, 2])] },
  infer: ([first]) => {
    if (first === undefined) throw new HeddleError("op", "optimizationBarrier: takes at least one input, got none");
    return first;
  },
  equation: (inputs) => {
    const [first, ...rest] = inputs as [TensorType, ...TensorType[]];
    const dims = letters(first.shape.length);
    const others = rest.map((type, index) => letters(type.shape.length, `w${index}_`));
    return equationOf([dims, ...others], [dims], { waits: range(rest.length).map((index) => index + 1) });
  },
  linear: [[0]],
  gradient: ({ cotangents }) => [cotangents[0]],
  batch: ({ inputs }) => {
    const [first, ...rest] = inputs.map(({ node }) => node) as [Node, ...Node[]];
    return [{ node: emit.barrier(first, rest), batched: inputs[0]?.batched === true }];
  },
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: ([x]) => [(x as HostTensor).data],
  form: { kind: "view", view: (input) => input },
});
