/**
 * Your own primitive op: `roll` moves elements along dim 0, and elements past the end to the front. Everything about it
 * is in one object; gradients, batches, tangents and kernels follow from its fields.
 *
 *     heddle run examples/extend/op.ts     # rolls, and its gradient, tangent and batch with it; 2 s
 */
import { grad, jvp, type Tensor, tensor, tensorFunction, vmap } from "heddle";
import {
  absent,
  apply,
  defineOp,
  equationOf,
  letters,
  type Node,
  type OpDef,
  type TensorType,
  type View,
} from "heddle/ir";
import * as ops from "heddle/ops";

const rollOp: OpDef<{ by: number }> = defineOp<{ by: number }>({
  name: "roll",
  doc: "Element i of dim 0 becomes element (i + by) mod size.",
  example: {
    inputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(1, 2, 3) }],
    attrs: { by: 1 },
    outputs: [{ dtype: "f32", shape: [3], data: Float32Array.of(3, 1, 2) }],
  },
  infer: ([x]) => x as TensorType,
  // Dim 0 stays whole; the others may be split over devices.
  equation: ([x]) => {
    const dims = letters((x as TensorType).shape.length);
    return equationOf([dims], [dims], { whole: dims.slice(0, 1) });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [apply(rollOp, [cotangents[0] as Node], { by: -(node.attrs.by as number) })],
  // The batch comes in front, so it changes places with dim 0 and back.
  batch: ({ node, inputs }) => {
    const x = ops.moveDim((inputs[0] as (typeof inputs)[number]).node, 0, 1);
    return [{ node: ops.moveDim(apply(rollOp, [x], node.attrs), 1, 0), batched: true }];
  },
  localize: absent("attributes hold no sizes"),
  cost: () => 0,
  reference: ([x], { by }) => {
    const { data, shape } = x as { data: Float32Array; shape: readonly number[] };
    const [rows, row] = [shape[0] as number, data.length / (shape[0] as number)];
    const rolled = data.slice();
    for (let at = 0; at < data.length; at++)
      rolled[(at + (((by % rows) + rows) % rows) * row) % data.length] = data[at] as number;
    return [rolled];
  },
  form: { kind: "kernel" },
  lower: {
    // Two copies, each a fused group without instructions.
    emit: ({ attrs, inputs, outputs, at }) => {
      const [from, to] = [inputs[0] as View, outputs[0] as View];
      const [rows, row] = [from.shape[0] as number, from.strides[0] as number];
      const shift = ((attrs.by % rows) + rows) % rows;
      const part = (view: View, start: number, size: number): View => ({
        ...view,
        offset: view.offset + start * row,
        shape: [size, ...view.shape.slice(1)],
      });
      return [[0, shift, rows - shift] as const, [rows - shift, 0, shift] as const].map(([source, target, size]) => {
        const [first, second] = [part(from, source, size), part(to, target, size)];
        const end = (view: View) => ({ at: at(view), dtype: view.dtype, strides: view.strides });
        return { k: "fused", shape: first.shape, in: [end(first)], ops: [], out: [{ ...end(second), reg: 0 }] };
      });
    },
  },
});

const roll = tensorFunction("roll", (x) => apply(rollOp, [x], { by: 1 }));

const x = tensor([1, 2, 3, 4]);
const weights = tensor([10, 20, 30, 40]);
const loss = (y: Tensor): Tensor => roll(y).mul(weights).sum();
console.log("rolled", [...(await roll(x).data())].join(" "));
console.log("gradient", [...(await grad(loss)(x).data())].join(" "));
console.log(
  "tangent",
  await jvp(loss, [x], [x])
    .tangent.data()
    .then(([value]) => value),
);
console.log(
  "batch",
  [
    ...(await vmap(roll)(
      tensor([
        [1, 2, 3],
        [4, 5, 6],
      ]),
    ).data()),
  ].join(" "),
);
