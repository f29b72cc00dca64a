/** @module Softmax and its cross-entropy with integer labels. */

import { isFloat } from "../../ir/dtype.ts";
import { equationOf, letters } from "../../ir/equation.ts";
import type { KernelContext, View } from "../../ir/kernel.ts";
import { absent, type HostTensor, type Node, type OpDef } from "../../ir/node.ts";
import { formatType, range, sameShape, sizeOf, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import * as kernels from "../../kernels/index.ts";
import { batchByEquation } from "../../ops/batch.ts";
import { defineComposite } from "../../ops/composite.ts";
import * as ops from "../../ops/index.ts";
import { f32 } from "../../ops/movement.ts";
import { inFloat32 } from "../../ops/wide.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import type { Fault } from "../../util/faults.ts";
import { logSumExpParts, softmaxNode } from "../nodes.ts";

function check(name: string, inputs: readonly TensorType[]): void {
  const [logits, labels] = inputs as [TensorType, TensorType];
  if (
    logits.shape.length === 0 ||
    !isFloat(logits.dtype) ||
    labels.dtype !== "i32" ||
    !sameShape(labels.shape, logits.shape.slice(0, -1))
  ) {
    throw new HeddleError(
      "shape",
      `${name}: needs float logits [rows…, classes] and i32 labels [rows…], got ${inputs.map(formatType).join(", ")}`,
    );
  }
}

const rowEquation =
  (operands: readonly ("rows" | "table")[], output: "rows" | "table") =>
  (inputs: readonly TensorType[]): ReturnType<typeof equationOf> => {
    const rows = letters((inputs[1] as TensorType).shape.length);
    const side = (kind: "rows" | "table"): string[] => (kind === "rows" ? rows : [...rows, "c"]);
    return equationOf(operands.map(side), [side(output)], { whole: ["c"] });
  };

/** Fields of the calls of both kernels. */
function rowFields({ inputs, outputs, at }: KernelContext<Record<string, never>>) {
  const [logits, labels] = inputs as [View, View];
  return {
    dtype: logits.dtype,
    rows: sizeOf(logits.shape.slice(0, -1)),
    cols: logits.shape.at(-1) as number,
    logits: at(logits),
    labels: at(labels),
    out: at(outputs[0] as View),
  };
}

const logits = f32([1, 2], [0, 0]);

function refusedLabel(name: string, { shape }: HostTensor, { data }: HostTensor): Fault | undefined {
  const classes = shape.at(-1) as number;
  const row = data.findIndex((label) => label < 0 || label >= classes);
  return row < 0 ? undefined : { kind: "label", by: name, index: data[row] as number, position: row, size: classes };
}

const labels: HostTensor = { dtype: "i32", shape: [1], data: Int32Array.of(1) };

const crossEntropyGradOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "softmaxCrossEntropyGrad",
  doc: "Gradient of softmaxCrossEntropy by the logits: (softmax(logits) - onehot(labels)) times dy of the row.",
  example: { inputs: [logits, labels, f32([1], [1])], attrs: {}, outputs: [f32([1, 2], [0.5, -0.5])] },
  check: (inputs) => check("softmaxCrossEntropyGrad", inputs),
  body: (inputs) => {
    const [, label] = inputs as [Node, Node];
    const wide = inFloat32([inputs[0] as Node, inputs[2] as Node], (x, dy) => {
      const column = ops.broadcastInDim(dy, x.shape, range(dy.shape.length));
      return ops.mul(ops.sub(softmaxNode(x), ops.oneHot(label, x.shape.at(-1) as number, x.dtype)), column);
    });
    return [wide];
  },
  equation: rowEquation(["table", "rows", "rows"], "table"),
  linear: [[2]],
  gradient: absent("its body is differentiated"),
  batch: batchByEquation(),
  refuse: ([x, label]) => refusedLabel("softmaxCrossEntropyGrad", x as HostTensor, label as HostTensor),
  form: { kind: "kernel" },
  lower: {
    emit: (context) => [
      kernels.softmaxCrossEntropyGrad.call({ ...rowFields(context), dy: context.at(context.inputs[2] as View) }),
    ],
  },
});

const crossEntropyOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "softmaxCrossEntropy",
  doc: "Per row, logSumExp(logits) - logits[label]: the cross-entropy of softmax(logits) with integer labels.",
  example: { inputs: [logits, labels], attrs: {}, outputs: [f32([1], [Math.log(2)])] },
  check: (inputs) => check("softmaxCrossEntropy", inputs),
  body: (inputs) => {
    const [logits, label] = inputs as [Node, Node];
    const wide = inFloat32([logits], (x) => {
      const { shift, log } = logSumExpParts(x, -1);
      const row = (column: Node): Node => ops.reshape(column, label.shape);
      return ops.sub(row(log), ops.sub(ops.gather(x, label, label.shape.length), row(shift)));
    });
    return [wide];
  },
  equation: rowEquation(["table", "rows"], "rows"),
  linear: [],
  gradient: ({ node, cotangents }) => [
    apply(crossEntropyGradOp, [...node.inputs, cotangents[0] as Node], {}),
    undefined,
  ],
  batch: batchByEquation(),
  refuse: ([x, label]) => refusedLabel("softmaxCrossEntropy", x as HostTensor, label as HostTensor),
  form: { kind: "kernel" },
  lower: { emit: (context) => [kernels.softmaxCrossEntropy.call(rowFields(context))] },
});

const softmaxCrossEntropyNode = (x: Node, label: Node): Node => apply(crossEntropyOp, [x, label], {});

/**
 * Cross-entropy per row of float logits [rows…, classes] with i32 labels [rows…].
 *
 * @throws HeddleError `shape` if logits and labels do not fit; `value`, when it runs, for a label outside [0, classes)
 */
export const softmaxCrossEntropy = (logits: Tensor, labels: Tensor): Tensor =>
  operate("softmaxCrossEntropy", softmaxCrossEntropyNode, [logits, labels]);
