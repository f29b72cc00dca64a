/**
 * @module Epilogues: what a kernel call does to its results while they are in cache, in the place of a fused call after it.
 *
 * Only the very next call is looked at, so that nothing moves past another call. The bits are the same either way.
 */
import { type DType, dtypes } from "../ir/dtype.ts";
import { type KernelCall, Ref } from "../ir/kernel.ts";
import { type Shape, sizeOf, stridesOf } from "../ir/shape.ts";
import { accessesOf, descriptionOf, fused } from "../kernels/index.ts";
import { eachRef } from "./access.ts";
import type { Storage } from "./storage.ts";

interface Operand {
  readonly at: Ref;
  readonly dtype: DType;
  readonly strides: readonly number[];
}

/** Where a fused call writes one of its registers. */
interface Result extends Operand {
  readonly reg: number;
}

/** A call that makes a value without gaps, and the fused call that reads it as it is. */
interface Pair {
  readonly producer: KernelCall;
  readonly shape: Shape;
  readonly inputs: readonly Operand[];
  readonly ops: readonly (readonly unknown[])[];
  /** Number of the input that the producer makes. */
  readonly made: number;
  /** Register of the only result. */
  readonly result: number;
}

/** What the producer is to do itself, or undefined where the fused call does something else. */
type Rule = (pair: Pair) => { readonly [field: string]: unknown } | undefined;

/** What the producer's kernel may do of the fused call. */
const rule: Rule = (pair) => {
  const { epilogue } = descriptionOf(pair.producer);
  const call = pair.producer as never;
  if (epilogue === undefined) return undefined;
  if ("gate" in epilogue) return epilogue.gate(call) ? gate(pair) : undefined;
  return (epilogue.when?.(call) ?? true) ? biasAndRelu(pair, epilogue.columns(call)) : undefined;
};

/** Gives the calls with every fused call that a rule knows taken into the call before it. */
export function foldEpilogues(calls: readonly KernelCall[]): KernelCall[] {
  const uses = new Map<Storage, number>();
  for (const call of calls)
    eachRef(call, ({ origin }) => uses.set(origin as Storage, (uses.get(origin as Storage) ?? 0) + 1));
  const folded: KernelCall[] = [];
  for (const call of calls) {
    const last = folded.pop();
    const [first, then] = splitSum(call) ?? [call];
    const joined = last === undefined ? undefined : join(last, first, uses);
    if (joined !== undefined) folded.push(joined, ...(then === undefined ? [] : [then]));
    else folded.push(...(last === undefined ? [] : [last]), call);
  }
  return folded;
}

/** The producer that does what the call after it did, where a rule knows how. */
function join(producer: KernelCall, call: KernelCall, uses: ReadonlyMap<Storage, number>): KernelCall | undefined {
  const pair = pairOf(producer, call, uses);
  const fields = pair === undefined ? undefined : rule(pair);
  if (fields === undefined) return undefined;
  const [out] = call["out"] as readonly Operand[];
  const before = producer["out"];
  const target = before instanceof Ref ? out?.at : { ...(before as Operand), at: out?.at };
  return { ...producer, ...fields, out: target };
}

/** A call that makes values and sums their columns, as two: what is summed may then be made by the call before. */
function splitSum(call: KernelCall): readonly [KernelCall, KernelCall] | undefined {
  if (descriptionOf(call).group !== "columns") return undefined;
  const inputs = call["in"] as readonly Operand[];
  const [ops, outputs] = [call["ops"] as readonly (readonly unknown[])[], call["out"] as readonly Result[]];
  const [name, dtype, op, summed] = ops.at(-1) ?? [];
  const values = outputs.find(({ reg }) => reg === summed);
  const sums = outputs.find(({ reg }) => reg === inputs.length + ops.length - 1);
  if (name !== "fold" || op !== "sum" || outputs.length !== 2 || values === undefined || sums === undefined)
    return undefined;
  const { reg: _reg, ...made } = values;
  return [
    { ...call, k: fused.name, ops: ops.slice(0, -1), out: [values] },
    { ...call, in: [made], ops: [["fold", dtype, "sum", 0]], out: [{ ...sums, reg: 1 }] },
  ];
}

function pairOf(producer: KernelCall, call: KernelCall, uses: ReadonlyMap<Storage, number>): Pair | undefined {
  if (descriptionOf(producer).epilogue === undefined || descriptionOf(call).group !== "elements") return undefined;
  const shape = call["shape"] as Shape;
  const [inputs, outputs] = [call["in"] as readonly Operand[], call["out"] as readonly Result[]];
  const [out] = outputs;
  const to = producer["out"] instanceof Ref ? producer["out"] : (producer["out"] as Operand).at;
  const made = inputs.findIndex(({ at }) => at.origin === to.origin);
  const storage = to.origin as Storage;
  // Written there and read here, and nowhere else.
  if (made < 0 || out === undefined || outputs.length > 1 || !storage.inArena || uses.get(storage) !== 2)
    return undefined;
  if (sizeOf(shape) * dtypes[out.dtype].bytes !== storage.bytes) return undefined;
  const plain = (one: Operand): boolean => sameStrides(one.strides, stridesOf(shape), shape);
  const dtype = producer["dtype"];
  if (!plain(inputs[made] as Operand) || !plain(out) || !isDense(producer)) return undefined;
  if (inputs[made]?.dtype !== dtype || out.dtype !== dtype || inputs[made]?.at.byteOffset !== to.byteOffset)
    return undefined;
  const ops = call["ops"] as readonly (readonly unknown[])[];
  return { producer, shape, inputs, ops, made, result: out.reg };
}

/** Whether what a call makes is row-major; it is the whole value, as the fused call has as many elements. */
function isDense(producer: KernelCall): boolean {
  const out = accessesOf(producer).find(({ role }) => role === "write");
  return out !== undefined && sameStrides(out.strides, stridesOf(out.shape), out.shape);
}

const sameStrides = (one: readonly number[], other: readonly number[], shape: Shape): boolean =>
  shape.every((size, dim) => size === 1 || one[dim] === other[dim]);

/** The instruction that fills a register, if it is not an input. */
const instruction = ({ ops, inputs }: Pair, register: number): readonly unknown[] | undefined =>
  ops[register - inputs.length];

const isZero = (pair: Pair, register: unknown): boolean => {
  const [name, , value] = instruction(pair, register as number) ?? [];
  return name === "const" && Object.is(value, 0);
};

/** `max(x + bias, 0)`, or one of the two. */
function biasAndRelu(pair: Pair, columns: number): ReturnType<Rule> {
  let [register, used] = [pair.result, 0];
  const fields: { bias?: Ref; relu?: boolean } = {};
  const [last, , left, right] = instruction(pair, register) ?? [];
  if (last === "max" && (isZero(pair, left) || isZero(pair, right))) {
    fields.relu = true;
    register = (isZero(pair, right) ? left : right) as number;
    used += 2;
  }
  const [sum, , one, other] = instruction(pair, register) ?? [];
  // Twice what is made is no bias, though a single row would fit.
  if (sum === "add" && one !== other && (one === pair.made || other === pair.made)) {
    const bias = pair.inputs[(one === pair.made ? other : one) as number];
    if (bias === undefined || !isRow(bias, pair, columns)) return undefined;
    fields.bias = bias.at;
    register = pair.made;
    used += 1;
  }
  return register === pair.made && used === pair.ops.length && used > 0 ? fields : undefined;
}

/** Whether an operand has one value for each column, the same in all rows. */
function isRow(operand: Operand, { shape, producer }: Pair, columns: number): boolean {
  const row = shape.map((_, dim) => (dim === shape.length - 1 ? 1 : 0));
  return shape.at(-1) === columns && operand.dtype === producer["dtype"] && sameStrides(operand.strides, row, shape);
}

/** The gradient of relu after that of a pooling of its result: `x <= 0 ? 0 : dx`. */
function gate(pair: Pair): ReturnType<Rule> {
  const { producer, inputs, made, shape } = pair;
  const [choice, , condition, yes, no] = instruction(pair, pair.result) ?? [];
  const [compare, , x, bound] = instruction(pair, condition as number) ?? [];
  if (choice !== "select" || compare !== "le" || no !== made || !isZero(pair, yes) || !isZero(pair, bound))
    return undefined;
  const input = inputs[x as number];
  const given = producer["in"] as Ref;
  const same = input?.at.origin === given.origin && input.at.byteOffset === given.byteOffset;
  const whole = same && input.dtype === producer["dtype"] && sameStrides(input.strides, stridesOf(shape), shape);
  return whole && pair.ops.length === 3 ? { gate: true } : undefined;
}
