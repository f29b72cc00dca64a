/**
 * @module Values that travel from one device of a mesh axis to another. They are steps of programs, never nodes of
 * graphs: a device that sends and one that receives run different programs.
 */

import type { DType } from "../ir/dtype.ts";
import { movingKernel, type View } from "../ir/kernel.ts";
import { absent } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, sizeOf } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";

const step = absent("a step of a program, never a node of a graph");

/** `peer` is the other device's coordinate on the axis. */
export type SendAttrs = { axis: string; parts: number; peer: number; label: string };

/** The receiver states the dtype and shapes of the message; all its values have one dtype. */
export type ReceiveAttrs = SendAttrs & { dtype: DType; shapes: number[][] };

const common = {
  example: step,
  equation: step,
  linear: [],
  gradient: step,
  localize: step,
  batch: step,
  cost: () => 0,
  reference: step,
} as const;

function checkPeer(name: string, { peer, parts }: SendAttrs): void {
  if (Number.isInteger(peer) && peer >= 0 && peer < parts) return;
  throw new HeddleError("layout", `${name}: there is no device ${peer} on an axis of ${parts}`);
}

defineOp<SendAttrs>({
  ...common,
  name: "send",
  doc: "Sends its inputs, all of one dtype, to another device of a mesh axis as one message; it has no result.",
  infer: (inputs, attrs) => {
    checkPeer("send", attrs);
    const [first] = inputs;
    if (first === undefined || inputs.some(({ dtype }) => dtype !== first.dtype))
      throw new HeddleError("dtype", `send: inputs must be of one dtype, got ${inputs.map(formatType).join(", ")}`);
    return [];
  },
  form: movingKernel,
  lower: {
    emit: ({ attrs, inputs, at, axisIndex }) => [
      kernels.send.call({
        axis: axisIndex(attrs.axis),
        to: attrs.peer,
        dtype: (inputs[0] as View).dtype,
        parts: inputs.map((view) => ({ in: at(view), count: sizeOf(view.shape) })),
        label: attrs.label,
      }),
    ],
  },
});

defineOp<ReceiveAttrs>({
  ...common,
  name: "receive",
  doc: "Waits for the message of another device of a mesh axis; its results are the values in it.",
  infer: (_inputs, attrs) => {
    checkPeer("receive", attrs);
    return attrs.shapes.map((shape) => ({ dtype: attrs.dtype, shape }));
  },
  form: movingKernel,
  lower: {
    emit: ({ attrs, outputs, at, axisIndex }) => [
      kernels.receive.call({
        axis: axisIndex(attrs.axis),
        from: attrs.peer,
        dtype: attrs.dtype,
        parts: outputs.map((view) => ({ out: at(view), count: sizeOf(view.shape) })),
        label: attrs.label,
      }),
    ],
  },
});
