/** @module From units of work to kernel calls whose addresses are still symbolic. */

import {
  denseOrder,
  isContiguous,
  type KernelCall,
  type KernelContext,
  type LowerRule,
  permuteView,
  type Ref,
  type ScalarInstruction,
  type View,
} from "../ir/kernel.ts";
import type { Attrs, Node } from "../ir/node.ts";
import { type Shape, stridesOf, type TensorType } from "../ir/shape.ts";
import { copyCall } from "../ops/structure.ts";
import { HeddleError } from "../util/errors.ts";
import { addressOf, isWhole, type Storage, type StoragePool, sameLayout } from "./storage.ts";
import { type RegionValues, ruleOf } from "./values.ts";

/** What emitting calls needs to know of the target. */
export interface EmitTarget {
  /** Scratch pieces given to kernels that run in parallel. */
  readonly slots: number;
  /** Index of a mesh axis. */
  readonly axisIndex: (axis: string) => number;
}

/** The calls of one unit, and which outputs may lie where an input lies. */
export interface EmittedCalls {
  readonly calls: readonly KernelCall[];
  readonly inPlace: readonly (readonly [input: Storage, output: Storage])[];
}

const copyContext = { at: addressOf };

/** A call that copies one view onto another. */
export function emitCopy(from: View, to: View): EmittedCalls {
  return { calls: [copyCall(copyContext, from, to)], inPlace: [] };
}

/** A call that writes a constant, or a count along a dim, to a view. */
export function emitGenerated(instruction: ScalarInstruction, to: View): EmittedCalls {
  const out = [{ at: addressOf(to), dtype: to.dtype, strides: to.strides, reg: 0 }];
  const ops = [[instruction.name, instruction.dtype, literal(instruction.literal as number)]];
  return { calls: [{ k: "fused", shape: to.shape, in: [], ops, out }], inPlace: [] };
}

/** Emits the calls of an op with kernels of its own. */
export function emitKernel(
  rule: LowerRule<Attrs> & { kind: "kernel" },
  attrs: Attrs,
  inputs: readonly View[],
  outputs: readonly View[],
  pool: StoragePool,
  target: EmitTarget,
): EmittedCalls {
  const before: KernelCall[] = [];
  const temporary = (type: TensorType): View => pool.tensor("temporary", type, "temporary");
  const contiguous = (view: View): { view: View; calls: readonly KernelCall[] } => {
    if (isContiguous(view)) return { view: { ...view, strides: stridesOf(view.shape) }, calls: [] };
    const copy = temporary(view);
    return { view: copy, calls: [copyCall(copyContext, view, copy)] };
  };
  const given = inputs.map((input, index) => {
    if (rule.strided?.includes(index) === true) return input;
    const made = contiguous(input);
    before.push(...made.calls);
    return made.view;
  });
  const context: KernelContext<Attrs> = {
    attrs,
    inputs: given,
    outputs,
    at: addressOf,
    scratch: (bytes) =>
      addressOf({
        origin: pool.make("scratch", bytes, "scratch"),
        offset: 0,
        dtype: "u8",
        shape: [bytes],
        strides: [1],
      }),
    temporary,
    contiguous,
    slots: target.slots,
    axisIndex: target.axisIndex,
  };
  return { calls: [...before, ...rule.emit(context)], inPlace: inPlacePairs(rule.inPlace, given, outputs) };
}

function inPlacePairs(
  inPlace: number | "each" | undefined,
  inputs: readonly View[],
  outputs: readonly View[],
): [Storage, Storage][] {
  const pairs: [Storage, Storage][] = [];
  outputs.forEach((output, index) => {
    const input =
      inPlace === "each" ? inputs[index] : index === 0 && inPlace !== undefined ? inputs[inPlace] : undefined;
    if (input !== undefined && isWhole(input) && sameLayout(input, output))
      pairs.push([input.origin as Storage, output.origin as Storage]);
  });
  return pairs;
}

interface FusedInput {
  readonly at: Ref;
  readonly dtype: string;
  readonly strides: readonly number[];
}

/** Emits one fused call for scalar nodes of one shape. `stored` are those whose values other units need. */
export function emitGroup(nodes: readonly Node[], values: RegionValues, stored: ReadonlySet<Storage>): EmittedCalls {
  const written = nodes.filter((node) => stored.has(values.storage(node)));
  // Dims are walked in the order in which results are stored, so that the innermost is without gaps.
  const order = denseOrder(values.view(written[0] ?? (nodes[0] as Node))) as number[];
  const builder = new GroupBuilder(nodes, values, order);
  const registers = new Map(nodes.map((node) => [node, builder.add(node)]));
  const offset = builder.inputs.length;
  const out = written.map((node) => {
    const { dtype, strides } = permuteView(values.view(node), order);
    return { at: addressOf(values.view(node)), dtype, strides, reg: offset + (registers.get(node) as number) };
  });
  return {
    calls: [{ k: "fused", shape: builder.shape, in: builder.inputs, ops: builder.instructions(), out }],
    inPlace: [],
  };
}

type Operand = { readonly input: number } | { readonly step: number };

class GroupBuilder {
  readonly inputs: FusedInput[] = [];
  private readonly steps: { readonly instruction: ScalarInstruction; readonly operands: readonly Operand[] }[] = [];
  private readonly keys = new Map<string, number>();
  private readonly members = new Map<Storage, number>();
  private readonly values: RegionValues;
  private readonly own: ReadonlySet<Storage>;
  private readonly order: readonly number[];
  /** The iteration space. */
  readonly shape: Shape;

  constructor(nodes: readonly Node[], values: RegionValues, order: readonly number[]) {
    this.values = values;
    this.order = order;
    this.own = new Set(nodes.map((node) => values.storage(node)));
    this.shape = order.map((dim) => nodes[0]?.shape[dim] as number);
  }

  /** Adds a node's instruction; returns its number among the instructions. */
  add(node: Node): number {
    const rule = ruleOf(node);
    if (rule.kind !== "scalar") throw new HeddleError("lower", `${node.op.name} is not a scalar op`);
    const operands = node.inputs.map((input) => this.operand(input));
    const instruction = rule.instruction(
      node.attrs,
      node.inputs.map((input) => input.types[0] as TensorType),
      node.types[0] as TensorType,
    );
    this.steps.push({ instruction: this.reordered(instruction), operands });
    this.members.set(this.values.storage(node), this.steps.length - 1);
    return this.steps.length - 1;
  }

  instructions(): (string | number)[][] {
    return this.steps.map(({ instruction, operands }) => [
      instruction.name,
      instruction.dtype,
      ...(instruction.literal === undefined ? [] : [literal(instruction.literal)]),
      ...operands.map((operand) => ("input" in operand ? operand.input : this.inputs.length + operand.step)),
    ]);
  }

  /** A count along a dim, with the dim's place in the iteration space. */
  private reordered(instruction: ScalarInstruction): ScalarInstruction {
    return instruction.name === "iota"
      ? { ...instruction, literal: this.order.indexOf(instruction.literal as number) }
      : instruction;
  }

  private operand(node: Node): Operand {
    const generator = this.values.generator(node);
    if (generator !== undefined) return { step: this.generate(this.reordered(generator)) };
    const storage = this.values.storage(node);
    if (this.own.has(storage)) return { step: this.members.get(storage) as number };
    const view = permuteView(this.values.view(node), this.order);
    const strides = view.strides.map((stride, dim) => (this.shape[dim] === 1 ? 0 : stride));
    const key = `${storage.id} ${view.offset} ${strides.join(" ")}`;
    const known = this.keys.get(key);
    if (known !== undefined) return { input: known };
    this.keys.set(key, this.inputs.length);
    this.inputs.push({ at: addressOf(view), dtype: view.dtype, strides: view.strides });
    return { input: this.inputs.length - 1 };
  }

  private generate(instruction: ScalarInstruction): number {
    const value = instruction.literal as number;
    const key = `${instruction.name} ${instruction.dtype} ${Object.is(value, -0) ? "-0" : value}`;
    const known = this.keys.get(key);
    if (known !== undefined) return known;
    this.steps.push({ instruction, operands: [] });
    this.keys.set(key, this.steps.length - 1);
    return this.steps.length - 1;
  }
}

/** A literal as JSON holds it. */
function literal(value: number): number | string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
