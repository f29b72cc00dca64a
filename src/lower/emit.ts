/** @module From units of work to kernel calls whose addresses are still symbolic. */

import { type DType, isFloat } from "../ir/dtype.ts";
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
import { type Shape, sameShape, stridesOf, type TensorType } from "../ir/shape.ts";
import { copyCall } from "../ops/structure.ts";
import { HeddleError } from "../util/errors.ts";
import { foldOf } from "./fold.ts";
import { callShape, callStrides, type FoldSpace, keptStrides } from "./fold-space.ts";
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
  const builder = new GroupBuilder(nodes, values, {
    shape: order.map((dim) => nodes[0]?.shape[dim] as number),
    strides: (view) => permuteView(view, order).strides,
    dim: (dim) => order.indexOf(dim),
  });
  return builder.call("fused", written, (node) => permuteView(values.view(node), order).strides);
}

/** Emits the call of a group with folds in it. */
export function emitFolded(
  nodes: readonly Node[],
  space: FoldSpace,
  values: RegionValues,
  stored: ReadonlySet<Storage>,
): EmittedCalls {
  const whole = ({ shape }: { readonly shape: Shape }): boolean => sameShape(shape, space.shape);
  const shape = callShape(space);
  const builder = new GroupBuilder(nodes, values, {
    shape,
    strides: (view) => (whole(view) ? callStrides(view, space) : [...keptStrides(view, space), 0]),
    dim: () => shape.length - 1,
  });
  const written = nodes.filter((node) => stored.has(values.storage(node)));
  return builder.call(space.form === "rows" ? "fusedRows" : "fusedColumns", written, (node) => {
    const view = values.view(node);
    return foldOf(node) === undefined && whole(view) ? callStrides(view, space) : keptStrides(view, space);
  });
}

type Operand = { readonly input: number } | { readonly step: number };

/** The iteration space of a group, and how values are walked in it. */
interface Walk {
  readonly shape: Shape;
  readonly strides: (view: View) => readonly number[];
  /** The place of a dim of the nodes' shape. */
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
  private readonly values: RegionValues;
  private readonly own: ReadonlySet<Storage>;
  private readonly walk: Walk;

  constructor(nodes: readonly Node[], values: RegionValues, walk: Walk) {
    this.values = values;
    this.walk = walk;
    this.own = new Set(nodes.map((node) => values.storage(node)));
    for (const node of nodes) this.add(node);
  }

  /** The call that writes some of the nodes. */
  call(k: string, written: readonly Node[], strides: (node: Node) => readonly number[]): EmittedCalls {
    const out = written.map((node) => {
      const view = this.values.view(node);
      const reg = this.inputs.length + (this.members.get(this.values.storage(node)) as number);
      return { at: addressOf(view), dtype: view.dtype, strides: strides(node), reg };
    });
    return {
      calls: [{ k, shape: this.walk.shape, in: this.inputs, ops: this.instructions(), out }],
      inPlace: [],
    };
  }

  private add(node: Node): void {
    const operands = node.inputs.map((input) => this.operand(input));
    const fold = foldOf(node);
    if (fold?.op === "argMax") this.addArgMax(operands[0] as Operand, (node.inputs[0] as Node).dtype);
    else if (fold !== undefined) this.push("fold", node.dtype, operands, fold.op);
    else {
      const rule = ruleOf(node);
      if (rule.kind !== "scalar") throw new HeddleError("lower", `${node.op.name} is not a scalar op`);
      const instruction = rule.instruction(
        node.attrs,
        node.inputs.map((input) => input.types[0] as TensorType),
        node.types[0] as TensorType,
      );
      this.steps.push({ ...this.placed(instruction), operands });
    }
    this.members.set(this.values.storage(node), this.steps.length - 1);
  }

  private push(name: string, dtype: DType, operands: readonly Operand[], literal?: number | string): Operand {
    this.steps.push({ name, dtype, operands, ...(literal === undefined ? {} : { literal }) });
    return { step: this.steps.length - 1 };
  }

  /** The least index of the elements that equal the largest or are NaN, as the largest is if one of them is. */
  private addArgMax(x: Operand, dtype: DType): void {
    const largest = this.push("fold", dtype, [x], "max");
    const equal = this.push("eq", dtype, [x, largest]);
    const found = isFloat(dtype) ? this.push("or", "bool", [equal, this.push("ne", dtype, [x, x])]) : equal;
    const length = this.walk.shape.at(-1) as number;
    const place = this.push("iota", "i32", [], this.walk.shape.length - 1);
    const none = this.push("const", "i32", [], length);
    this.push("fold", "i32", [this.push("select", "i32", [found, place, none])], "min");
  }

  private instructions(): (string | number)[][] {
    return this.steps.map(({ name, dtype, literal: value, operands }) => [
      name,
      dtype,
      ...(value === undefined ? [] : [typeof value === "string" ? value : literal(value)]),
      ...operands.map((operand) => ("input" in operand ? operand.input : this.inputs.length + operand.step)),
    ]);
  }

  /** A count along a dim, with the dim's place in the iteration space. */
  private placed(instruction: ScalarInstruction): ScalarInstruction {
    return instruction.name === "iota"
      ? { ...instruction, literal: this.walk.dim(instruction.literal as number) }
      : instruction;
  }

  private operand(node: Node): Operand {
    const generator = this.values.generator(node);
    if (generator !== undefined) return { step: this.generate(this.placed(generator)) };
    const storage = this.values.storage(node);
    if (this.own.has(storage)) return { step: this.members.get(storage) as number };
    const view = this.values.view(node);
    const walked = this.walk.strides(view);
    const strides = walked.map((stride, dim) => (this.walk.shape[dim] === 1 ? 0 : stride));
    const key = `${storage.id} ${view.offset} ${strides.join(" ")}`;
    const known = this.keys.get(key);
    if (known !== undefined) return { input: known };
    this.keys.set(key, this.inputs.length);
    this.inputs.push({ at: addressOf(view), dtype: view.dtype, strides: walked });
    return { input: this.inputs.length - 1 };
  }

  private generate(instruction: ScalarInstruction): number {
    const value = instruction.literal as number;
    const key = `${instruction.name} ${instruction.dtype} ${Object.is(value, -0) ? "-0" : value}`;
    const known = this.keys.get(key);
    if (known !== undefined) return known;
    this.steps.push({ ...instruction, operands: [] });
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
