/**
 * @module What is known of values that are made from the gradient of a lookup: which rows may differ from what the value
 * is where the gradient is zero, and what that is.
 */

import { dtypes, isFloat } from "../ir/dtype.ts";
import type { HostTensor, Node } from "../ir/node.ts";
import { sameShape, type TensorType } from "../ir/shape.ts";
import { type Combination, evaluateNode, identityOf } from "../ops/index.ts";
import { attr, input, isAll, isOp, isPointwise, repeatedValue } from "./match.ts";

/** What a value is in a row that no lookup has touched: a number, what another value is there, or not known. */
export type AtZero = number | Node | undefined;

/** A value whose rows depend on the same rows of some gradients of lookups. */
export interface RowFact {
  readonly kind: "rows";
  /** The sums by index that it is made from, in order. */
  readonly sources: readonly Node[];
  readonly atZero: AtZero;
}

/** A value combined over the rows of one that is made from gradients of lookups. */
export interface FoldFact {
  readonly kind: "fold";
  readonly sources: readonly Node[];
  /** What the combined value is in rows that are not touched. */
  readonly atZero: number;
}

export type Fact = RowFact | FoldFact;

/** Whether the fact says that a value is another one but for rows that were touched. */
export const isUpdate = (node: Node, fact: Fact | undefined): fact is RowFact & { readonly atZero: Node } => {
  const base = fact?.kind === "rows" ? fact.atZero : undefined;
  return typeof base === "object" && base.dtype === node.dtype && sameShape(base.shape, node.shape);
};

/** The gradient of a lookup: rows that are added up by index in zeros. */
export interface Source {
  readonly updates: Node;
  readonly indices: Node;
  /** Of a table of `total` rows of which this device holds some: the first of them. */
  readonly start?: Node;
  readonly total?: number;
}

/** What a sum by index is made of; undefined where the node is none that is empty at first. */
export function sourceOf(node: Node): Source | undefined {
  const [first, second, third] = node.inputs as [Node, Node, Node];
  if (node.attrs["batchDims"] !== 0) return undefined;
  if (isOp(node, "scatterAdd")) return { updates: first, indices: second };
  if (isOp(node, "scatterAddPart"))
    return { updates: first, indices: second, start: third, total: attr<number>(node, "total") };
  const sums = isOp(node, "scatter") && attr(node, "op") === "sum" && isAll(first, 0);
  return sums ? { updates: third, indices: second } : undefined;
}

/** Facts of the nodes, which are in topological order; a node without one has nothing to do with lookups. */
export function factsOf(nodes: readonly Node[]): Map<Node, Fact> {
  const facts = new Map<Node, Fact>();
  for (const node of nodes) {
    const fact =
      sourceOf(node) !== undefined ? { kind: "rows" as const, sources: [node], atZero: 0 } : derived(node, facts);
    if (fact !== undefined) facts.set(node, fact);
  }
  return facts;
}

function derived(node: Node, facts: ReadonlyMap<Node, Fact>): Fact | undefined {
  const sources = new Set<Node>();
  for (const one of node.inputs) {
    const fact = facts.get(one);
    // What is another value but for few rows is a value to those who read it, as that one is.
    if (fact?.kind === "rows" && !isUpdate(one, fact)) for (const source of fact.sources) sources.add(source);
  }
  if (sources.size === 0) return undefined;
  const given = node.inputs.map((one) => valueAtZero(one, facts.get(one)));
  const own = { sources: [...sources].sort((left, right) => left.id - right.id) };
  if (isPointwise(node)) return { kind: "rows", ...own, atZero: pointwiseAtZero(node, given) };
  const [first] = given;
  const value = typeof first === "number" ? first : undefined;
  if (keepsRows(node)) return { kind: "rows", ...own, atZero: value === undefined ? undefined : combined(node, value) };
  const folds = isOp(node, "reduce") && value !== undefined && canFold(node, value);
  return folds ? { kind: "fold", ...own, atZero: value } : undefined;
}

/** Whether row i of the result is made from row i of the one input alone, and equal rows give equal rows. */
export function keepsRows(node: Node): boolean {
  switch (node.op.name) {
    case "broadcast":
      return attr<readonly number[]>(node, "dims")[0] === 0 && input(node).shape[0] === node.shape[0];
    case "reshape":
      return node.shape.length > 0 && node.shape[0] === input(node).shape[0];
    case "reduce":
      return !attr<readonly number[]>(node, "dims").includes(0);
    default:
      return false;
  }
}

/** What many elements of one value combine to. */
function combined(node: Node, value: number): number | undefined {
  if (!isOp(node, "reduce")) return value;
  const op = attr<Combination>(node, "op");
  if (op === "sum") return value === 0 ? 0 : undefined;
  return op === "prod" && value !== 0 && value !== 1 ? undefined : value;
}

/** Whether rows of this value add nothing to what is combined, or are one more value to combine. */
function canFold(node: Node, value: number): boolean {
  const op = attr<Combination>(node, "op");
  return op === "max" || op === "min" || Object.is(Math.abs(value), Number(identityOf(op, node.dtype)));
}

function valueAtZero(node: Node, fact: Fact | undefined): AtZero {
  if (fact?.kind === "rows" && !isUpdate(node, fact)) return fact.atZero;
  return repeatedValue(node) ?? node;
}

/** What a pointwise function gives for what its operands are; zero times anything is zero, as for a sparse gradient. */
function pointwiseAtZero(node: Node, given: readonly AtZero[]): AtZero {
  if (given.every((value): value is number => typeof value === "number")) return evaluated(node, given);
  const [x, y, z] = given;
  const float = isFloat(node.dtype);
  switch (node.op.name) {
    case "mul":
      return x === 0 || y === 0 ? 0 : undefined;
    case "div":
      return float && x === 0 ? 0 : undefined;
    case "add":
      return x === 0 ? y : y === 0 ? x : undefined;
    case "sub":
      return y === 0 ? x : undefined;
    case "select":
      if (typeof x === "number") return x !== 0 ? y : z;
      return y === z ? y : undefined;
    case "and":
      return node.dtype === "bool" && (x === 0 || y === 0) ? 0 : undefined;
    default:
      return undefined;
  }
}

/** The function of numbers; undefined where that is no number to go on with. */
function evaluated(node: Node, given: readonly number[]): number | undefined {
  const inputs = node.inputs.map(({ dtype }, index): HostTensor => {
    const type: TensorType = { dtype, shape: [] };
    return { ...type, data: dtypes[dtype].create([given[index] as number]) };
  });
  const [result] = evaluateNode({ ...node, types: [{ dtype: node.dtype, shape: [] }] }, inputs);
  const value: unknown = result?.data[0];
  return typeof value === "number" && !Number.isNaN(value) ? value + 0 : undefined;
}
