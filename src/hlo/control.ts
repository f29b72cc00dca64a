/** @module Loops and branches in StableHLO. */
import type { LoopControl } from "../ir/control.ts";
import { type Absent, type Attrs, isAbsent, type OpDef } from "../ir/node.ts";
import { allOps } from "../ir/op.ts";
import { type HloBlock, type HloRule, type HloType, type HloValue, hloIntegers } from "./block.ts";
import { stablehloRules } from "./rules.ts";

const counter: HloType = { shape: [], dtype: "i32" };

/** Slice `at` of dim 0, without the dim. */
function sliceAt(hlo: HloBlock, x: HloValue, at: HloValue): HloValue {
  const { dtype, shape } = x.type;
  const [, ...sliceShape] = shape;
  const starts = [at, ...sliceShape.map(() => hlo.constant(counter, 0))];
  const part = hlo.one(
    "dynamic_slice",
    [x, ...starts],
    { dtype, shape: [1, ...sliceShape] },
    { slice_sizes: hloIntegers([1, ...sliceShape]) },
  );
  return hlo.one("reshape", [part], { dtype, shape: sliceShape });
}

/** The stack with `value` as slice `at`. */
function withSlice(hlo: HloBlock, stack: HloValue, value: HloValue, at: HloValue): HloValue {
  const { dtype, shape } = value.type;
  const part = hlo.one("reshape", [value], { dtype, shape: [1, ...shape] });
  return hlo.one("dynamic_update_slice", [stack, part, at, ...shape.map(() => hlo.constant(counter, 0))], stack.type);
}

/**
 * A loop as `while` over all values that it touches: the counter, the carries, the sliced inputs, the constants, and the
 * stacks that are filled slice by slice.
 */
function loopHlo(hlo: HloBlock, inputs: readonly HloValue[], outputs: readonly HloType[], control: LoopControl) {
  const { carries, slices, length, reverse, condition, body } = control;
  const stacks = outputs.slice(carries).map((type) => hlo.constant(type, 0));
  // An empty dim cannot be sliced, not even in a body that never runs.
  if (length === 0) return [...inputs.slice(0, carries), ...stacks];
  const start = hlo.constant(counter, reverse ? (length ?? 1) - 1 : 0);
  const state = [start, ...inputs, ...stacks];
  const partition = (values: readonly HloValue[]) => ({
    at: values[0] as HloValue,
    carried: values.slice(1, 1 + carries),
    sliced: values.slice(1 + carries, 1 + carries + slices),
    constants: values.slice(1 + carries + slices, 1 + inputs.length),
    stacked: values.slice(1 + inputs.length),
  });
  const test = (inner: HloBlock, values: readonly HloValue[]): HloValue[] => {
    const { at, carried, constants } = partition(values);
    if (condition !== undefined) return [...inner.inline(condition, [at, ...carried, ...constants])];
    return [inner.compare(reverse ? "GE" : "LT", at, inner.like(at, reverse ? 0 : (length as number)))];
  };
  const step = (inner: HloBlock, values: readonly HloValue[]): HloValue[] => {
    const { at, carried, sliced, constants, stacked } = partition(values);
    const xs = sliced.map((x) => sliceAt(inner, x, at));
    const results = inner.inline(body, [at, ...carried, ...xs, ...constants]);
    const next = inner.same(reverse ? "subtract" : "add", at, inner.like(at, 1));
    const filled = stacked.map((stack, index) => withSlice(inner, stack, results[carries + index] as HloValue, at));
    return [next, ...results.slice(0, carries), ...sliced, ...constants, ...filled];
  };
  const types = state.map(({ type }) => type);
  const final = hlo.op("while", state, types, {}, [
    { arguments: types, body: test },
    { arguments: types, body: step },
  ]);
  const { carried, stacked } = partition(final);
  return [...carried, ...stacked];
}

/** The rule of an op that owns graphs: `while` for a loop, `if` for a branch. */
const controlRule =
  <A extends Attrs>({ control }: OpDef<A>): HloRule<A> =>
  ({ hlo, attrs, inputs, outputs }) => {
    const owned = (control as Exclude<typeof control, Absent>)(attrs);
    if (owned.kind === "loop") return loopHlo(hlo, inputs, outputs, owned);
    const [test, ...operands] = inputs as [HloValue, ...HloValue[]];
    const branches = owned.branches.map((graph) => ({
      arguments: [],
      body: (inner: HloBlock) => [...inner.inline(graph, operands)],
    }));
    return hlo.op("if", [test], outputs, {}, branches);
  };

stablehloRules.define(
  Object.fromEntries(
    allOps().flatMap((op): [string, HloRule<never>][] => (isAbsent(op.control) ? [] : [[op.name, controlRule(op)]])),
  ),
);
