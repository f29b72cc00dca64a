/** @module The ops `relu`, `stopGradient` and `refuseGradient`. */
import { pointwiseEquation } from "../ir/leaf.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import { apply } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";

defineComposite<Record<string, never>>({
  name: "relu",
  doc: "max(x, 0), of floats and integers; NaN stays. The gradient at 0 is 0, as in PyTorch.",
  example: {
    inputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(-1, 0, 2) }],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(0, 0, 2) }],
  },
  body: ([x]) => [emit.maximum(x as Node, 0)],
  equation: pointwiseEquation,
  linear: [],
  // The gradient follows from the result, so the input need not be kept for the backward pass.
  gradient: ({ node, cotangents }) => [emit.select(emit.le(node, 0), 0, cotangents[0] as Node)],
  batch: batchByEquation(),
  form: absent("its body is one instruction"),
});

defineComposite<Record<string, never>>({
  name: "stopGradient",
  doc: "x itself, as a constant: no derivative flows through it, in forward or reverse mode.",
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
  doc: "x itself; its derivative is an error with the message `why`.",
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
      hint: "wrap it in stopGradient(x) if it is a constant",
    });
  },
  batch: batchByEquation((attrs) => attrs),
  form: absent("its body is x"),
});

/** x itself; its derivative, in forward or reverse mode, is an error with the message `why`. */
export const refuseGradient = (x: Node, why: string): Node => apply(refuseGradientOp, [x], { why });
