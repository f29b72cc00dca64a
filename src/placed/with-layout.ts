/** @module The layout of a value within a function, where the user knows better than the planner. */
import { equationOf, letters } from "../ir/equation.ts";
import { movingKernel } from "../ir/kernel.ts";
import { absent, type Node, type OpDef } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { defineComposite } from "../ops/index.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { isTracing } from "../tensor/tracing.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord } from "../util/options.ts";
import { shown } from "../util/show.ts";

/** By the name of a mesh axis: the dim that is split over it; null: the value is whole on each of its devices. */
export interface AxisDims {
  readonly [axis: string]: number | null;
}

const placedOp: OpDef<{ dims: AxisDims }> = defineComposite<{ dims: AxisDims }>({
  name: "placed",
  doc: "The input, unchanged, split over mesh axes as `dims` says: a dim, or null for a value that is whole on all devices of the axis.",
  example: {
    inputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, 2) }],
    attrs: { dims: { data: 0 } },
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(1, 2) }],
  },
  body: ([x]) => [x as Node],
  equation: ([x], { dims }) => {
    const own = letters((x as TensorType).shape.length);
    const fixed = Object.entries(dims).map(([axis, dim]) => [axis, dim === null ? undefined : own[dim]] as const);
    return equationOf([own], [own], { fixed: new Map(fixed) });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [placed(cotangents[0] as Node, node.attrs["dims"] as AxisDims)],
  batch: ({ inputs, node: { attrs } }) =>
    inputs.map(({ node, batched }) => ({ node: placed(node, batched ? behind(attrs.dims) : attrs.dims), batched })),
  form: movingKernel,
  lower: absent("its body says how"),
  localize: ({ inputs: [x] }) => x as Node,
});

const placed = (x: Node, dims: AxisDims): Node => apply(placedOp, [x], { dims });

/** The dims of a value with one more dim in front. */
const behind = (dims: AxisDims): AxisDims =>
  Object.fromEntries(Object.entries(dims).map(([axis, dim]) => [axis, dim === null ? null : dim + 1]));

/**
 * The value itself, which a plan splits over mesh axes as asked, in place of what the planner would choose: in `jit`, `train` and compiled
 * functions alike, as `jax.lax.with_sharding_constraint` does. The gradient is split in the same way. Axes that are not named
 * are the planner's, and axes that the mesh does not have are passed over. A call that is not compiled returns the value.
 *
 * @param x any shape and dtype
 * @param dims by mesh axis: the dim that is split over it, counted from the end if negative, or null for a value that is whole on each device
 * @throws HeddleError `argument` for a dim that the value does not have; `layout`, when it is planned, for a dim that the axis does not divide
 *
 * @example const hidden = withLayout(x.matmul(w), { data: 0, model: 1 });
 */
export function withLayout(x: Tensor, dims: AxisDims): Tensor {
  checkTensor("withLayout", x);
  const rank = x.shape.length;
  const given = Object.entries(asRecord("withLayout", dims) as AxisDims).map(([axis, dim]) => {
    if (dim === null) return [axis, null] as const;
    if (Number.isInteger(dim) && dim >= -rank && dim < rank) return [axis, dim < 0 ? dim + rank : dim] as const;
    throw new HeddleError(
      "argument",
      `withLayout: axis '${axis}' takes a dim of the value of ${rank} dims, or null, got ${shown(dim)}`,
      { hint: "withLayout(x, { data: 0 }) splits dim 0 over the axis 'data'; null keeps the value whole there" },
    );
  });
  return isTracing() ? operate("withLayout", placed, [x], Object.fromEntries(given)) : x;
}
