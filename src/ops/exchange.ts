/**
 * @module The collective in which devices hold or need different amounts: each sends slices of a dim to others and assembles
 * the slices that it receives. It serves halos, moves between uneven layouts, and gathering and scattering of uneven parts.
 */
import type { CollectiveAttrs } from "../ir/communication.ts";
import { dtypes, roundTo } from "../ir/dtype.ts";
import type { Reduction } from "../ir/equation.ts";
import type { KernelCall, KernelContext, View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { defineCollective, sentBack } from "./collective.ts";
import { combineRules, pieceOf } from "./collective-host.ts";
import { copyCall } from "./movement.ts";
import { combined, filled, partOfDim } from "./reduce-prod.ts";

/** `count` elements from `start` on, to or from a device. */
export type Piece = readonly [peer: number, start: number, count: number];

export type ExchangeAttrs = CollectiveAttrs & {
  /** Dim of the input along which pieces are cut. */
  take: number;
  /** Dim of the result along which they are put. */
  put: number;
  /** Shape of the result. */
  shape: Shape;
  /** In the order of the peers. */
  sends: readonly Piece[];
  /** In the order of the peers. Overlapping pieces are combined in this order; elements without a piece are 0. */
  receives: readonly Piece[];
  reduction: Reduction;
  /** Whether peers are counted from the device (-1 is the device before it) or are coordinates on the axis. */
  relative: boolean;
};

const total = (pieces: readonly Piece[]): number => pieces.reduce((sum, [, , count]) => sum + count, 0);

/** Elements along `take` that go to other devices. */
function sentElsewhere(input: TensorType, { sends, take, shape, relative }: ExchangeAttrs): number {
  if (relative) return total(sends.filter(([peer]) => peer !== 0));
  // A device keeps the part that it both has and wants: the smaller of the two sizes.
  return sends.length === 0 ? 0 : total(sends) - Math.min(input.shape[take] as number, shape[take] as number);
}

/** Whether every device gets the whole, as from an all-gather. */
const joinsAll = ({ take, put, shape, receives, relative }: ExchangeAttrs): boolean =>
  !relative && take === put && total(receives) === shape[put];

const resized = (shape: Shape, dim: number, size: number): number[] =>
  shape.map((old, index) => (index === dim ? size : old));

function inferExchange(inputs: readonly TensorType[], attrs: ExchangeAttrs): TensorType {
  const input = inputs[0] as TensorType;
  const { take, put, shape, sends, receives } = attrs;
  const inside = (pieces: readonly Piece[], size: number | undefined): boolean =>
    size !== undefined && pieces.every(([, start, count]) => start >= 0 && count >= 0 && start + count <= size);
  const others = (type: Shape): string => type.filter((_size, dim) => dim !== take && dim !== put).join();
  if (
    inputs.length !== 1 ||
    shape.length !== input.shape.length ||
    others(shape) !== others(input.shape) ||
    !inside(sends, input.shape[take]) ||
    !inside(receives, shape[put])
  )
    throw new HeddleError("shape", `exchange: the pieces do not lie in ${input.shape.join()} and ${shape.join()}`);
  return { dtype: input.dtype, shape };
}

function meaning(contributions: readonly (readonly HostTensor[])[], all: readonly ExchangeAttrs[]): HostTensor[][] {
  return contributions.map((_inputs, index) => {
    const { shape, put, receives, reduction, relative } = all[index] as ExchangeAttrs;
    const [{ dtype }] = contributions[index] as [HostTensor];
    const data = dtypes[dtype].create(sizeOf(shape));
    const filled = new Uint8Array(data.length);
    const inner = sizeOf(shape.slice(put + 1));
    const outer = sizeOf(shape.slice(0, put));
    for (const [peer, start, count] of receives) {
      const from = relative ? index + peer : peer;
      const sender = all[from] as ExchangeAttrs;
      const sent = sender.sends.find(([to]) => (sender.relative ? from + to : to) === index);
      if (sent?.[2] === undefined) throw new HeddleError("value", `exchange: device ${from} sends nothing to ${index}`);
      const piece = pieceOf(contributions[from]?.[0] as HostTensor, sender.take, sent[1], sent[2]);
      if (piece.shape[put] !== count)
        throw new HeddleError("value", `exchange: device ${from} sends ${piece.shape[put]} elements, ${count} are due`);
      for (let o = 0; o < outer; o++) {
        for (let i = 0; i < count * inner; i++) {
          const at = (o * (shape[put] as number) + start) * inner + i;
          const value = piece.data[o * count * inner + i] as number;
          const held = data[at] as number;
          data[at] = filled[at] === 0 ? value : roundTo(dtype, combineRules[reduction](held, value));
          filled[at] = 1;
        }
      }
    }
    return [{ dtype, shape, data }];
  });
}

const instructions = { sum: "add", max: "max", min: "min" } as const;

/** Cuts the dim wherever a piece begins or ends and combines the pieces of each stretch. */
function assemble(context: KernelContext<ExchangeAttrs>, out: View, views: readonly View[]): KernelCall[] {
  const { put, receives } = context.attrs;
  const size = out.shape[put] as number;
  const bounds = [...new Set([0, size, ...receives.flatMap(([, start, count]) => [start, start + count])])].sort(
    (a, b) => a - b,
  );
  return bounds.slice(0, -1).flatMap((from, index): KernelCall[] => {
    const length = (bounds[index + 1] as number) - from;
    const target = partOfDim(out, put, from, length);
    if (sizeOf(target.shape) === 0) return [];
    const covering = receives.flatMap(([, start, count], piece) =>
      start <= from && from + length <= start + count
        ? [partOfDim(views[piece] as View, put, from - start, length)]
        : [],
    );
    return covering.length === 0
      ? [filled(context, target, 0)]
      : combined(context, instructions[context.attrs.reduction], covering, target);
  });
}

/** Views of pieces that are packed one after another. */
function packed(flat: View, shapes: readonly Shape[]): View[] {
  let offset = flat.offset;
  return shapes.map((shape): View => {
    offset += sizeOf(shape);
    return { ...flat, offset: offset - sizeOf(shape), shape, strides: stridesOf(shape) };
  });
}

defineCollective<ExchangeAttrs>({
  name: "exchange",
  doc: "Each device of an axis sends slices of one dim to others and assembles along a dim what it receives; amounts may differ for each pair of devices.",
  infer: inferExchange,
  gradient: sentBack("exchange", ({ take, put, sends, receives, ...attrs }, { inputs }) => ({
    ...attrs,
    take: put,
    put: take,
    shape: (inputs[0] as Node).shape,
    sends: receives,
    receives: sends,
  })),
  cost: () => 0,
  communication: {
    traffic: ([input], attrs) => {
      const { shape } = input as TensorType;
      const row = sizeOf(resized(shape, attrs.take, 1)) * dtypes[(input as TensorType).dtype].bytes;
      return {
        rounds: attrs.relative ? 1 : attrs.parts - 1,
        bytes: row * sentElsewhere(input as TensorType, attrs),
      };
    },
    runtime: "exchange",
    received: (count, parts, attrs) => (attrs !== undefined && joinsAll(attrs) ? count * parts : count),
    bucket: absent("its pieces are put together along a dim"),
    meaning,
  },
  form: { kind: "kernel" },
  lower: {
    strided: [0],
    emit: (context) => {
      const { attrs } = context;
      const { take, put, sends, receives, relative } = attrs;
      const [input, out] = [context.inputs[0] as View, context.outputs[0] as View];
      // A piece that stays on its device is not sent.
      const travels = ([peer]: Piece): boolean => !relative || peer !== 0;
      const going = sends.filter(travels);
      const coming = receives.filter(travels);
      const sentShapes = going.map(([, , count]) => resized(input.shape, take, count));
      const gotShapes = coming.map(([, , count]) => resized(out.shape, put, count));
      const flat = (shapes: readonly Shape[]): View =>
        context.temporary({ dtype: out.dtype, shape: [shapes.reduce((sum, shape) => sum + sizeOf(shape), 0)] });
      const [sent, got] = [flat(sentShapes), flat(gotShapes)];
      const sentViews = packed(sent, sentShapes);
      const gotViews = packed(got, gotShapes);
      const views = receives.map((piece): View => {
        if (travels(piece)) return gotViews[coming.indexOf(piece)] as View;
        const own = sends.find(([peer]) => peer === 0) as Piece;
        return partOfDim(input, take, own[1], own[2]);
      });
      return [
        ...going.flatMap(([, start, count], index) =>
          sizeOf(sentShapes[index] as Shape) === 0
            ? []
            : [copyCall(context, partOfDim(input, take, start, count), sentViews[index] as View)],
        ),
        kernels.collective.call({
          op: "exchange",
          axis: context.axisIndex(attrs.axis),
          dtype: out.dtype,
          parts: [{ in: context.at(sent), out: context.at(got), count: sizeOf(sent.shape) }],
          label: attrs.label,
          sends: going.map(([peer], index) => [peer, sizeOf(sentShapes[index] as Shape)]),
          receives: coming.map(([peer], index) => [peer, sizeOf(gotShapes[index] as Shape)]),
          relative,
        }),
        ...assemble(context, out, views),
      ];
    },
  },
});
