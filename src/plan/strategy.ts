/** @module Which ways of splitting an op over one mesh axis are legal: derived from its index equation and linearity. */
import type { Equation } from "../ir/equation.ts";
import { isAbsent, type Node } from "../ir/node.ts";
import { formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import { flopsOf } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";
import type { Hints, Strategy } from "./decision.ts";
import { localType, type Placement, partial, replicate, shard } from "./layout.ts";
import type { MeshAxis } from "./mesh.ts";
import { type Sizes, sizesOn } from "./partition.ts";
import { splitWindows } from "./window.ts";

/** The state of planning one node, axis by axis: its types on one device after the axes so far. */
export class AxisWalk {
  private readonly node: Pick<Node, "op" | "attrs">;
  inputs: readonly TensorType[];
  outputs: readonly TensorType[];
  /** Dims that an earlier axis has split unevenly, or into windows: no other axis may split them. */
  private readonly closed: { readonly inputs: Set<number>[]; readonly outputs: Set<number>[] };

  constructor(node: Pick<Node, "op" | "attrs" | "inputs" | "types">) {
    this.node = node;
    this.inputs = node.inputs.map((input) => input.types[0] as TensorType);
    this.outputs = node.types;
    this.closed = { inputs: this.inputs.map(() => new Set()), outputs: this.outputs.map(() => new Set()) };
  }

  /** The legal strategies over an axis; the first one replicates everything. */
  strategies(axis: MeshAxis, hints: Hints): Strategy[] {
    return strategiesOf(this.node, this.inputs, this.outputs, axis, hints).filter((strategy) =>
      (["inputs", "outputs"] as const).every((side) =>
        strategy[side].every(
          (placement, index) => placement.kind !== "shard" || this.closed[side][index]?.has(placement.dim) !== true,
        ),
      ),
    );
  }

  /** Applies a strategy and goes on to the next axis. */
  take(strategy: Strategy, axis: MeshAxis): void {
    for (const side of ["inputs", "outputs"] as const) {
      this[side] = this[side].map((type, index) => {
        const placement = strategy[side][index] as Placement;
        if (placement.kind === "shard" && placement.sizes !== undefined) this.closed[side][index]?.add(placement.dim);
        return localType(type, [placement], { axes: [axis] });
      });
    }
    for (const { side, operand, dim, wanted } of strategy.windows ?? []) {
      const key = side === "input" ? "inputs" : "outputs";
      this.closed[key][operand]?.add(dim);
      if (side === "output") continue;
      const size = Math.max(...wanted.map(([from, to]) => to - from));
      this.inputs = this.inputs.map((type, index) =>
        index === operand
          ? { ...type, shape: type.shape.map((old, position) => (position === dim ? size : old)) }
          : type,
      );
    }
  }
}

/** The legal strategies of a node over an axis, from its types on one device so far. The first one replicates everything. */
export function strategiesOf(
  node: Pick<Node, "op" | "attrs">,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  axis: MeshAxis,
  hints: Hints = { inputs: [], outputs: [] },
): Strategy[] {
  const { equation } = node.op;
  const instance = isAbsent(equation) ? undefined : equation(inputs, node.attrs);
  const all: Strategy[] = [
    { inputs: inputs.map(() => replicate), outputs: outputs.map(() => replicate), letter: undefined },
    ...(instance === undefined ? [] : splitLetters(instance, inputs, outputs, axis, hints)),
    ...(instance === undefined ? [] : splitWindows(instance, inputs, outputs, axis, hints)),
    ...passPartials(node, inputs, outputs),
  ];
  if (instance?.fixed?.has(axis.name) === true) return fixedOf(all, instance.fixed.get(axis.name), inputs, axis);
  const waits = instance?.waits ?? [];
  if (waits.length === 0) return all;
  return all
    .filter(({ inputs: wanted }) => waits.every((index) => wanted[index]?.kind === "replicate"))
    .map((strategy) => ({
      ...strategy,
      inputs: strategy.inputs.map((placement, index) =>
        waits.includes(index) ? (hints.inputs[index] ?? placement) : placement,
      ),
    }));
}

/** The strategy that splits a letter, or none. @throws HeddleError `layout` */
function fixedOf(all: readonly Strategy[], letter: string | undefined, types: readonly TensorType[], axis: MeshAxis) {
  const fixed = all.filter((one) => one.letter === letter && one.outputs[0]?.kind !== "partial");
  if (fixed.length > 0) return fixed;
  const { name, size } = axis;
  throw new HeddleError("layout", `${formatType(types[0] as TensorType)} does not split over ${name}=${size} as asked`);
}

/** Inputs of a node that are only waited for: they keep their layout. */
export const waitsOf = ({ op: { equation }, attrs, inputs }: Node): readonly number[] =>
  isAbsent(equation) ? [] : (equation(inputs, attrs).waits ?? []);

function splitLetters(
  equation: Equation,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  axis: MeshAxis,
  hints: Hints,
): Strategy[] {
  const letters = new Set([...equation.inputs.flat(), ...equation.outputs.flat()]);
  const result: Strategy[] = [];
  for (const letter of letters) {
    const counted = equation.counts?.letter === letter && equation.counts.axis === axis.name;
    if (equation.whole.has(letter) && !counted) continue;
    const sides = [
      { operands: equation.inputs, types: inputs, hints: hints.inputs, without: counted ? partial("sum") : replicate },
      { operands: equation.outputs, types: outputs, hints: hints.outputs, without: partial(equation.reduction) },
    ];
    const shares = sides.flatMap((side) =>
      side.operands.flatMap((operand, index): (readonly number[])[] => {
        const hint = side.hints[index];
        return hint?.kind === "shard" && hint.sizes !== undefined && operand[hint.dim] === letter ? [hint.sizes] : [];
      }),
    );
    for (const sizes of distinct([undefined, ...shares])) {
      const [splitInputs, splitOutputs] = sides.map(({ operands, types, without }) =>
        operands.map((operand, index) => {
          const dim = operand.indexOf(letter);
          if (dim < 0) return without;
          const scaled = scaledTo(types[index]?.shape[dim] as number, sizes, axis.size);
          return scaled === undefined ? undefined : shard(dim, scaled);
        }),
      ) as [(Placement | undefined)[], (Placement | undefined)[]];
      if ([...splitInputs, ...splitOutputs].includes(undefined)) continue;
      result.push({
        inputs: splitInputs as Placement[],
        outputs: splitOutputs as Placement[],
        letter,
        ...(sizes === undefined ? {} : { sizes }),
      });
    }
  }
  return result;
}

const distinct = (list: readonly Sizes[]): Sizes[] => [
  ...new Map(list.map((sizes) => [sizes === undefined ? "" : sizes.join(), sizes])).values(),
];

/** Scales sizes to a dim of `length`; undefined where the results are not whole numbers. */
function scaledTo(length: number, sizes: Sizes, parts: number): readonly number[] | undefined {
  if (sizes === undefined) return length % parts === 0 ? sizesOn(undefined, length, parts) : undefined;
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const scaled = sizes.map((size) => (size * length) / total);
  return scaled.every(Number.isInteger) ? scaled : undefined;
}

/** The sets of inputs in which a node is jointly linear. */
export const linearSets = ({ op: { linear }, attrs }: Pick<Node, "op" | "attrs">, inputs: readonly TensorType[]) =>
  typeof linear === "function" ? linear(attrs, inputs) : linear;

/** Sums may pass through a linear op: contributions in, contributions out. */
function passPartials(
  node: Pick<Node, "op" | "attrs">,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
): Strategy[] {
  return linearSets(node, inputs).map((set) => ({
    inputs: inputs.map((_type, index) => (set.includes(index) ? partial("sum") : replicate)),
    outputs: outputs.map(() => partial("sum")),
    letter: undefined,
  }));
}

/** Whether contributions go through a cast to the dtype that is computed in: there their sum rounds less. */
export const castsContributions = (node: Node, { inputs }: Strategy): boolean =>
  inputs.some((placement, index) => placement.kind === "partial" && node.inputs[index]?.dtype !== node.dtype);

/**
 * Whether an op is cheap, with at most 32 operations per element of its result: its parts are then computed again rather than
 * taken from the whole or sent, and it follows the layout that is requested of its result.
 */
export const isCheap = (node: Pick<Node, "op" | "attrs" | "inputs" | "types" | "shape">): boolean =>
  flopsOf(node) <= 32 * sizeOf(node.shape);
