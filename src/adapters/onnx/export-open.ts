/**
 * @module Open sizes of an exported graph. Graphs of Heddle have known sizes, so the function is traced several times, with other
 * numbers for each open size; where what is written differs, the numbers are computed from the shapes of the inputs instead.
 */

import { HeddleError } from "../../extend/index.ts";
import { type DType, dtypes, type TensorType } from "../../ir/index.ts";
import type { GraphWriter } from "./graph-writer.ts";
import type { Dimension, GraphProto, NodeProto, TensorProto } from "./messages.ts";
import { codeOfDType, dtypeOfCode, hostOfProto, int64 } from "./tensors.ts";

/** Shape and dtype of an input; sizes that are names are open, and equal where the names are. */
export interface OpenType {
  readonly shape: readonly (number | string)[];
  readonly dtype: DType;
}

/** Whether a size is a name, such as `"batch"`. */
export const isOpenSize = (size: unknown): size is string => typeof size === "string" && /^[A-Za-z_]\w*$/.test(size);

/** A number for each open size. */
export type Sizes = ReadonlyMap<string, number>;

/** A graph that was written with some sizes. */
export interface Trial {
  readonly sizes: Sizes;
  readonly graph: GraphProto;
}

/** Primes from 101 on, so that no size is a multiple of another. */
function* primes(): Generator<number> {
  for (let number = 101; ; number += 2) {
    let factor = 3;
    while (factor * factor <= number && number % factor !== 0) factor += 2;
    if (factor * factor > number) yield number;
  }
}

/** The open sizes of inputs. */
export const openNames = (types: Iterable<OpenType>): string[] => [
  ...new Set([...types].flatMap(({ shape }) => shape.filter((size) => typeof size === "string"))),
];

/**
 * The trials' numbers for the open sizes: a first set, the first set with one size changed for each size, and a set
 * with all sizes changed. They show what depends on which size, and how.
 */
export function trialSizes(names: readonly string[]): Sizes[] {
  const next = primes();
  const numbers = (): Map<string, number> => new Map(names.map((name) => [name, next.next().value as number]));
  const [first, second, third] = [numbers(), numbers(), numbers()];
  if (names.length === 0) return [first];
  const changed = names.map((name) => new Map(first).set(name, second.get(name) as number));
  return [first, ...changed, third];
}

/** A type with numbers in place of names. */
export const typeWith = ({ shape, dtype }: OpenType, sizes: Sizes): TensorType => ({
  dtype,
  shape: shape.map((size) => (typeof size === "string" ? (sizes.get(size) as number) : size)),
});

/** A number that depends on sizes: `start` and the sum of the terms, each a factor times the product of the sizes that it names. */
interface Form {
  readonly start: number;
  readonly terms: readonly { readonly factor: number; readonly names: readonly string[] }[];
}

/** Merges the graphs of all trials into one whose numbers are computed from the sizes of its inputs. */
class Merged {
  readonly #what: string;
  readonly #trials: readonly Trial[];
  readonly #inputs: { readonly [name: string]: OpenType };
  readonly #writer: GraphWriter;
  readonly #computed = new Map<string, string>();

  /** @param writer collects the nodes that compute numbers */
  constructor(
    what: string,
    trials: readonly Trial[],
    inputs: { readonly [name: string]: OpenType },
    writer: GraphWriter,
  ) {
    this.#what = what;
    this.#trials = trials;
    this.#inputs = inputs;
    this.#writer = writer;
  }

  graph(): GraphProto {
    const graphs = this.#trials.map(({ graph }) => graph);
    const node = this.#zipped(
      graphs.map((graph) => graph.node),
      "nodes",
    ).flatMap((nodes) => this.#node(nodes));
    const rest = this.#same(
      graphs.map((graph) => ({ ...graph, node: [] })),
      "a weight",
    ) as GraphProto;
    return { ...rest, node: [...this.#writer.nodes, ...node] };
  }

  #refused(what: string): HeddleError {
    const names = [...(this.#trials[0] as Trial).sizes.keys()].join(", ");
    return new HeddleError(
      "op",
      `${this.#what}: ${what} depends on an open size (${names}) in a way that cannot be written`,
      {
        hint: "give that size as a number",
      },
    );
  }

  /** Items at the same position of lists that must be equally long. */
  #zipped<T>(lists: readonly (readonly T[])[], what: string): T[][] {
    const [first] = lists as [readonly T[]];
    if (lists.some((list) => list.length !== first.length)) throw this.#refused(`how many ${what} there are`);
    return first.map((_item, index) => lists.map((list) => list[index] as T));
  }

  #node(nodes: readonly NodeProto[]): NodeProto[] {
    const [first] = nodes as [NodeProto];
    const tensors = nodes.map((node) => node.attribute.find(({ t }) => t !== undefined)?.t);
    if (nodes.some((node) => node.opType !== first.opType)) throw this.#refused("which nodes there are");
    if (first.opType !== "Constant" || equal(tensors)) return [this.#same(nodes, first.opType ?? "") as NodeProto];
    this.#constant(first.output[0] as string, tensors as TensorProto[]);
    return [];
  }

  /** The part that is the same in all trials; open sizes in the shapes of values become names. */
  #same(values: readonly unknown[], what: string): unknown {
    const [first] = values;
    if (equal(values)) return first;
    if (Array.isArray(first)) return this.#zipped(values as unknown[][], what).map((items) => this.#same(items, what));
    if (typeof first !== "object" || first === null || ArrayBuffer.isView(first)) throw this.#refused(what);
    if ("dimValue" in first) return this.#dimension(values as Dimension[]);
    const named = Object.keys(first).map((key) => {
      const items = values.map((value) => (value as Record<string, unknown>)[key]);
      return [key, this.#same(items, what)];
    });
    return Object.fromEntries(named);
  }

  #dimension(values: readonly Dimension[]): Dimension {
    const form = this.#formOf(values.map(({ dimValue = 0 }) => dimValue));
    const [term] = form?.terms ?? [];
    const plain = form?.start === 0 && form.terms.length === 1 && term?.factor === 1 && term.names.length === 1;
    return plain ? { dimParam: term.names[0] as string } : {};
  }

  /**
   * The form by which a number follows from the sizes: a product or a sum of the sizes that it depends on; undefined
   * for other forms.
   */
  #formOf(values: readonly number[]): Form | undefined {
    const trials = this.#trials.map(({ sizes }) => sizes);
    const [first] = trials as [Sizes];
    const names = [...first.keys()].filter((_name, index) => values[index + 1] !== values[0]);
    const groups = [names.length === 0 ? [] : [names], names.map((name) => [name])];
    return groups.map((terms) => fitted(values, trials, terms)).find((form) => form !== undefined);
  }

  /** Adds nodes that compute a constant which differs between the trials, under its name. */
  #constant(name: string, tensors: readonly TensorProto[]): void {
    const writer = this.#writer;
    const hosts = tensors.map((tensor) => hostOfProto(tensor, this.#what));
    const dtype = dtypeOfCode((tensors[0] as TensorProto).dataType ?? 0, this.#what);
    const shapes = hosts.map(({ shape }) => shape);
    const lists = hosts.map(({ data }) => Array.from(data as ArrayLike<number>, Number));
    if (!equal(shapes)) {
      if (lists.some((list) => list.some((value, index) => value !== index))) throw this.#refused("a constant");
      writer.addAs(name, "Reshape", [this.#positions(lists, dtype), this.#vector(this.#zipped(shapes, "dims"))]);
      return;
    }
    const columns = this.#zipped(lists, "numbers");
    const [shape] = shapes as [readonly number[]];
    if (dtype === int64 && shape.length === 1) {
      writer.addAs(name, "Identity", [this.#vector(columns)]);
      return;
    }
    if (columns.length !== 1) throw this.#refused("a constant");
    const number = this.#number(columns[0] as number[], dtype);
    writer.addAs(name, "Reshape", [number, writer.add("Constant", [], { value_ints: [...shape] })]);
  }

  /** 0, 1, 2, …: as many numbers as the lists have. */
  #positions(lists: readonly (readonly number[])[], dtype: DType): string {
    const writer = this.#writer;
    const count = this.#count(lists.map(({ length }) => length));
    const scalar = (value: number): string => writer.add("Constant", [], { value_int: value });
    const numbers = writer.add("Range", [scalar(0), writer.add("Squeeze", [count]), scalar(1)]);
    return this.#cast(numbers, dtype);
  }

  #cast = (name: string, dtype: DType): string =>
    dtype === int64 ? name : this.#writer.add("Cast", [name], { to: codeOfDType(dtype) });

  /** An int64 vector of numbers; each column has the values of one number in all trials. */
  #vector(columns: readonly (readonly number[])[]): string {
    const parts = columns.map((column) => this.#count(column));
    return parts.length === 1 ? (parts[0] as string) : this.#writer.add("Concat", parts, { axis: 0 });
  }

  /** A number that follows from the sizes, or whose reciprocal does, as the divisor of a mean. */
  #number(values: readonly number[], dtype: DType): string {
    if (this.#formOf(values) !== undefined) return this.#cast(this.#count(values), dtype);
    const inverse = values.map((value) => Math.round(1 / value));
    const round = (value: number): number => Number(dtypes[dtype].create([value])[0]);
    if (inverse.some((value, index) => round(1 / value) !== values[index])) throw this.#refused("a constant");
    return this.#writer.add("Reciprocal", [this.#cast(this.#count(inverse), dtype)]);
  }

  /** A vector of one int64 that follows from the sizes. */
  #count(values: readonly number[]): string {
    const form = this.#formOf(values);
    if (form === undefined) throw this.#refused(`a size (such as ${values[0]})`);
    const { start, terms } = form;
    const key = JSON.stringify(form);
    const known = this.#computed.get(key);
    if (known !== undefined) return known;
    const writer = this.#writer;
    const constant = (value: number): string => writer.add("Constant", [], { value_ints: [value] });
    const products = terms.map(({ factor, names }) => {
      const sizes = names.map((name) => this.#size(name));
      return [...sizes, ...(factor === 1 ? [] : [constant(factor)])].reduce((x, y) => writer.add("Mul", [x, y]));
    });
    const parts = start === 0 && products.length > 0 ? products : [...products, constant(start)];
    const sum = parts.reduce((x, y) => writer.add("Add", [x, y]));
    this.#computed.set(key, sum);
    return sum;
  }

  /** An open size as an int64 vector, taken from the shape of an input. */
  #size(name: string): string {
    const known = this.#computed.get(name);
    if (known !== undefined) return known;
    for (const [input, { shape }] of Object.entries(this.#inputs)) {
      const dim = shape.indexOf(name);
      if (dim < 0) continue;
      const size = this.#writer.add("Shape", [input], { start: dim, end: dim + 1 });
      this.#computed.set(name, size);
      return size;
    }
    throw new HeddleError("argument", `${this.#what}: no input has the size "${name}"`);
  }
}

/**
 * The form with these terms that gives the values of all trials; undefined where there is none, or where its factors
 * are not whole numbers.
 */
function fitted(
  values: readonly number[],
  trials: readonly Sizes[],
  terms: readonly (readonly string[])[],
): Form | undefined {
  const products = trials.map((sizes) =>
    terms.map((names) => names.reduce((by, name) => by * (sizes.get(name) as number), 1)),
  );
  const [base, [firstProducts]] = [values[0] as number, products as [number[]]];
  const factors = firstProducts.map((product, term) => {
    // The trial in which this term alone differs.
    const at = products.findIndex((all) =>
      all.every((other, index) => (other === firstProducts[index]) === (index !== term)),
    );
    return ((values[at] as number) - base) / ((products[at]?.[term] as number) - product);
  });
  const sum = (all: readonly number[]): number =>
    all.reduce((by, product, term) => by + (factors[term] as number) * product, 0);
  const start = base - sum(firstProducts);
  const fits = values.every((value, index) => start + sum(products[index] as number[]) === value);
  if (!fits || !factors.every(Number.isSafeInteger)) return undefined;
  return { start, terms: terms.map((names, term) => ({ factor: factors[term] as number, names })) };
}

/** Whether all values are equal, compared deeply. */
function equal(values: readonly unknown[]): boolean {
  const [first, ...others] = values;
  return others.every((other) => alike(first, other));
}

function alike(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (left instanceof Uint8Array || right instanceof Uint8Array)
    return left instanceof Uint8Array && right instanceof Uint8Array && Buffer.compare(left, right) === 0;
  const [a, b] = [left as Record<string, unknown>, right as Record<string, unknown>];
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => alike(a[key], b[key]));
}

/**
 * Merges the graphs of several trials.
 *
 * @throws HeddleError `op` where a number depends on a size other than by sums or products of sizes, with factors and a
 * term.
 */
export const merged = (
  what: string,
  trials: readonly Trial[],
  inputs: { readonly [name: string]: OpenType },
  writer: GraphWriter,
): GraphProto => new Merged(what, trials, inputs, writer).graph();
