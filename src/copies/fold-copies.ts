/**
 * @module Copies that need not run: the fused call that computes a value writes the value where the copy would put it. So the parts of a
 * concatenation are written in place.
 */
import { dtypes } from "../ir/dtype.ts";
import { denseOrder, isContiguous, type KernelCall, permuteView, reshapeView, type View } from "../ir/kernel.ts";
import { type Shape, sizeOf } from "../ir/shape.ts";
import { accessesOf, descriptionOf, fused } from "../kernels/index.ts";

/** A piece of memory, before it has an address. */
interface Memory {
  readonly bytes: number;
  /** Whether no other program sees it. */
  readonly inArena: boolean;
}

interface Operand extends Pick<View, "dtype" | "strides"> {
  readonly at: { readonly origin: Memory; readonly byteOffset: number };
}

/** How often calls use a piece of memory, and the bytes that they write. */
interface Tally {
  uses: number;
  written: number;
}

// Shorter runs are faster to copy at once.
const leastRun = 32;

/**
 * Drops each copy of a value that one fused call computes and nothing else reads. A copy is moved only into memory whose writes are, together,
 * as large as the memory: each writes another part, so their order does not matter. `stays`: memory that must not be written earlier.
 */
export function foldCopies(calls: readonly KernelCall[], stays: (memory: Memory) => boolean): KernelCall[] {
  const tallies = new Map<Memory, Tally>();
  const tally = (memory: Memory): Tally => tallies.get(memory) ?? { uses: 0, written: 0 };
  const count = (call: KernelCall, times: number): void => {
    for (const { at, role, shape, dtype } of accessesOf(call)) {
      const { origin } = at as unknown as Operand["at"];
      const { uses, written } = tally(origin);
      const bytes = role === "read" ? 0 : times * sizeOf(shape) * dtypes[dtype].bytes;
      tallies.set(origin, { uses: uses + 1, written: written + bytes });
    }
    for (const list of descriptionOf(call).nested)
      for (const inner of (call[list] ?? []) as readonly KernelCall[]) count(inner, Infinity);
  };
  for (const call of calls) count(call, 1);
  const folded: KernelCall[] = [];
  /** The place in the list of the fused call that computes a value. */
  const makers = new Map<Memory, number>();
  for (const call of calls) {
    const [from, to] = copied(call) ?? [];
    const [source, target] = [from?.at.origin, to?.at.origin];
    const maker = source?.inArena === true && tally(source).uses === 2 ? makers.get(source) : undefined;
    const isFree = target !== undefined && tally(target).written === target.bytes && !stays(target);
    const moved = maker === undefined || !isFree ? undefined : withResultAt(folded[maker] as KernelCall, call);
    const place = moved === undefined ? folded.push(call) - 1 : (maker as number);
    if (moved !== undefined) folded[place] = moved;
    if (call.k === fused.name) for (const { at } of call["out"] as readonly Operand[]) makers.set(at.origin, place);
  }
  return folded;
}

/** The source and the target of a call that only copies. */
function copied(call: KernelCall): readonly [from: Operand, to: Operand] | undefined {
  if (call.k !== fused.name || (call["ops"] as readonly unknown[]).length > 0) return undefined;
  const [inputs, outputs] = [call["in"] as readonly Operand[], call["out"] as readonly Operand[]];
  return outputs.length === 1 ? [inputs[0] as Operand, outputs[0] as Operand] : undefined;
}

/** The call that computes a value, with the value where the copy puts it; undefined where the call cannot write it there. */
function withResultAt(maker: KernelCall, copy: KernelCall): KernelCall | undefined {
  const [from, to] = copied(copy) as [Operand, Operand];
  const [shape, copyShape] = [maker["shape"] as Shape, copy["shape"] as Shape];
  const results = maker["out"] as readonly Operand[];
  const result = results.find(({ at }) => at.origin === from.at.origin) as Operand;
  const view = (operand: Operand, of: Shape): View => ({ ...operand, origin: operand.at, offset: 0, shape: of });
  const order = denseOrder(view(from, copyShape));
  const isAll = result.at.byteOffset === from.at.byteOffset && sizeOf(copyShape) === sizeOf(shape);
  // Native code refuses results of one call that may overlap.
  const isApart = results.every(({ at }) => at.origin !== to.at.origin);
  if (order === undefined || !isAll || !isApart || !isContiguous(view(result, shape))) return undefined;
  const target = reshapeView(permuteView(view(to, copyShape), order), shape);
  if (target === undefined || target.strides.at(-1) !== 1 || (shape.at(-1) as number) < leastRun) return undefined;
  const moved = { ...result, at: to.at, strides: target.strides };
  return { ...maker, out: results.map((one) => (one === result ? moved : one)) };
}
