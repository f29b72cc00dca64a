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

/** The inputs. @throws HeddleError `dtype` unless there are some, of one dtype: they travel as one message. */
function ofOneDType(name: string, inputs: readonly TensorType[]): readonly TensorType[] {
  if (inputs.length > 0 && inputs.every(({ dtype }) => dtype === inputs[0]?.dtype)) return inputs;
  throw new HeddleError("dtype", `${name}: inputs must be of one dtype, got ${inputs.map(formatType).join(", ")}`);
}

/** The meaning of a collective of several inputs, each of which travels as if alone. */
const eachApart =
  <A>(one: (contributions: readonly HostTensor[], attrs: A) => HostTensor[]) =>
  (contributions: readonly (readonly HostTensor[])[], [attrs]: readonly A[]): HostTensor[][] => {
    const results = (contributions[0] ?? []).map((_first, index) =>
      one(
        contributions.map((inputs) => inputs[index] as HostTensor),
        attrs as A,
      ),
    );
    return contributions.map((_inputs, member) => results.map((of) => of[member] as HostTensor));
  };

const copyOf = (tensor: HostTensor): HostTensor => ({ ...tensor, data: tensor.data.slice() });

/** The call of a collective: each input with its output. */
const collectiveCall = (
  { at, attrs: { axis, label }, axisIndex }: KernelContext<CollectiveAttrs>,
  op: Parameters<typeof kernels.collective.call>[0]["op"],
  inputs: readonly View[],
  outputs: readonly View[],
  reduction: Reduction = "sum",
): KernelCall =>
  kernels.collective.call({
    op,
    axis: axisIndex(axis),
    reduction,
    dtype: (inputs[0] as View).dtype,
    parts: inputs.map((from, index) => ({ in: at(from), out: at(outputs[index] as View), count: sizeOf(from.shape) })),
    label,
  });

defineCollective<CollectiveAttrs & { reduction: Reduction }>({
  name: "allReduce",
  doc: "Combines the inputs of all devices of an axis; every device gets the results. Several inputs of one dtype travel as one bucket.",
  infer: (inputs) => ofOneDType("allReduce", inputs),
  gradient: sentBack("allReduce"),
  cost: (inputs) => inputs.reduce((total, input) => total + sizeOf(input.shape), 0),
  communication: {
    traffic: ring(2, (parts) => 1 / parts),
    runtime: "allReduce",
    received: (count) => count,
    bucket: ({ axis, reduction }) => `${axis} ${reduction}`,
    meaning: eachApart((contributions, { reduction }) => {
      const result = reduced(contributions, reduction);
      return contributions.map(() => copyOf(result));
    }),
  },
  form: movingKernel,
  lower: {
    inPlace: "each",
    emit: (context) => [collectiveCall(context, "allReduce", context.inputs, context.outputs, context.attrs.reduction)],
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
  doc: "Joins the inputs of all devices of an axis along a dim, in order of their coordinates; every device gets the result. Several inputs of one dtype travel as one bucket.",
  infer: (inputs, { dim, parts }) =>
    ofOneDType("allGather", inputs).map((input) => {
      checkDim("allGather", input, dim, 1);
      return { dtype: input.dtype, shape: scaled(input.shape, dim, parts) };
    }),
  gradient: sentBack("reduceScatter", (attrs) => ({ ...attrs, reduction: "sum" })),
  cost: () => 0,
  communication: {
    traffic: ring(1, () => 1),
    runtime: "allGather",
    received: (count, parts) => count * parts,
    bucket: ({ axis, dim }) => `${axis} ${dim}`,
    meaning: eachApart((contributions, { dim }) => {
      const result = joined(contributions, dim);
      return contributions.map(() => copyOf(result));
    }),
  },
  form: movingKernel,
  lower: {
    emit: (context) => {
      const { dim, parts } = context.attrs;
      const copies: KernelCall[] = [];
      const gathered = context.inputs.map((input, index): View => {
        const out = context.outputs[index] as View;
        if (sizeOf(out.shape.slice(0, dim)) === 1) return { ...out, shape: [sizeOf(out.shape)], strides: [1] };
        const apart = context.temporary({ dtype: out.dtype, shape: [parts, ...input.shape] });
        copies.push(copyCall(context, apart, partsFirst(out, dim, parts)));
        return apart;
      });
      return [collectiveCall(context, "allGather", context.inputs, gathered), ...copies];
    },
  },
});

defineCollective<CollectiveAttrs & { dim: number; reduction: Reduction }>({
  name: "reduceScatter",
  doc: "Combines the inputs of all devices of an axis; each gets its part of the result along a dim. Several inputs of one dtype travel as one bucket.",
  infer: (inputs, { dim, parts }) =>
    ofOneDType("reduceScatter", inputs).map((input) => {
      checkDim("reduceScatter", input, dim, parts);
      return { dtype: input.dtype, shape: scaled(input.shape, dim, 1 / parts) };
    }),
  gradient: sentBack("allGather", ({ axis, parts, label, dim }) => ({ axis, parts, label, dim })),
  cost: (inputs) => inputs.reduce((total, input) => total + sizeOf(input.shape), 0),
  communication: {
    traffic: ring(1, (parts) => 1 / parts),
    runtime: "reduceScatter",
    received: (count, parts) => count / parts,
    bucket: ({ axis, dim, reduction }) => `${axis} ${dim} ${reduction}`,
    meaning: eachApart((contributions, { dim, reduction, parts }) =>
      blocks(reduced(contributions, reduction), dim, parts),
    ),
  },
  form: movingKernel,
  lower: {
    emit: (context) => {
      const { dim, parts, reduction } = context.attrs;
      const sent = context.inputs.map((input) => context.contiguous(partsFirst(input, dim, parts)));
      const views = sent.map(({ view }) => view);
      const call = collectiveCall(context, "reduceScatter", views, context.outputs, reduction);
      return [...sent.flatMap(({ calls }) => calls), call];
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
    bucket: absent("the receiver joins the parts along a dim"),
    meaning: eachApart((contributions, { from, to, parts }) => {
      const sent = contributions.map((tensor) => blocks(tensor, to, parts));
      return range(parts).map((member) =>
        joined(
          sent.map((pieces) => pieces[member] as HostTensor),
          from,
        ),
      );
    }),
  },
  form: movingKernel,
  lower: {
    emit: (context) => {
      const [input, out] = [context.inputs[0] as View, context.outputs[0] as View];
      const { from, to, parts } = context.attrs;
      const sent = context.contiguous(partsFirst(input, to, parts));
      const received = context.temporary({ dtype: out.dtype, shape: sent.view.shape });
      return [
        ...sent.calls,
        collectiveCall(context, "allToAll", [sent.view], [received]),
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
