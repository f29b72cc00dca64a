/**
 * @module Communication between the devices of a mesh axis, as ops. The planner inserts them; their types are those of one
 * device.
 */

import type { CollectiveAttrs, Communication } from "../ir/communication.ts";
import type { Reduction } from "../ir/equation.ts";
import { type KernelCall, type KernelContext, movingKernel, type View } from "../ir/kernel.ts";
import {
  type Attrs,
  absent,
  type GradientContext,
  type HostTensor,
  type Node,
  type OpDef,
  type Split,
} from "../ir/node.ts";
import { defineOp, enter } from "../ir/op.ts";
import { bytesOf, formatType, range, type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { blocks, joined, reduced } from "./collective-host.ts";
import * as emit from "./emit.ts";
import { partOf, partStartOf } from "./local.ts";
import { copyCall } from "./movement.ts";

const planned = absent("appears in planned graphs only");
const local = absent("its types are those of one device already");

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
  form: { kind: "kernel" },
  lower: {
    emit: (context) => [
      kernels.axisIndex.call({
        axis: context.axisIndex(context.attrs.axis),
        out: context.at(context.outputs[0] as View),
      }),
    ],
  },
});

type CollectiveDef<A extends CollectiveAttrs> = Pick<
  OpDef<A>,
  "name" | "doc" | "infer" | "gradient" | "cost" | "form" | "lower"
> & { readonly communication: Communication<A> };

/** Defines an op that communicates. */
export function defineCollective<A extends CollectiveAttrs>(definition: CollectiveDef<A>): OpDef<A> {
  return enter<A>({
    ...definition,
    example: planned,
    equation: planned,
    linear: [],
    batch: absent("a collective is called for a whole batch at once: call it outside of vmap"),
    localize: local,
    reference: absent("needs all devices of the axis: the runtime carries it out"),
    body: absent("a primitive"),
    forward: planned,
    control: absent("owns no graphs"),
  });
}

/** The gradient of a sum or a move: the cotangents travel back by the collective `name`. */
export const sentBack =
  <A extends CollectiveAttrs>(name: string, attrsOf: (attrs: A, node: Node<A>) => Attrs = (attrs) => attrs) =>
  ({ node, cotangents }: GradientContext<A>): (Node | undefined)[] => {
    const { label, reduction = "sum" } = node.attrs as { label: string; reduction?: Reduction };
    const attrs = { ...attrsOf(node.attrs, node), label: `${label} gradient` };
    if (reduction === "sum") return cotangents.map((from) => from && emit.call(name, [from], attrs));
    throw new HeddleError("gradient", `${node.op.name}: the gradient of ${reduction} is not a collective`);
  };

const bytesOfAll = (inputs: readonly TensorType[]): number =>
  inputs.reduce((total, input) => total + bytesOf(input), 0);

/** Traffic of a ring: in each of `laps` laps a device sends `share` of its inputs `parts - 1` times. */
const ring =
  <A extends CollectiveAttrs>(laps: number, share: (parts: number) => number) =>
  (inputs: readonly TensorType[], { parts }: A) => ({
    rounds: laps * (parts - 1),
    bytes: laps * bytesOfAll(inputs) * share(parts) * (parts - 1),
  });

const unbucketed = absent("the receiver joins the parts along a dim");

/** The first input of each device. */
const firsts = (contributions: readonly (readonly HostTensor[])[]): HostTensor[] =>
  contributions.map(([first]) => first as HostTensor);

const copyOf = (tensor: HostTensor): HostTensor => ({ ...tensor, data: tensor.data.slice() });

function collectiveCall(
  context: KernelContext<CollectiveAttrs>,
  op: Parameters<typeof kernels.collective.call>[0]["op"],
  label: string,
  reduction: Reduction,
  pairs: readonly (readonly [View, View])[],
): KernelCall {
  const first = (pairs[0] as readonly [View, View])[0];
  return kernels.collective.call({
    op,
    axis: context.axisIndex(context.attrs.axis),
    reduction,
    dtype: first.dtype,
    parts: pairs.map(([from, to]) => ({ in: context.at(from), out: context.at(to), count: sizeOf(from.shape) })),
    label,
  });
}

defineCollective<CollectiveAttrs & { reduction: Reduction }>({
  name: "allReduce",
  doc: "Combines the inputs of all devices of an axis; every device gets the results. Several inputs of one dtype travel as one bucket.",
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
  gradient: sentBack("allReduce"),
  cost: (inputs) => inputs.reduce((total, input) => total + sizeOf(input.shape), 0),
  communication: {
    traffic: ring(2, (parts) => 1 / parts),
    runtime: "allReduce",
    received: (count) => count,
    bucket: ({ axis, reduction }) => `${axis} ${reduction}`,
    meaning: (contributions, [attrs]) => {
      const fromAll = (index: number) => contributions.map((inputs) => inputs[index] as HostTensor);
      const indices = range(contributions[0]?.length ?? 0);
      const results = indices.map((index) => reduced(fromAll(index), attrs?.reduction as Reduction));
      return contributions.map(() => results.map(copyOf));
    },
  },
  form: movingKernel,
  lower: {
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

defineCollective<CollectiveAttrs & { dim: number }>({
  name: "allGather",
  doc: "Joins the inputs of all devices of an axis along a dim, in order of their coordinates; every device gets the result.",
  infer: ([input], { dim, parts }) => {
    checkDim("allGather", input as TensorType, dim, 1);
    return { dtype: (input as TensorType).dtype, shape: scaled((input as TensorType).shape, dim, parts) };
  },
  gradient: sentBack("reduceScatter", (attrs) => ({ ...attrs, reduction: "sum" })),
  cost: () => 0,
  communication: {
    traffic: ring(1, () => 1),
    runtime: "allGather",
    received: (count, parts) => count * parts,
    bucket: unbucketed,
    meaning: (contributions, [attrs]) => {
      const result = joined(firsts(contributions), attrs?.dim as number);
      return contributions.map(() => [copyOf(result)]);
    },
  },
  form: movingKernel,
  lower: {
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

defineCollective<CollectiveAttrs & { dim: number; reduction: Reduction }>({
  name: "reduceScatter",
  doc: "Combines the inputs of all devices of an axis; each gets its part of the result along a dim.",
  infer: ([input], { dim, parts }) => {
    checkDim("reduceScatter", input as TensorType, dim, parts);
    return { dtype: (input as TensorType).dtype, shape: scaled((input as TensorType).shape, dim, 1 / parts) };
  },
  gradient: sentBack("allGather", ({ axis, parts, label, dim }) => ({ axis, parts, label, dim })),
  cost: ([input]) => sizeOf((input as TensorType).shape),
  communication: {
    traffic: ring(1, (parts) => 1 / parts),
    runtime: "reduceScatter",
    received: (count, parts) => count / parts,
    bucket: unbucketed,
    meaning: (contributions, [attrs]) => {
      const { dim, reduction, parts } = attrs as { dim: number; reduction: Reduction; parts: number };
      return blocks(reduced(firsts(contributions), reduction), dim, parts).map((block) => [block]);
    },
  },
  form: movingKernel,
  lower: {
    emit: (context) => {
      const [input, out] = [context.inputs[0] as View, context.outputs[0] as View];
      const { dim, parts, label, reduction } = context.attrs;
      const { view, calls } = context.contiguous(partsFirst(input, dim, parts));
      return [...calls, collectiveCall(context, "reduceScatter", label, reduction, [[view, out]])];
    },
  },
});

defineCollective<CollectiveAttrs & { from: number; to: number }>({
  name: "allToAll",
  doc: "Changes a split along dim `from` into a split along dim `to`: each device sends a part of `to` to every other device and joins the parts it receives along `from`.",
  infer: ([input], { from, to, parts }) => {
    checkDim("allToAll", input as TensorType, to, parts);
    checkDim("allToAll", input as TensorType, from, 1);
    return {
      dtype: (input as TensorType).dtype,
      shape: scaled(scaled((input as TensorType).shape, to, 1 / parts), from, parts),
    };
  },
  gradient: sentBack("allToAll", (attrs) => ({ ...attrs, from: attrs.to, to: attrs.from })),
  cost: () => 0,
  communication: {
    traffic: ring(1, (parts) => 1 / parts),
    runtime: "allToAll",
    received: (count) => count,
    bucket: unbucketed,
    meaning: (contributions, [attrs]) => {
      const { from, to, parts } = attrs as { from: number; to: number; parts: number };
      const sent = firsts(contributions).map((tensor) => blocks(tensor, to, parts));
      const sentTo = (member: number) => sent.map((pieces) => pieces[member] as HostTensor);
      return contributions.map((_inputs, member) => [joined(sentTo(member), from)]);
    },
  },
  form: movingKernel,
  lower: {
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
export function ownPart(x: Node, dim: number, split: Split): Node {
  const length = x.shape[dim] as number;
  const start = partStartOf(length, split);
  const zero = emit.constant("i32", 0);
  const starts = range(x.shape.length).map((index) => (index === dim ? start : zero));
  const sizes = x.shape.map((size, index) => (index === dim ? partOf(length, split) : size));
  return emit.call("dynamicSlice", [x, ...starts], { sizes });
}
