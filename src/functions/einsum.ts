/** @module The function `einsum`. */

import type { Node } from "../ir/node.ts";
import { broadcastShapes, formatShape, formatType, range, type Shape, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** An operand with a name for each dim; the dims of `...` are named by their position from the right. */
interface Term {
  readonly node: Node;
  readonly letters: readonly string[];
}

const fail = (spec: string, problem: string, hint?: string): HeddleError =>
  new HeddleError("shape", problem, { by: `einsum '${spec}'`, ...(hint === undefined ? {} : { hint }) });

const placeName = (fromRight: number): string => `.${fromRight}`;

function lettersOf(spec: string, term: string): string[] {
  const parts = term.split("...");
  if (parts.length > 2 || !/^[a-zA-Z]*$/.test(parts.join("")))
    throw fail(spec, `'${term}' is not letters with at most one '...'`, "as in 'bij,bjk->bik'");
  return parts.length === 1 ? [...term] : [...(parts[0] as string), "...", ...(parts[1] as string)];
}

/** The names of an operand's dims. */
function named(spec: string, term: string, node: Node, index: number): Term {
  const letters = lettersOf(spec, term);
  const rank = node.shape.length;
  const count = letters.length - (letters.includes("...") ? 1 : 0);
  if (count > rank || (count < rank && !letters.includes("...")))
    throw fail(spec, `operand ${index} is ${formatType(node)}, but '${term}' names ${count} dims`);
  const open = rank - count;
  return {
    node,
    letters: letters.flatMap((letter) =>
      letter === "..." ? range(open).map((position) => placeName(open - 1 - position)) : letter,
    ),
  };
}

/** The common shape of the dims under `...`. */
function openShape(spec: string, terms: readonly Term[]): Shape {
  return terms.reduce<Shape>((shape, { node, letters }) => {
    const openSizes = letters.flatMap((letter, dim) => (letter.startsWith(".") ? [node.shape[dim] as number] : []));
    const joined = broadcastShapes(shape, openSizes);
    if (joined === undefined)
      throw fail(spec, `the dims under '...' do not broadcast: ${formatShape(shape)} and ${formatShape(openSizes)}`);
    return joined;
  }, []);
}

function outputLetters(spec: string, right: string | undefined, terms: readonly Term[], open: Shape): string[] {
  const openNames = range(open.length).map((index) => placeName(open.length - 1 - index));
  const all = terms.flatMap(({ letters }) => letters.filter((letter) => !letter.startsWith(".")));
  if (right === undefined) {
    const once = [...new Set(all)].filter((letter) => all.filter((other) => other === letter).length === 1);
    return [...openNames, ...once.sort()];
  }
  const letters = lettersOf(spec, right);
  for (const letter of letters) {
    if (letter !== "..." && !all.includes(letter)) throw fail(spec, `'${letter}' of the result is in no operand`);
    if (letters.filter((other) => other === letter).length > 1)
      throw fail(spec, `'${letter}' is in the result more than once`);
  }
  return letters.flatMap((letter) => (letter === "..." ? openNames : letter));
}

/** The diagonal of each pair of dims with one name. */
function diagonal(spec: string, { node, letters }: Term): Term {
  const second = letters.findIndex((letter, dim) => letters.indexOf(letter) < dim);
  if (second < 0) return { node, letters };
  const first = letters.indexOf(letters[second] as string);
  const { shape } = node;
  if (shape[first] !== shape[second])
    throw fail(spec, `'${letters[first]}' is ${shape[first]} and ${shape[second]} in ${formatType(node)}`);
  const here = ops.eq(ops.iota("i32", shape, first), ops.iota("i32", shape, second));
  const onDiagonal = ops.sum(ops.select(here, node, ops.zerosLike(node)), second);
  return diagonal(spec, { node: onDiagonal, letters: letters.filter((_letter, dim) => dim !== second) });
}

/** Drops the dims of size 1 that other operands broadcast. */
function squeezed({ node, letters }: Term, open: Shape): Term {
  const spread = (letter: string, dim: number): boolean =>
    letter.startsWith(".") && node.shape[dim] === 1 && open[open.length - 1 - Number(letter.slice(1))] !== 1;
  const keptDims = range(letters.length).filter((dim) => !spread(letters[dim] as string, dim));
  return {
    node: ops.reshape(
      node,
      keptDims.map((dim) => node.shape[dim] as number),
    ),
    letters: keptDims.map((dim) => letters[dim] as string),
  };
}

function checkSizes(spec: string, terms: readonly Term[]): void {
  const sizes = new Map<string, number>();
  for (const { node, letters } of terms) {
    letters.forEach((letter, dim) => {
      const size = node.shape[dim] as number;
      const known = sizes.get(letter) ?? size;
      if (known !== size) throw fail(spec, `'${letter}' is ${known} and ${size}`);
      sizes.set(letter, size);
    });
  }
}

/** The two terms whose product is smallest, as positions. */
function cheapest(terms: readonly Term[], out: readonly string[]): readonly [number, number] {
  let best: readonly [number, number] = [0, 1];
  let least = Infinity;
  for (const left of range(terms.length)) {
    for (const right of range(terms.length).slice(left + 1)) {
      const size = sizeOf(keptShape(terms, left, right, out));
      if (size < least) {
        least = size;
        best = [left, right];
      }
    }
  }
  return best;
}

function keptLetters(terms: readonly Term[], left: number, right: number, out: readonly string[]): string[] {
  const others = terms.flatMap(({ letters }, index) => (index === left || index === right ? [] : letters));
  const both = [...(terms[left] as Term).letters, ...(terms[right] as Term).letters];
  return [...new Set(both)].filter((letter) => out.includes(letter) || others.includes(letter));
}

function keptShape(terms: readonly Term[], left: number, right: number, out: readonly string[]): number[] {
  const size = (letter: string): number => {
    const { node, letters } = [terms[left] as Term, terms[right] as Term].find((term) =>
      term.letters.includes(letter),
    ) as Term;
    return node.shape[letters.indexOf(letter)] as number;
  };
  return keptLetters(terms, left, right, out).map(size);
}

function product(spec: string, operands: readonly Node[]): Node {
  const [left = "", right, ...more] = spec.replaceAll(" ", "").split("->");
  const names = left.split(",");
  if (more.length > 0 || names.length !== operands.length)
    throw fail(spec, `names ${names.length} operands, got ${operands.length}`);
  const terms = operands.map((node, index) => named(spec, names[index] as string, node, index));
  const open = openShape(spec, terms);
  const out = outputLetters(spec, right, terms, open);
  let factors = terms.map((term) => squeezed(diagonal(spec, term), open));
  checkSizes(spec, factors);
  while (factors.length > 1) {
    const [i, j] = cheapest(factors, out);
    const letters = keptLetters(factors, i, j, out);
    const [x, y] = [factors[i] as Term, factors[j] as Term];
    const node = ops.einsumPair(x.node, x.letters, y.node, y.letters, letters);
    factors = [...factors.filter((_term, index) => index !== i && index !== j), { node, letters }];
  }
  const [{ node, letters }] = factors as [Term];
  const summed = letters.flatMap((letter, dim) => (out.includes(letter) ? [] : [dim]));
  const remaining = letters.filter((letter) => out.includes(letter));
  // A dim under '...' that has size 1 in every operand was not dropped, so no dim is missing here.
  return ops.transpose(
    summed.length === 0 ? node : ops.sum(node, summed),
    out.map((letter) => remaining.indexOf(letter)),
  );
}

/**
 * NumPy's and PyTorch's `einsum`: the product of the operands, summed over the letters that the result does not have.
 *
 *     einsum("ij,jk->ik", a, b)      // a matrix product
 *     einsum("...ij,...kj->...ik", q, k)
 *     einsum("ii", a)                // the trace
 *
 * A letter that an operand has twice takes the diagonal. Without `->` the result has the letters that occur once, in alphabetical
 * order. Dims under `...` broadcast. Of more than two operands, the pair with the smallest product is multiplied first.
 *
 * @param spec letters of each operand's dims, separated by commas, and of the result after `->`
 * @param operands tensors of one dtype
 * @throws HeddleError `shape` if letters, ranks or sizes do not fit together; `argument` unless the letters are a string
 */
export function einsum(spec: string, ...operands: readonly Tensor[]): Tensor {
  if (typeof spec !== "string")
    throw new HeddleError("argument", `einsum: the letters are ${shown(spec)}, not a string`);
  return operate(`einsum ${spec}`, (...nodes: Node[]) => product(spec, nodes), operands);
}
