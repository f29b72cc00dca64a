/**
 * @module Loops and branches as calls with nested calls. Each carry stays in one place: the body writes the next value
 * there, in place where it can. Slices and stacks use dynamic slices at the iteration count, so that every bound is known.
 */
import { packOnce } from "../copies/pack-once.ts";
import { isContiguous, type KernelCall, type ScalarInstruction, type View } from "../ir/kernel.ts";
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { branch, dynamicSlice, dynamicUpdateSlice, loop } from "../kernels/index.ts";
import type { BranchStep, LoopStep, Program, ValueId } from "../program/program.ts";
import { emitCopy, emitGenerated } from "./emit.ts";
import { addressOf, type Storage, type StoragePool, storageOf } from "./storage.ts";

/** Calls of an inner program. */
export interface Inner {
  readonly calls: readonly KernelCall[];
  /** The views of the outputs for which the caller gave no storage. */
  readonly outputs: readonly (View | undefined)[];
  /** Pairs of an input and an output of a kernel that may share memory. */
  readonly inPlace: readonly (readonly [Storage, Storage])[];
}

/** The surrounding program, as far as loops and branches need it. */
export interface ControlContext {
  readonly pool: StoragePool;
  view(value: ValueId): View;
  /** The instruction that generates the value, if it costs nothing to generate. */
  generator(value: ValueId): ScalarInstruction | undefined;
  /**
   * Lowers an inner program on the given inputs. `places` are the storages for its outputs; undefined: any. An output in
   * `read` is not stored, since the caller reads it from the inputs.
   */
  lower(
    program: Program,
    inputs: readonly View[],
    storages: readonly (Storage | undefined)[],
    read: ReadonlySet<number>,
  ): Inner;
}

const i32: TensorType = { dtype: "i32", shape: [] };

/** Calls that write the first carries, then the loop. `results` are the views of the last carries and of the stacks. */
export function loopCalls(step: LoopStep, results: readonly View[], context: ControlContext): KernelCall[] {
  const { body, condition, length, reverse, carries, slices } = step;
  const { pool } = context;
  const carry = results.slice(0, carries);
  const calls = carry.flatMap((to, index) => {
    const value = step.arguments[index] as ValueId;
    const generator = context.generator(value);
    return (generator === undefined ? emitCopy(context.view(value), to) : emitGenerated(generator, to)).calls;
  });
  if (length === 0) return calls;
  const count = pool.tensor("temporary", i32, "count");
  const sliceAt = sliceCalls(pool, count, length ?? 1);
  const types = body.inputs.slice(1 + carries, 1 + carries + slices).map(({ type }) => type);
  const sliced = types.map((type) => pool.tensor("temporary", type, "slice"));
  const given = step.arguments.slice(carries).map((value) => context.view(value));
  const [rows, constants] = [given.slice(0, slices).map((view) => rowMajor(view, pool, calls)), given.slice(slices)];
  const inputs = [count, ...carry, ...sliced, ...constants];
  // Inputs that the body returns unchanged are stacked before the carries change.
  const unchanged = body.outputs.flatMap(({ value }, index) =>
    index >= carries && value < inputs.length && isContiguous(inputs[value] as View) ? [index] : [],
  );
  const storages = body.outputs.map((_output, index) => carry[index] && storageOf(carry[index]));
  const inner = context.lower(body, inputs, storages, new Set(unchanged));
  const isConstant = (memory: object): boolean => constants.some(({ origin }) => origin === memory);
  const packed = packOnce(inner.calls, length ?? 0, isConstant, (type) => pool.tensor("temporary", type, "packed"));
  calls.push(...packed.before);
  const stack = (index: number, from: View): KernelCall => sliceAt.write(results[index] as View, from);
  const steps = [
    ...sliced.map((to, index) => sliceAt.read(rows[index] as View, to)),
    ...unchanged.map((index) => stack(index, inputs[body.outputs[index]?.value as number] as View)),
    ...packed.calls,
    ...inner.outputs.flatMap((from, index) => (from === undefined ? [] : [stack(index, from)])),
  ];
  if (sliced.length + results.length > carries)
    calls.push(...emitGenerated({ name: "const", dtype: "i32", literal: 0 }, sliceAt.zero).calls);
  if (condition === undefined) return [...calls, loop.call({ count: length, reverse, out: addressOf(count), steps })];
  const conditionCalls = context.lower(condition, inputs, [undefined], new Set());
  const test = addressOf(conditionCalls.outputs[0] as View);
  return [...calls, loop.call({ out: addressOf(count), test, condition: conditionCalls.calls, steps })];
}

function rowMajor(view: View, pool: StoragePool, calls: KernelCall[]): View {
  if (isContiguous(view)) return view;
  const copy = pool.tensor("temporary", view, "temporary");
  calls.push(...emitCopy(view, copy).calls);
  return copy;
}

/** The calls that read and write slice `count` of a value. */
function sliceCalls(pool: StoragePool, count: View, length: number) {
  const zero = pool.tensor("temporary", i32, "zero");
  const starts = [addressOf(count), addressOf(zero)];
  const sizes = (shape: Shape): { shape: Shape; sizes: Shape } => ({
    shape: [length, sizeOf(shape)],
    sizes: [1, sizeOf(shape)],
  });
  return {
    zero,
    read: (from: View, to: View): KernelCall =>
      dynamicSlice.call({
        dtype: to.dtype,
        ...sizes(to.shape),
        in: addressOf(from),
        starts,
        out: addressOf(to),
      }),
    write: (to: View, from: View): KernelCall =>
      dynamicUpdateSlice.call({
        dtype: from.dtype,
        ...sizes(from.shape),
        in: addressOf(to),
        update: addressOf(from),
        starts,
        out: addressOf(to),
      }),
  };
}

/** A call with both branches nested in it; both write the same results. */
export function branchCalls(step: BranchStep, results: readonly View[], context: ControlContext): KernelCall[] {
  const [test, ...operands] = step.arguments.map((value) => context.view(value)) as [View, ...View[]];
  const storages = results.map(storageOf);
  const [steps, otherwise] = step.branches.map(
    (program) => context.lower(program, operands, storages, new Set()).calls,
  ) as [readonly KernelCall[], readonly KernelCall[]];
  return [branch.call({ test: addressOf(test), steps, otherwise })];
}
