/** @module The two ops that compression adds: the contributions of devices to a sum, and a value that is whole on every device. */
import { equationOf, letters } from "../ir/equation.ts";
import { movingKernel } from "../ir/kernel.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { broadcastInDim, defineComposite, mul, reshape } from "../ops/index.ts";
import { dataAxis } from "../plan/mesh.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";

const byBody = absent("its body says how");

const dimsOf = (x: TensorType): string[] => letters(x.shape.length);

/**
 * The planner splits the new dim where the input is a sum that devices have not added up yet: each device then has its own
 * contribution, and nothing travels.
 */
const contributionsOp: OpDef<{ parts: number; axis?: string }> = defineComposite<{ parts: number; axis?: string }>({
  name: "contributions",
  doc: "Terms whose sum is the input, along a new dim 0: what each device of an axis of the mesh contributes to the input; of a value that all devices have, equal shares.",
  example: {
    inputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(2, 6) }],
    attrs: { parts: 2 },
    outputs: [{ dtype: "f32", shape: [2, 2], data: Float32Array.of(1, 3, 1, 3) }],
  },
  body: ([x], { parts }) => {
    const { shape } = x as Node;
    return [
      broadcastInDim(
        mul(x as Node, 1 / parts),
        [parts, ...shape],
        shape.map((_size, dim) => dim + 1),
      ),
    ];
  },
  equation: ([x], { axis = dataAxis }) => {
    const dims = dimsOf(x as TensorType);
    return equationOf([dims], [["n", ...dims]], { whole: ["n"], counts: { letter: "n", axis } });
  },
  // On other axes contributions pass through, and nothing needs the whole sum.
  linear: [[0]],
  gradient: absent("that of its body"),
  batch: byBody,
  form: movingKernel,
  lower: byBody,
  localize: ({ attrs, inputs, splits }) => {
    const [x] = inputs as [Node];
    return splits.some(({ outputs }) => outputs[0] === 0)
      ? reshape(x, [1, ...x.shape])
      : apply(contributionsOp, [x], attrs);
  },
});

/** What each of `parts` devices of a mesh axis contributes to a value: `[parts, …shape]`, terms whose sum is the value. */
export const contributions = (x: Tensor, parts: number, axis: string): Tensor =>
  operate(
    "contributions",
    (node: Node) => apply(contributionsOp, [node], axis === dataAxis ? { parts } : { parts, axis }),
    [x],
  );

/** No rule of the planner splits it, so its input travels here and not later, when it is larger. */
const wholeOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "wholeOnAll",
  doc: "The input, whole on every device: parts are gathered, and contributions added up, before anything uses them.",
  example: {
    inputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, 2) }],
    attrs: {},
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, 2) }],
  },
  body: ([x]) => [x as Node],
  equation: ([x]) =>
    equationOf([dimsOf(x as TensorType)], [dimsOf(x as TensorType)], { whole: dimsOf(x as TensorType) }),
  linear: [],
  gradient: absent("that of its body"),
  batch: byBody,
  form: movingKernel,
  lower: byBody,
});

/** A value whole on every device: what devices have of it travels now. */
export const wholeOnAll = (x: Tensor): Tensor => operate("wholeOnAll", (node: Node) => apply(wholeOp, [node], {}), [x]);
