/** @module Emission of kernel calls, with symbolic addresses, from units of work. */

import { type DType, isFloat, isHalf, isLong } from "../ir/dtype.ts";
import {
  denseOrder,
  isContiguous,
  type KernelCall,
  type KernelContext,
  type LowerRule,
  movesElements,
  permuteView,
  type Ref,
  type ScalarInstruction,
  type View,
} from "../ir/kernel.ts";
import type { Attrs, Node } from "../ir/node.ts";
import { range, type Shape, sameShape, stridesOf, type TensorType } from "../ir/shape.ts";
import { fused, fusedColumns, fusedRows } from "../kernels/index.ts";
import { inverseOrder } from "../ops/host-arrays.ts";
import { castCall, copyCall } from "../ops/movement.ts";
import { HeddleError } from "../util/errors.ts";
import { foldOf } from "./fold.ts";
import { callShape, callStrides, type FoldSpace, keptStrides } from "./fold-space.ts";
import { addressOf, isWhole, type Storage, type StoragePool, sameLayout } from "./storage.ts";
import { formOf, type RegionValues } from "./values.ts";

/** The target, as far as emitting calls needs it. */
export interface EmitTarget {
  /** Number of scratch pieces for a kernel that runs in parallel. */
  readonly slots: number;
  /** Index of a mesh axis. */
  readonly axisIndex: (axis: string) => number;
}

/** The calls of one unit, and the pairs of an input and an output that may share memory. */
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
  const { name, dtype } = instruction;
  const value = literal(instruction.literal as number, dtype);
  // Counts are computed in f32 and rounded.
  const rounds = name === "iota" && isHalf(dtype);
  const ops = rounds
    ? [
        [name, "f32", value],
        ["cast", dtype, 0],
      ]
    : [[name, dtype, value]];
  const rounded = rounds ? out.map((result) => ({ ...result, reg: 1 })) : out;
  return { calls: [fused.call({ shape: to.shape, in: [], ops, out: rounded })], inPlace: [] };
}

/** Emits the calls of an op that has a kernel. */
export function emitKernel(
  { op, attrs }: Pick<Node, "op" | "attrs">,
  rule: LowerRule<Attrs>,
  inputs: readonly View[],
  outputs: readonly View[],
  pool: StoragePool,
  target: EmitTarget,
): EmittedCalls {
  const before: KernelCall[] = [];
  const temporary = (type: TensorType): View => pool.tensor("temporary", type, "temporary");
  const widened = (views: readonly View[]): readonly View[] =>
    views.map((view) => {
      if (!isHalf(view.dtype)) return view;
      // The copy keeps the storage order of the dims, for which the kernel was chosen.
      const order = denseOrder(view) ?? range(view.shape.length);
      const stored = temporary({ dtype: "f32", shape: order.map((dim) => view.shape[dim] as number) });
      return permuteView(stored, inverseOrder(order));
    });
  const contiguous = (view: View): { view: View; calls: readonly KernelCall[] } => {
    if (isContiguous(view)) return { view: { ...view, strides: stridesOf(view.shape) }, calls: [] };
    const copy = temporary(view);
    return { view: copy, calls: [copyCall(copyContext, view, copy)] };
  };
  const operands = inputs.map((input, index) => {
    if (rule.strided?.includes(index) === true) return input;
    const result = contiguous(input);
    before.push(...result.calls);
    return result.view;
  });
  const [wideInputs, wideOutputs] =
    movesElements(op.form, attrs) || rule.takesHalf?.(operands, attrs, outputs) === true
      ? [operands, outputs]
      : [widened(operands), widened(outputs)];
  operands.forEach((input, index) => {
    const wide = wideInputs[index] as View;
    if (wide !== input) before.push(castCall(copyContext, input, wide));
  });
  const after = outputs.flatMap((output, index) => {
    const wide = wideOutputs[index] as View;
    return wide === output ? [] : [castCall(copyContext, wide, output)];
  });
  const context: KernelContext<Attrs> = {
    attrs,
    inputs: wideInputs,
    outputs: wideOutputs,
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
  return {
    calls: [...before, ...rule.emit(context), ...after],
    inPlace: inPlacePairs(rule.inPlace, wideInputs, wideOutputs),
  };
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
    // An input that the call reads twice must not be overwritten.
    const readOnce = inputs.filter(({ origin }) => origin === input?.origin).length === 1;
    if (input !== undefined && readOnce && isWhole(input) && sameLayout(input, output))
      pairs.push([input.origin as Storage, output.origin as Storage]);
  });
  return pairs;
}

interface FusedInput {
  readonly at: Ref;
  readonly dtype: DType;
  readonly strides: readonly number[];
}

/** Emits one fused call for scalar nodes of one shape. `stored` has the storages of values that other units need. */
export function emitGroup(nodes: readonly Node[], values: RegionValues, stored: ReadonlySet<Storage>): EmittedCalls {
  const written = nodes.filter((node) => stored.has(values.storage(node)));
  // Dims are walked in the storage order of the results, so that the innermost dim is contiguous.
  const order = denseOrder(values.view(written[0] ?? (nodes[0] as Node))) as number[];
  const builder = new GroupBuilder(nodes, values, {
    shape: order.map((dim) => nodes[0]?.shape[dim] as number),
    strides: (view) => permuteView(view, order).strides,
    dim: (dim) => order.indexOf(dim),
  });
  return builder.call(fused, written, (node) => permuteView(values.view(node), order).strides);
}

/** Emits the call of a group that contains folds. */
export function emitFolded(
  nodes: readonly Node[],
  space: FoldSpace,
  values: RegionValues,
  stored: ReadonlySet<Storage>,
  pool: StoragePool,
): EmittedCalls {
  const hasWholeShape = ({ shape }: { readonly shape: Shape }): boolean => sameShape(shape, space.shape);
  const shape = callShape(space);
  const builder = new GroupBuilder(nodes, values, {
    shape,
    strides: (view) => (hasWholeShape(view) ? callStrides(view, space) : [...keptStrides(view, space), 0]),
    dim: () => shape.length - 1,
  });
  const written = nodes.filter((node) => stored.has(values.storage(node)));
  const strides = (node: Node): readonly number[] => {
    const view = values.view(node);
    return foldOf(node) === undefined && hasWholeShape(view) ? callStrides(view, space) : keptStrides(view, space);
  };
  if (space.form === "rows") return builder.call(fusedRows, written, strides);
  // Nothing in the call is computed from a column's fold, so a separate call rounds the fold.
  const casts: KernelCall[] = [];
  const wide = (node: Node): View | undefined => {
    const view = values.view(node);
    if (foldOf(node) === undefined || !isHalf(view.dtype)) return undefined;
    const wideView = { ...view, ...pool.tensor("temporary", { dtype: "f32", shape: view.shape }, "temporary") };
    const order = denseOrder(view) ?? range(view.shape.length);
    const shape = order.map((dim) => view.shape[dim] as number);
    const to = permuteView({ ...wideView, shape, strides: stridesOf(shape) }, inverseOrder(order));
    casts.push(castCall(copyContext, to, view));
    return to;
  };
  const emitted = builder.call(fusedColumns, written, strides, wide);
  return { ...emitted, calls: [...emitted.calls, ...casts] };
}

type Operand = { readonly input: number } | { readonly step: number };

/** The iteration space of a group, and the strides by which values are walked in it. */
interface Walk {
  readonly shape: Shape;
  readonly strides: (view: View) => readonly number[];
  /** The index in the iteration space of a dim of the nodes' shape. */
  readonly dim: (dim: number) => number;
}

interface Step {
  readonly name: string;
  readonly dtype: DType;
  readonly literal?: number | string;
  readonly operands: readonly Operand[];
}

class GroupBuilder {
  private readonly inputs: FusedInput[] = [];
  private readonly steps: Step[] = [];
  private readonly keys = new Map<string, number>();
  private readonly members = new Map<Storage, number>();
  /** The 16-bit dtype of each operand that has been rounded to it. */
  private readonly bits = new Map<string, DType>();
  private readonly conversions = new Map<string, Operand>();
  private readonly values: RegionValues;
  private readonly groupStorages: ReadonlySet<Storage>;
  private readonly walk: Walk;

  constructor(nodes: readonly Node[], values: RegionValues, walk: Walk) {
    this.values = values;
    this.walk = walk;
    this.groupStorages = new Set(nodes.map((node) => values.storage(node)));
    for (const node of nodes) this.add(node);
  }

  /** The call that writes the given nodes. */
  call(
    kernel: typeof fused,
    written: readonly Node[],
    strides: (node: Node) => readonly number[],
    wideView: (node: Node) => View | undefined = () => undefined,
  ): EmittedCalls {
    const out = written.map((node) => {
      const view = wideView(node) ?? this.values.view(node);
      const computed: Operand = { step: this.members.get(this.values.storage(node)) as number };
      const stored = isHalf(view.dtype) ? this.narrow(computed, view.dtype) : computed;
      const reg = "input" in stored ? stored.input : this.inputs.length + stored.step;
      return { at: addressOf(view), dtype: view.dtype, strides: strides(node), reg };
    });
    return {
      calls: [kernel.call({ shape: this.walk.shape, in: this.inputs, ops: this.instructions(), out })],
      inPlace: [],
    };
  }

  private add(node: Node): void {
    const roundsInputs = !isHalf(node.dtype);
    const operands = node.inputs.map((input) => this.toComputing(this.operand(input), input.dtype, roundsInputs));
    const fold = foldOf(node);
    if (fold?.op === "argMax") this.addArgMax(operands[0] as Operand, computing((node.inputs[0] as Node).dtype));
    else if (fold !== undefined) this.push("fold", computing(node.dtype), operands, fold.op);
    else {
      const form = formOf(node);
      if (form.kind !== "pointwise") throw new HeddleError("lower", `${node.op.name} is not a scalar op`);
      const instruction = form.instruction(
        node.attrs,
        node.inputs.map((input) => input.types[0] as TensorType),
        node.types[0] as TensorType,
      );
      const casts = instruction.name === "cast" && isHalf(node.dtype);
      const dtype = casts ? node.dtype : computing(instruction.dtype);
      this.steps.push({ ...this.withDim(instruction), dtype, operands });
      if (casts) this.bits.set(keyOf({ step: this.steps.length - 1 }), node.dtype);
    }
    this.members.set(this.values.storage(node), this.steps.length - 1);
  }

  private push(name: string, dtype: DType, operands: readonly Operand[], literal?: number | string): Operand {
    this.steps.push({ name, dtype, operands, ...(literal === undefined ? {} : { literal }) });
    return { step: this.steps.length - 1 };
  }

  /**
   * An operand in the dtype of computing: f32 for 16-bit floats. Between the nodes of a group 16-bit values keep f32
   * precision, but they are rounded where the result is not a 16-bit float: a comparison sees the values that other groups
   * read from memory.
   */
  private toComputing(operand: Operand, dtype: DType, roundsInputs: boolean): Operand {
    if (!isHalf(dtype)) return operand;
    if (roundsInputs) return this.widen(this.narrow(operand, dtype));
    return this.bits.has(keyOf(operand)) ? this.widen(operand) : operand;
  }

  private narrow(operand: Operand, dtype: DType): Operand {
    if (this.bits.has(keyOf(operand))) return operand;
    const narrowed = this.convert(operand, dtype);
    this.bits.set(keyOf(narrowed), dtype);
    return narrowed;
  }

  private widen(operand: Operand): Operand {
    return this.convert(operand, "f32");
  }

  private convert(operand: Operand, dtype: DType): Operand {
    const key = keyOf(operand);
    const cast = this.conversions.get(key) ?? this.push("cast", dtype, [operand]);
    this.conversions.set(key, cast);
    return cast;
  }

  /** The least index of an element that equals the largest or is NaN; the largest is NaN if any element is. */
  private addArgMax(x: Operand, dtype: DType): void {
    const largest = this.push("fold", dtype, [x], "max");
    const equal = this.push("eq", dtype, [x, largest]);
    const isLargest = isFloat(dtype) ? this.push("or", "bool", [equal, this.push("ne", dtype, [x, x])]) : equal;
    const length = this.walk.shape.at(-1) as number;
    const index = this.push("iota", "i32", [], this.walk.shape.length - 1);
    const outside = this.push("const", "i32", [], length);
    this.push("fold", "i32", [this.push("select", "i32", [isLargest, index, outside])], "min");
  }

  private instructions(): (string | number)[][] {
    return this.steps.map(({ name, dtype, literal: value, operands }) => [
      name,
      dtype,
      ...(value === undefined ? [] : [typeof value === "string" ? value : literal(value, dtype)]),
      ...operands.map((operand) => ("input" in operand ? operand.input : this.inputs.length + operand.step)),
    ]);
  }

  /** The instruction with its dim, where it counts along one, as an index of the iteration space. */
  private withDim(instruction: ScalarInstruction): ScalarInstruction {
    return instruction.name === "iota"
      ? { ...instruction, literal: this.walk.dim(instruction.literal as number) }
      : instruction;
  }

  private operand(node: Node): Operand {
    const generator = this.values.generator(node);
    if (generator !== undefined) return { step: this.generate(this.withDim(generator)) };
    const storage = this.values.storage(node);
    if (this.groupStorages.has(storage)) return { step: this.members.get(storage) as number };
    const view = this.values.view(node);
    const walked = this.walk.strides(view);
    const strides = walked.map((stride, dim) => (this.walk.shape[dim] === 1 ? 0 : stride));
    const key = `${storage.id} ${view.offset} ${strides.join(" ")}`;
    const known = this.keys.get(key);
    if (known !== undefined) return { input: known };
    this.keys.set(key, this.inputs.length);
    this.inputs.push({ at: addressOf(view), dtype: view.dtype, strides: walked });
    const input = { input: this.inputs.length - 1 };
    if (isHalf(view.dtype)) this.bits.set(keyOf(input), view.dtype);
    return input;
  }

  private generate(instruction: ScalarInstruction): number {
    const value = instruction.literal as number;
    const key = `${instruction.name} ${instruction.dtype} ${Object.is(value, -0) ? "-0" : value}`;
    const known = this.keys.get(key);
    if (known !== undefined) return known;
    this.steps.push({ ...instruction, dtype: computing(instruction.dtype), operands: [] });
    this.keys.set(key, this.steps.length - 1);
    return this.steps.length - 1;
  }
}

/** The dtype in which values of a dtype are computed: f32 for 16-bit floats. */
const computing = (dtype: DType): DType => (isHalf(dtype) ? "f32" : dtype);

const keyOf = (operand: Operand): string => ("input" in operand ? `in ${operand.input}` : `${operand.step}`);

/** A literal as JSON has it; large integers are strings of digits. */
function literal(value: number, dtype: DType): number | string {
  if (isLong(dtype) && !Number.isSafeInteger(value)) return String(BigInt(value));
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
