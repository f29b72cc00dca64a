/**
 * @module Epilogues: what a kernel call does to its results while they are in cache, instead of a fused call after it.
 *
 * A rule looks at the next call only, so that nothing moves past another call, but for the cast of a bias, which goes to the front. The
 * bits are the same either way.
 */
import { type DType, dtypes, isHalf } from "../ir/dtype.ts";
import { type KernelCall, Ref } from "../ir/kernel.ts";
import { range, type Shape, sizeOf, stridesOf } from "../ir/shape.ts";
import { accessesOf, descriptionOf, fused } from "../kernels/index.ts";
import { eachRef } from "./access.ts";
import { type CallCost, workField } from "./cost.ts";
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

/** A call that writes a dense value, and the fused call that reads that value unchanged. */
interface Pair {
  readonly producer: KernelCall;
  readonly shape: Shape;
  readonly inputs: readonly Operand[];
  readonly ops: readonly (readonly unknown[])[];
  /** Index of the fused call's input that the producer writes. */
  readonly produced: number;
  /** Register of the only result. */
  readonly result: number;
}

/** The fields that make the producer do the fused call's work; undefined where the kernel cannot. */
type Rule = (pair: Pair) => { readonly [field: string]: unknown } | undefined;

/** Asks the description of the producer's kernel for its epilogues. */
const rule: Rule = (pair) => {
  const { epilogue } = descriptionOf(pair.producer);
  const call = pair.producer as never;
  if (epilogue === undefined) return undefined;
  if ("gate" in epilogue) return epilogue.gate(call) ? gate(pair) : undefined;
  return (epilogue.when?.(call) ?? true) ? biasAndRelu(pair, epilogue.columns(call)) : undefined;
};

/** Joins every fused call for which there is an epilogue to the call before it. */
export function foldEpilogues(calls: readonly KernelCall[]): KernelCall[] {
  const uses = new Map<Storage, number>();
  for (const call of calls)
    eachRef(call, ({ origin }) => uses.set(origin as Storage, (uses.get(origin as Storage) ?? 0) + 1));
  const folded: KernelCall[] = [];
  for (const call of calls) {
    const last = folded.pop();
    const [current, remainder] = splitSum(call) ?? [call];
    const joined = last === undefined ? undefined : join(last, current, uses);
    const rest = remainder === undefined ? [] : [remainder];
    const before = folded.at(-1);
    const over = last && before && isCastBehind(last, before) ? join(before, current, uses) : undefined;
    if (joined !== undefined) folded.push(joined, ...rest);
    else if (last !== undefined && over !== undefined) folded.splice(-1, 1, last, over, ...rest);
    else folded.push(...(last === undefined ? [] : [last]), call);
  }
  return folded;
}

/** Whether a call only casts for a call of 16-bit floats before it, and has no memory in common with that, so that it may come first. */
function isCastBehind({ ops, out, ...call }: KernelCall, before: KernelCall): boolean {
  if (!isHalf(before["dtype"] as DType) || descriptionOf(call).group !== "elements") return false;
  const [results, memory] = [out as readonly Operand[], new Set<object>()];
  eachRef(before, ({ origin }) => memory.add(origin));
  let isApart = results.every(({ at }) => (at.origin as Storage).inArena && !memory.has(at.origin));
  eachRef(call, ({ origin }) => (isApart &&= !memory.has(origin)));
  return isApart && (ops as readonly (readonly unknown[])[]).every(([name]) => name === "cast");
}

/** The producer with the work of the call after it, where there is an epilogue for that work. */
function join(producer: KernelCall, call: KernelCall, uses: ReadonlyMap<Storage, number>): KernelCall | undefined {
  const pair = pairOf(producer, call, uses);
  const fields = pair === undefined ? undefined : rule(pair);
  if (fields === undefined) return undefined;
  const [result] = call["out"] as readonly Operand[];
  const out = producer["out"];
  const target = out instanceof Ref ? result?.at : { ...(out as Operand), at: result?.at };
  const work = { flops: flopsOf(producer) + flopsOf(call) };
  return { ...producer, ...fields, out: target, [workField]: work };
}

const flopsOf = (call: KernelCall): number => (call[workField] as CallCost | undefined)?.flops ?? 0;

/** Splits a call that computes values and sums their columns in two, so that the call before may compute the values. */
function splitSum(call: KernelCall): readonly [KernelCall, KernelCall] | undefined {
  if (descriptionOf(call).group !== "columns") return undefined;
  const inputs = call["in"] as readonly Operand[];
  const [ops, outputs] = [call["ops"] as readonly (readonly unknown[])[], call["out"] as readonly Result[]];
  const [name, dtype, op, summed] = ops.at(-1) ?? [];
  const values = outputs.find(({ reg }) => reg === summed);
  const sums = outputs.find(({ reg }) => reg === inputs.length + ops.length - 1);
  if (name !== "fold" || op !== "sum" || outputs.length !== 2 || values === undefined || sums === undefined)
    return undefined;
  const { reg: _reg, ...operand } = values;
  const summing = sizeOf(call["shape"] as Shape);
  const work = (flops: number) => ({ [workField]: { flops } });
  return [
    { ...call, k: fused.name, ops: ops.slice(0, -1), out: [values], ...work(flopsOf(call) - summing) },
    { ...call, in: [operand], ops: [["fold", dtype, "sum", 0]], out: [{ ...sums, reg: 1 }], ...work(summing) },
  ];
}

function pairOf(producer: KernelCall, call: KernelCall, uses: ReadonlyMap<Storage, number>): Pair | undefined {
  if (descriptionOf(producer).epilogue === undefined || descriptionOf(call).group !== "elements") return undefined;
  const shape = call["shape"] as Shape;
  const [inputs, outputs] = [call["in"] as readonly Operand[], call["out"] as readonly Result[]];
  const [out] = outputs;
  const to = producer["out"] instanceof Ref ? producer["out"] : (producer["out"] as Operand).at;
  const produced = inputs.findIndex(({ at }) => at.origin === to.origin);
  const storage = to.origin as Storage;
  // The producer writes the value and this call reads it; no other call uses it.
  if (produced < 0 || out === undefined || outputs.length > 1 || !storage.inArena || uses.get(storage) !== 2)
    return undefined;
  if (sizeOf(shape) * dtypes[out.dtype].bytes !== storage.bytes) return undefined;
  const isDenseOperand = (operand: Operand): boolean => sameStrides(operand.strides, stridesOf(shape), shape);
  const dtype = producer["dtype"] as DType;
  if (!isDenseOperand(inputs[produced] as Operand) || !isDenseOperand(out) || !isDense(producer)) return undefined;
  if (inputs[produced]?.dtype !== dtype || out.dtype !== dtype || inputs[produced]?.at.byteOffset !== to.byteOffset)
    return undefined;
  const group = { ops: call["ops"] as Pair["ops"], result: out.reg };
  return { producer, shape, inputs, produced, ...(isHalf(dtype) ? uncast(group, dtype, inputs.length) : group) };
}

/** The instructions without casts between a 16-bit float and f32. Rounding in between, too, gives an epilogue the same bits. */
function uncast(
  { ops, result }: Pick<Pair, "ops" | "result">,
  dtype: DType,
  inputs: number,
): Pick<Pair, "ops" | "result"> {
  const kept: (readonly unknown[])[] = [];
  const registers = range(inputs);
  for (const [name, to, ...operands] of ops) {
    const isCast = name === "cast" && (to === dtype || to === "f32");
    if (!isCast)
      kept.push([name, to, ...(name === "const" ? operands : operands.map((at) => registers[at as number]))]);
    registers.push(isCast ? (registers[operands[0] as number] as number) : inputs + kept.length - 1);
  }
  return { ops: kept, result: registers[result] as number };
}

/** Whether a call's result is row-major. It is the whole value, since the fused call has as many elements. */
function isDense(producer: KernelCall): boolean {
  const out = accessesOf(producer).find(({ role }) => role === "write");
  return out !== undefined && sameStrides(out.strides, stridesOf(out.shape), out.shape);
}

const sameStrides = (left: readonly number[], right: readonly number[], shape: Shape): boolean =>
  shape.every((size, dim) => size === 1 || left[dim] === right[dim]);

/** The instruction that fills a register, if it is not an input. */
const instruction = ({ ops, inputs }: Pair, register: number): readonly unknown[] | undefined =>
  ops[register - inputs.length];

const isZero = (pair: Pair, register: unknown): boolean => {
  const [name, , value] = instruction(pair, register as number) ?? [];
  return name === "const" && Object.is(value, 0);
};

/** `max(x + bias, 0)`, or only one of the two. */
function biasAndRelu(pair: Pair, columns: number): ReturnType<Rule> {
  let [register, usedOps] = [pair.result, 0];
  const fields: { bias?: Ref; relu?: boolean } = {};
  const [last, , left, right] = instruction(pair, register) ?? [];
  if (last === "max" && (isZero(pair, left) || isZero(pair, right))) {
    fields.relu = true;
    register = (isZero(pair, right) ? left : right) as number;
    usedOps += 2;
  }
  const [sum, , first, second] = instruction(pair, register) ?? [];
  // `x + x` is not a bias, though a single row would fit.
  if (sum === "add" && first !== second && (first === pair.produced || second === pair.produced)) {
    const bias = pair.inputs[(first === pair.produced ? second : first) as number];
    if (bias === undefined || !isRow(bias, pair, columns)) return undefined;
    fields.bias = bias.at;
    register = pair.produced;
    usedOps += 1;
  }
  return register === pair.produced && usedOps === pair.ops.length && usedOps > 0 ? fields : undefined;
}

/** Whether an operand has one value for each column, the same in all rows. */
function isRow(operand: Operand, { shape, producer }: Pair, columns: number): boolean {
  const row = shape.map((_, dim) => (dim === shape.length - 1 ? 1 : 0));
  return shape.at(-1) === columns && operand.dtype === producer["dtype"] && sameStrides(operand.strides, row, shape);
}

/** The gradient of relu after that of a pooling of its result: `x <= 0 ? 0 : dx`. */
function gate(pair: Pair): ReturnType<Rule> {
  const { producer, inputs, produced, shape } = pair;
  const [choice, , condition, yes, no] = instruction(pair, pair.result) ?? [];
  const [comparison, , x, bound] = instruction(pair, condition as number) ?? [];
  if (choice !== "select" || comparison !== "le" || no !== produced || !isZero(pair, yes) || !isZero(pair, bound))
    return undefined;
  const input = inputs[x as number];
  const forwardInput = producer["in"] as Ref;
  const sameMemory = input?.at.origin === forwardInput.origin && input.at.byteOffset === forwardInput.byteOffset;
  const readsForwardInput =
    sameMemory && input.dtype === producer["dtype"] && sameStrides(input.strides, stridesOf(shape), shape);
  return readsForwardInput && pair.ops.length === 3 ? { gate: true } : undefined;
}
