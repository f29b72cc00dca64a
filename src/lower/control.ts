/**
 * @module Loops and branches as calls that hold calls. Carries stay in one place each: the body writes the next value
 * there, in place where it can. Slices and stacks go by dynamic slices at the count, so that every bound is known.
 */
import { isContiguous, type KernelCall, type ScalarInstruction, type View } from "../ir/kernel.ts";
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { branch, dynamicSlice, dynamicUpdateSlice, loop } from "../kernels/index.ts";
import type { BranchStep, LoopStep, Program, ValueId } from "../program/program.ts";
import { emitCopy, emitGenerated } from "./emit.ts";
import { addressOf, type Storage, type StoragePool, storageOf } from "./storage.ts";

/** Calls of an inner program. */
export interface Inner {
  readonly calls: readonly KernelCall[];
  /** Where each output is that was given no place. */
  readonly outputs: readonly (View | undefined)[];
  /** Outputs of its kernels that may lie where an input lies. */
  readonly inPlace: readonly (readonly [Storage, Storage])[];
}

/** What the surrounding program gives. */
export interface ControlContext {
  readonly pool: StoragePool;
  view(value: ValueId): View;
  /** Makes the value, where it costs nothing to make. */
  generator(value: ValueId): ScalarInstruction | undefined;
  /**
   * Lowers an inner program on the given inputs. `places` are where outputs are to be; undefined: anywhere. Outputs that
   * are `read` by the caller are not made.
   */
  lower(
    program: Program,
    inputs: readonly View[],
    places: readonly (Storage | undefined)[],
    read: ReadonlySet<number>,
  ): Inner;
}

const i32: TensorType = { dtype: "i32", shape: [] };

/** Calls that write the first carries, then the loop. `results` are places of the last carries and of the stacks. */
export function loopCalls(step: LoopStep, results: readonly View[], context: ControlContext): KernelCall[] {
  const { body, condition, length, reverse, carries, slices } = step;
  const { pool } = context;
  const carry = results.slice(0, carries);
  const calls = carry.flatMap((to, place) => {
    const value = step.arguments[place] as ValueId;
    const generator = context.generator(value);
    return (generator === undefined ? emitCopy(context.view(value), to) : emitGenerated(generator, to)).calls;
  });
  if (length === 0) return calls;
  const count = pool.tensor("temporary", i32, "count");
  const at = sliceCalls(pool, count, length ?? 1);
  const sliced = body.inputs
    .slice(1 + carries, 1 + carries + slices)
    .map(({ type }) => pool.tensor("temporary", type, "slice"));
  const rows = step.arguments
    .slice(carries, carries + slices)
    .map((value) => rowMajor(context.view(value), pool, calls));
  const constants = step.arguments.slice(carries + slices).map((value) => context.view(value));
  const inputs = [count, ...carry, ...sliced, ...constants];
  // What the body only passes on is stacked before the carries change.
  const passed = body.outputs.flatMap(({ value }, place) =>
    place >= carries && value < inputs.length && isContiguous(inputs[value] as View) ? [place] : [],
  );
  const places = body.outputs.map((_output, place) => (place < carries ? storageOf(carry[place] as View) : undefined));
  const inner = context.lower(body, inputs, places, new Set(passed));
  const stack = (place: number, from: View): KernelCall => at.write(results[place] as View, from);
  const steps = [
    ...sliced.map((to, place) => at.read(rows[place] as View, to)),
    ...passed.map((place) => stack(place, inputs[body.outputs[place]?.value as number] as View)),
    ...inner.calls,
    ...inner.outputs.flatMap((from, place) => (from === undefined ? [] : [stack(place, from)])),
  ];
  if (sliced.length + results.length > carries)
    calls.push(...emitGenerated({ name: "const", dtype: "i32", literal: 0 }, at.zero).calls);
  if (condition === undefined) return [...calls, loop.call({ count: length, reverse, out: addressOf(count), steps })];
  const tested = context.lower(condition, inputs, [undefined], new Set());
  const test = addressOf(tested.outputs[0] as View);
  return [...calls, loop.call({ out: addressOf(count), test, condition: tested.calls, steps })];
}

function rowMajor(view: View, pool: StoragePool, calls: KernelCall[]): View {
  if (isContiguous(view)) return view;
  const copy = pool.tensor("temporary", view, "temporary");
  calls.push(...emitCopy(view, copy).calls);
  return copy;
}

/** Calls that read and write slice `count` of a value. */
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

/** A call that holds both branches; each writes the same results. */
export function branchCalls(step: BranchStep, results: readonly View[], context: ControlContext): KernelCall[] {
  const [test, ...operands] = step.arguments.map((value) => context.view(value)) as [View, ...View[]];
  const places = results.map(storageOf);
  const [steps, otherwise] = step.branches.map(
    (program) => context.lower(program, operands, places, new Set()).calls,
  ) as [readonly KernelCall[], readonly KernelCall[]];
  return [branch.call({ test: addressOf(test), steps, otherwise })];
}
