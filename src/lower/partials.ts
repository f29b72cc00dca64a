/**
 * @module Room behind the arena for partial results: what the native kernels for sums and products ask for by the shape
 * of a call (native/core/src/kernels/{reduce,dot,rows/columns}.rs), known here before anything is loaded.
 */
import { type DType, dtypes, isFloat } from "../ir/dtype.ts";
import type { LoweredStep } from "./json.ts";
import type { FusedOperand } from "./kernels.ts";
import { alignment } from "./memory.ts";
import { flatten } from "./nest.ts";
import { scratchBytes } from "./scratch.ts";

/** Bytes that a device needs to run such steps, beside the buffers that they are given. */
export function workBytes(arena: number, steps: readonly LoweredStep[]): number {
  const partials = flatten(steps).calls.map(partialBytes);
  return Math.ceil(arena / alignment) * alignment + partials.reduce((most, bytes) => Math.max(most, bytes), 0);
}

function partialBytes(step: LoweredStep): number {
  if (step.k === "fusedColumns") return columnBytes(step);
  if (step.k !== "reduce" && step.k !== "dot") return scratchBytes(step);
  const count =
    step.k === "dot" ? dotPartials(step as unknown as DotFields) : reducePartials(step as unknown as ReduceFields);
  return count * dtypes[step["dtype"] as DType].bytes;
}

interface DotFields {
  readonly dtype: DType;
  readonly b: number;
  readonly m: number;
  readonly k2: number;
  readonly n: number;
}

/** A long contracted dim of a small product of floats is cut into pieces, at most 16. */
function dotPartials({ dtype, b, m, k2, n }: DotFields): number {
  const piece = 4096;
  const pieces = isFloat(dtype) && m * n <= 2 ** 14 && k2 >= 2 * piece ? Math.min(Math.floor(k2 / piece), 16) : 1;
  return pieces > 1 ? pieces * b * m * n : 0;
}

interface ReduceFields {
  readonly keep: readonly number[];
  readonly keepStrides: readonly number[];
  readonly over: readonly number[];
  readonly overStrides: readonly number[];
}

interface Dim {
  readonly size: number;
  readonly stride: number;
}

const product = (dims: readonly Dim[]): number => dims.reduce((total, { size }) => total * size, 1);

/** Elements of a run that are folded as one piece, work of one task, columns that are folded side by side. */
const [piece, task, width] = [2 ** 14, 2 ** 15, 256] as const;

function reducePartials({ keep, keepStrides, over, overStrides }: ReduceFields): number {
  const outputs = keep.reduce((total, size) => total * size, 1);
  if (outputs * over.reduce((total, size) => total * size, 1) === 0) return 0;
  const [kept, folded] = [merged(keep, keepStrides), merged(over, overStrides)];
  const [columns, inner] = [kept.at(-1), folded.at(-1)];
  if (columns?.stride === 1 && columns.size >= 4 && inner !== undefined && inner.stride !== 1) {
    const outer = product(kept.slice(0, -1));
    const chunks = chunksOf(outer, columns.size, product(folded));
    return chunks > 1 ? outer * chunks * columns.size : 0;
  }
  return rowPartials(folded, outputs);
}

/** Into how many chunks rows are cut that are folded to `outer` times `columns` values. */
function chunksOf(outer: number, columns: number, rows: number): number {
  const work = Math.min(Math.floor((rows * columns) / task), Math.floor(rows / 64));
  return outer * Math.ceil(columns / width) >= 16 ? 1 : Math.min(Math.max(work, 1), 32);
}

/** The chunks' results of each fold. */
function columnBytes(step: LoweredStep): number {
  const [rows, ...kept] = step["shape"] as [number, ...number[]];
  const outs = step["out"] as readonly FusedOperand[];
  const isFold = ({ strides }: FusedOperand): boolean => strides.length === kept.length;
  const operands = [...(step["in"] as readonly FusedOperand[]), ...outs].map((one) =>
    isFold(one) ? one.strides : one.strides.slice(1),
  );
  const outputs = kept.reduce((total, size) => total * size, 1);
  const columns = innermost(kept, operands);
  const chunks = chunksOf(outputs / columns, columns, rows);
  if (chunks === 1 || outputs === 0) return 0;
  const bytes = outs.filter(isFold).map(({ dtype }) => chunks * outputs * dtypes[dtype].bytes);
  return bytes.reduce((total, one) => total + Math.ceil(one / alignment) * alignment, 0);
}

/** Size of the innermost dim after those are merged that all operands walk as one. */
function innermost(sizes: readonly number[], operands: readonly (readonly number[])[]): number {
  let inner = 1;
  let next: number[] | undefined;
  for (let dim = sizes.length - 1; dim >= 0; dim--) {
    const size = sizes[dim] as number;
    if (size === 1) continue;
    const strides = operands.map((one) => one[dim] as number);
    if (next !== undefined && strides.some((stride, index) => stride !== next?.[index])) break;
    inner *= size;
    next = strides.map((stride) => stride * size);
  }
  return inner;
}

function rowPartials(folded: readonly Dim[], outputs: number): number {
  const length = folded.at(-1)?.size ?? 1;
  const runs = product(folded.slice(0, -1));
  const pieces = runs * Math.max(Math.ceil(length / piece), 1);
  const group = 2 ** Math.ceil(Math.log2(Math.floor(piece / Math.min(Math.max(length, 1), piece))));
  const apart = outputs < 64 && pieces > group && outputs * length * runs > 4 * task;
  return apart ? outputs * Math.ceil(pieces / group) : 0;
}

/** Dims that are one run in memory are one dim. */
function merged(sizes: readonly number[], strides: readonly number[]): Dim[] {
  const dims: Dim[] = [];
  sizes.forEach((size, index) => {
    if (size === 1) return;
    const stride = strides[index] as number;
    const last = dims.at(-1);
    if (last !== undefined && last.stride === stride * size) dims[dims.length - 1] = { size: last.size * size, stride };
    else dims.push({ size, stride });
  });
  return dims;
}
