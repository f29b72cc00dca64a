/** @module Activation functions that have a name of their own. */
import { pointwiseEquation } from "../ir/leaf.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import { apply } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";

const reluOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "relu",
  doc: "max(x, 0); NaN propagates. The gradient at 0 is 0, as in PyTorch.",
  example: {
    inputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(-1, 0, 2) }],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(0, 0, 2) }],
  },
  body: ([x]) => [emit.maximum(x as Node, 0)],
  equation: pointwiseEquation,
  linear: [],
  // By the result, so that the input need not be kept for the backward pass.
  gradient: ({ node, cotangents }) => [emit.select(emit.le(node, 0), 0, cotangents[0] as Node)],
  batch: batchByEquation(),
  form: absent("its body is one instruction"),
});

const stopGradientOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "stopGradient",
  doc: "x itself, which derivatives take for a constant.",
  example: {
    inputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, -2) }],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, -2) }],
  },
  body: ([x]) => [x as Node],
  equation: pointwiseEquation,
  linear: [],
  gradient: () => [undefined],
  batch: batchByEquation(),
  form: absent("its body is x"),
});

const refuseGradientOp: OpDef<{ why: string }> = defineComposite<{ why: string }>({
  name: "refuseGradient",
  doc: "x itself, of which a derivative is an error that says why there is none.",
  example: {
    inputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, -2) }],
    attrs: { why: "draws" },
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, -2) }],
  },
  body: ([x]) => [x as Node],
  equation: pointwiseEquation,
  linear: [],
  gradient: ({ node }) => {
    throw new HeddleError("gradient", String(node.attrs["why"]), {
      hint: "hold it by stopGradient(x), if it is to be a constant",
    });
  },
  batch: batchByEquation((attrs) => attrs),
  form: absent("its body is x"),
});

/** x, of which a derivative, in either mode, is an error with these words. */
export const refuseGradient = (x: Node, why: string): Node => apply(refuseGradientOp, [x], { why });

/** x as a constant: no derivative flows through it, in either mode. */
export const stopGradient = (x: Node): Node => apply(stopGradientOp, [x], {});

/** The larger of x and 0. */
export const relu = (x: Node): Node => apply(reluOp, [x], {});
