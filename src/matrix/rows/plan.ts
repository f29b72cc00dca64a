/**
 * @module Which steps of a matrix program go over many rows together, a block of rows at a time: products, row functions and sums whose
 * operands then lie in the cache, so that memory is read once (`mmchain` and the row templates of SystemML: Elgamal et al., 2017).
 */

import { cells, isSize, type MatrixAttrs, type Operator, type RowDim, type Size } from "../expression.ts";

/** One operation of a program: its operands are the program's inputs, then the results of earlier operations. */
export interface Step {
  readonly operator: Operator;
  readonly attrs: MatrixAttrs;
  readonly size: Size;
  readonly operands: readonly number[];
}

/** A program of steps. */
export interface Steps {
  /** Sizes of the inputs; undefined for what is no matrix of f64. */
  readonly inputs: readonly (Size | undefined)[];
  readonly steps: readonly Step[];
  /** The numbers of the results. */
  readonly outputs: readonly number[];
}

/** Steps that go over the rows together. Values have numbers: those of the inputs come first, then those of the steps. */
export interface Pass {
  /** The number of rows. */
  readonly length: number;
  /** Values of which each block of rows is read. */
  readonly stacks: readonly number[];
  /** What is computed of each block, in order, sums included. */
  readonly values: readonly number[];
  /** What is added up over the blocks, and is all that other steps read. */
  readonly sums: readonly number[];
}

/** Steps that are computed whole, and then a pass, if there is one. */
export interface Stage {
  readonly values: readonly number[];
  readonly pass?: Pass;
}

/** A pass for people, with the numbers that values have in the program's text. */
export const textOfPass = ({ length, stacks, values, sums }: Pass): string =>
  `${values.join(" ")} in blocks of the ${length} rows of ${stacks.join(" ")}, summed up to ${sums.join(" ")}`;

/** Where a value is computed, and along which dim its rows lie. */
interface Place {
  readonly at: "before" | "rows" | "sum" | "after";
  readonly dim?: RowDim | undefined;
  /** Whether no row function can read it: of a square matrix of rows, or a wide one, blocks are no rows. */
  readonly closed?: boolean;
}

/** Fewer bytes stay in the cache from step to step. */
const leastBytes = 2 ** 21;
/** Fewer rows make too few blocks. */
const leastRows = 4096;
/** A larger sum is read and written with each block for longer than the block itself. */
const mostSum = 2 ** 12;

/** The stages of a program: passes over rows where they save reading memory, and everything else. */
export function planRows({ inputs, steps, outputs }: Steps): readonly Stage[] {
  const first = inputs.length;
  const sizes = [...inputs, ...steps.map(({ size }) => size)];
  const stages: Stage[] = [];
  const ready = new Set(inputs.keys());
  let left = steps.map((_step, index) => first + index);
  for (;;) {
    const search = { sizes, steps, first, outputs, ready, left };
    const found = lengthsOf(sizes, ready)
      .map((length) => passOver(length, search))
      .find((pass) => pass !== undefined);
    if (found === undefined) break;
    const { pass, before } = found;
    stages.push({ values: before, pass });
    for (const value of [...before, ...pass.sums]) ready.add(value);
    const gone = new Set(pass.values.filter((value) => (steps[value - first] as Step).operator.view !== true));
    left = left.filter((value) => !ready.has(value) && !gone.has(value));
  }
  return [...stages, { values: left }];
}

/** Numbers of rows that are worth a pass, the largest first. */
function lengthsOf(sizes: readonly (Size | undefined)[], ready: ReadonlySet<number>): readonly number[] {
  const lengths = [...ready].flatMap((value) => {
    const size = sizes[value];
    return size !== undefined && size[0] >= leastRows && size[0] > size[1] ? [size[0]] : [];
  });
  return [...new Set(lengths)].sort((a, b) => b - a);
}

interface Search {
  readonly sizes: readonly (Size | undefined)[];
  readonly steps: readonly Step[];
  readonly first: number;
  readonly outputs: readonly number[];
  readonly ready: ReadonlySet<number>;
  /** Steps that are not planned yet. */
  readonly left: readonly number[];
}

function passOver(
  length: number,
  search: Search,
): { readonly pass: Pass; readonly before: readonly number[] } | undefined {
  const { sizes, steps, first, left } = search;
  const places = placesOf(length, search);
  const sums = left.filter((value) => places.get(value)?.at === "sum");
  const needed = new Set(sums);
  for (const value of [...left].reverse())
    if (needed.has(value)) for (const operand of (steps[value - first] as Step).operands) needed.add(operand);
  const values = left.filter((value) => needed.has(value) && places.get(value)?.at !== "before");
  const isStack = (value: number): boolean => {
    const { at, dim } = places.get(value) as Place;
    return at === "before" && dim === 0;
  };
  const stacks = [...new Set(values.flatMap((value) => (steps[value - first] as Step).operands.filter(isStack)))];
  const bytes = stacks.reduce((sum, value) => sum + 8 * cells(sizes[value] as Size), 0);
  // Elementwise functions join their neighbours anyway; each of the others reads memory anew.
  const readers = values.filter((value) => (steps[value - first] as Step).operator.reads === true).length;
  if (sums.length === 0 || readers < 2 || bytes < leastBytes) return undefined;
  const before = left.filter((value) => needed.has(value) && places.get(value)?.at === "before");
  return { pass: { length, stacks, values, sums }, before };
}

/** The place of each value. What others need whole is computed before the pass, with all that it is made of. */
function placesOf(length: number, { sizes, steps, first, outputs, ready, left }: Search): ReadonlyMap<number, Place> {
  const whole = new Set<number>();
  const outside = (value: number): Place => {
    const size = sizes[value];
    const kept = value >= first && (steps[value - first] as Step).operator.kept === true;
    const closed = kept || size === undefined || size[1] === length;
    return { at: "before", closed, dim: !closed && size[0] === length ? 0 : undefined };
  };
  for (;;) {
    const before = whole.size;
    const places = new Map<number, Place>();
    for (const value of ready) places.set(value, outside(value));
    const needWhole = (value: number): void => {
      if (places.get(value)?.at !== "rows" || whole.has(value)) return;
      const { operator, operands } = steps[value - first] as Step;
      // A view is there both for the pass and for others.
      if (operator.view !== true) whole.add(value);
      operands.forEach(needWhole);
    };
    for (const value of left) {
      const step = steps[value - first] as Step;
      const operands = step.operands.map((operand) => places.get(operand) as Place);
      const place = placeOf(step, operands, length);
      if (place === undefined || place.at === "after") step.operands.forEach(needWhole);
      places.set(value, place === undefined || whole.has(value) ? outside(value) : place);
    }
    outputs.forEach(needWhole);
    if (whole.size === before) return places;
  }
}

/** The place of a step's value; undefined if it is computed whole, before the pass. */
function placeOf({ operator, attrs, size }: Step, operands: readonly Place[], length: number): Place | undefined {
  if (operands.some(({ at }) => at === "sum" || at === "after")) return { at: "after" };
  const dims = operands.map(({ dim }) => dim);
  if (dims.every((dim) => dim === undefined) || operands.some(({ closed }) => closed)) return undefined;
  const dim = operator.rows?.(dims, attrs);
  if (dim === undefined || isSize(size, length, length)) return undefined;
  if (dim === "sum") return cells(size) > mostSum ? undefined : { at: "sum" };
  return { at: "rows", dim };
}
