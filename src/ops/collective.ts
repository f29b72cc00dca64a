/**
 * @module Communication between the devices of a mesh axis, as ops. They appear when a graph is planned; their types are
 * those of one device. Each has the gradient of the linear map it is.
 */

import type { Reduction } from "../ir/equation.ts";
import type { KernelCall, KernelContext, View } from "../ir/kernel.ts";
import { absent, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, range, type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { type HloBlock, hloCombine, hloTable } from "../ir/stablehlo.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { hloReductions } from "./hlo.ts";
import { copyCall } from "./structure.ts";

const planned = absent("appears in planned graphs only");
const together = absent("needs all devices of the axis: the runtime carries it out");
const local = absent("its types are those of one device already");

/** The devices of a mesh are the replicas of StableHLO. */
function hloGroups(hlo: HloBlock, axis: string) {
  const { groups, size } = hlo.surroundings.axis(axis);
  return { replica_groups: hloTable(groups, size) };
}

defineOp<{ axis: string }>({
  name: "axisIndex",
  doc: "This device's coordinate (i32) on a mesh axis.",
  example: planned,
  infer: () => ({ dtype: "i32", shape: [] }),
  equation: planned,
  linear: [],
  gradient: absent("has no inputs"),
  batch: absent("has no inputs"),
  localize: local,
  cost: () => 0,
  reference: (_inputs, { axis }, _outputs, context) => [Int32Array.of(context.coordinate(axis))],
  stablehlo: ({ hlo, outputs, attrs }) => {
    const { size, inner } = hlo.surroundings.axis(attrs.axis);
    const replica = hlo.one("replica_id", [], { shape: [], dtype: "u32" });
    const outer = hlo.same("divide", replica, hlo.like(replica, inner));
    const here = hlo.same("remainder", outer, hlo.like(replica, size));
    return hlo.op("convert", [here], outputs);
  },
  lower: {
    kind: "kernel",
    emit: (context) => [
      { k: "axisIndex", axis: context.axisIndex(context.attrs.axis), out: context.at(context.outputs[0] as View) },
    ],
  },
});

/** Fields of the ops that communicate; the planner recognises them by it. */
export type CollectiveAttrs = { axis: string; parts: number };

function collectiveCall(
  context: KernelContext<CollectiveAttrs>,
  op: string,
  label: string,
  reduction: Reduction,
  pairs: readonly (readonly [View, View])[],
): KernelCall {
  const first = (pairs[0] as readonly [View, View])[0];
  return {
    k: "collective",
    op,
    axis: context.axisIndex(context.attrs.axis),
    reduction,
    dtype: first.dtype,
    parts: pairs.map(([from, to]) => ({ in: context.at(from), out: context.at(to), count: sizeOf(from.shape) })),
    label,
  };
}

defineOp<CollectiveAttrs & { reduction: Reduction; label: string }>({
  name: "allReduce",
  doc: "Combines the inputs of all devices of an axis; every device gets the results. Several inputs of one dtype travel as one bucket.",
  example: planned,
  infer: (inputs) => {
    const dtype = inputs[0]?.dtype;
    if (inputs.length === 0 || inputs.some((input) => input.dtype !== dtype)) {
      throw new HeddleError(
        "dtype",
        `allReduce: inputs must be of one dtype, got ${inputs.map(formatType).join(", ")}`,
      );
    }
    return inputs;
  },
  equation: planned,
  linear: [],
  gradient: planned,
  batch: planned,
  localize: local,
  cost: (inputs) => inputs.reduce((total, input) => total + sizeOf(input.shape), 0),
  reference: together,
  stablehlo: ({ hlo, inputs, outputs, attrs }) =>
    inputs.map((input, index) =>
      hlo.one("all_reduce", [input], outputs[index] as TensorType, hloGroups(hlo, attrs.axis), [
        hloCombine(hloReductions[attrs.reduction], input.type.dtype),
      ]),
    ),
  lower: {
    kind: "kernel",
    inPlace: "each",
    emit: (context) => [
      collectiveCall(
        context,
        "allReduce",
        context.attrs.label,
        context.attrs.reduction,
        context.inputs.map((input, index) => [input, context.outputs[index] as View] as const),
      ),
    ],
  },
});

/** The view with `dim` split into `[parts, size / parts]` and `parts` moved to the front. */
function partsFirst(view: View, dim: number, parts: number): View {
  const shape = [...view.shape];
  const strides = [...view.strides];
  const size = (shape[dim] as number) / parts;
  shape[dim] = size;
  return { ...view, shape: [parts, ...shape], strides: [(strides[dim] as number) * size, ...strides] };
}

const scaled = (shape: Shape, dim: number, factor: number): number[] =>
  shape.map((size, index) => (index === dim ? size * factor : size));

function checkDim(name: string, input: TensorType, dim: number, parts: number): void {
  if (dim < 0 || dim >= input.shape.length || (input.shape[dim] as number) % parts !== 0) {
    throw new HeddleError("shape", `${name}: dim ${dim} of ${formatType(input)} does not split into ${parts}`);
  }
}

defineOp<CollectiveAttrs & { dim: number; label: string }>({
  name: "allGather",
  doc: "Joins the inputs of all devices of an axis along a dim, in order of their coordinates; every device gets the result.",
  example: planned,
  infer: ([input], { dim, parts }) => {
    checkDim("allGather", input as TensorType, dim, 1);
    return { dtype: (input as TensorType).dtype, shape: scaled((input as TensorType).shape, dim, parts) };
  },
  equation: planned,
  linear: [],
  gradient: planned,
  batch: planned,
  localize: local,
  cost: () => 0,
  reference: together,
  stablehlo: ({ hlo, inputs, outputs, attrs }) =>
    hlo.op("all_gather", inputs, outputs, { all_gather_dim: `${attrs.dim} : i64`, ...hloGroups(hlo, attrs.axis) }),
  lower: {
    kind: "kernel",
    emit: (context) => {
      const [input, out] = [context.inputs[0] as View, context.outputs[0] as View];
      const { dim, parts, label } = context.attrs;
      const blocks = { ...out, shape: [parts * sizeOf(input.shape)], strides: [1] };
      if (sizeOf(out.shape.slice(0, dim)) === 1)
        return [collectiveCall(context, "allGather", label, "sum", [[input, blocks]])];
      const gathered = context.temporary({ dtype: out.dtype, shape: [parts, ...input.shape] });
      return [
        collectiveCall(context, "allGather", label, "sum", [[input, gathered]]),
        copyCall(context, gathered, partsFirst(out, dim, parts)),
      ];
    },
  },
});

defineOp<CollectiveAttrs & { dim: number; reduction: Reduction; label: string }>({
  name: "reduceScatter",
  doc: "Combines the inputs of all devices of an axis; each gets its part of the result along a dim.",
  example: planned,
  infer: ([input], { dim, parts }) => {
    checkDim("reduceScatter", input as TensorType, dim, parts);
    return { dtype: (input as TensorType).dtype, shape: scaled((input as TensorType).shape, dim, 1 / parts) };
  },
  equation: planned,
  linear: [],
  gradient: planned,
  batch: planned,
  localize: local,
  cost: ([input]) => sizeOf((input as TensorType).shape),
  reference: together,
  stablehlo: ({ hlo, inputs, outputs, attrs }) => {
    const attributes = { scatter_dimension: `${attrs.dim} : i64`, ...hloGroups(hlo, attrs.axis) };
    const { dtype } = outputs[0] as TensorType;
    return hlo.op("reduce_scatter", inputs, outputs, attributes, [hloCombine(hloReductions[attrs.reduction], dtype)]);
  },
  lower: {
    kind: "kernel",
    emit: (context) => {
      const [input, out] = [context.inputs[0] as View, context.outputs[0] as View];
      const { dim, parts, label, reduction } = context.attrs;
      const { view, calls } = context.contiguous(partsFirst(input, dim, parts));
      return [...calls, collectiveCall(context, "reduceScatter", label, reduction, [[view, out]])];
    },
  },
});

defineOp<CollectiveAttrs & { from: number; to: number; label: string }>({
  name: "allToAll",
  doc: "From split along dim `from` to split along dim `to`: each device sends a part of `to` to each other and joins what it gets along `from`.",
  example: planned,
  infer: ([input], { from, to, parts }) => {
    checkDim("allToAll", input as TensorType, to, parts);
    checkDim("allToAll", input as TensorType, from, 1);
    return {
      dtype: (input as TensorType).dtype,
      shape: scaled(scaled((input as TensorType).shape, to, 1 / parts), from, parts),
    };
  },
  equation: planned,
  linear: [],
  gradient: planned,
  batch: planned,
  localize: local,
  cost: () => 0,
  reference: together,
  stablehlo: ({ hlo, inputs, outputs, attrs }) =>
    hlo.op("all_to_all", inputs, outputs, {
      split_dimension: `${attrs.to} : i64`,
      concat_dimension: `${attrs.from} : i64`,
      split_count: `${attrs.parts} : i64`,
      ...hloGroups(hlo, attrs.axis),
    }),
  lower: {
    kind: "kernel",
    emit: (context) => {
      const [input, out] = [context.inputs[0] as View, context.outputs[0] as View];
      const { from, to, parts, label } = context.attrs;
      const sent = context.contiguous(partsFirst(input, to, parts));
      const received = context.temporary({ dtype: out.dtype, shape: sent.view.shape });
      return [
        ...sent.calls,
        collectiveCall(context, "allToAll", label, "sum", [[sent.view, received]]),
        copyCall(context, received, partsFirst(out, from, parts)),
      ];
    },
  },
});

/** This device's part of a value that all devices of an axis hold. */
export function ownPart(x: Node, dim: number, axis: string, parts: number): Node {
  const size = (x.shape[dim] as number) / parts;
  const start = emit.mul(emit.call("axisIndex", [], { axis }), size);
  const zero = emit.constant("i32", 0);
  const starts = range(x.shape.length).map((index) => (index === dim ? start : zero));
  return emit.call("dynamicSlice", [x, ...starts], { sizes: scaled(x.shape, dim, 1 / parts) });
}
