/**
 * @module Facts about values that depend on the gradient of a lookup: the rows that may differ from the value at a zero
 * gradient, and that value.
 */

import { dtypes, isFloat } from "../ir/dtype.ts";
import type { HostTensor, Node } from "../ir/node.ts";
import { sameShape, type TensorType } from "../ir/shape.ts";
import { type Combination, evaluateNode, identityOf } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { attr, input, isAll, isOp, isPointwise, repeatedValue } from "./match.ts";

/** A value in a row that no lookup has touched: a number, the same row of another node, or unknown. */
export type AtZero = number | Node | undefined;

/** A value whose rows depend on the same rows of some gradients of lookups. */
export interface RowFact {
  readonly kind: "rows";
  /** The sums by index from which the value is computed, in order. */
  readonly sources: readonly Node[];
  readonly atZero: AtZero;
  /** The node that the value equals except in touched rows, if that node is computed anyway. */
  readonly base: Node | undefined;
}

/** A value combined over the rows of another value, which depends on gradients of lookups. */
export interface FoldFact {
  readonly kind: "fold";
  readonly sources: readonly Node[];
  /** The combined value's elements in rows that are not touched. */
  readonly atZero: number;
}

export type Fact = RowFact | FoldFact;

/** The node that a value equals except in few rows. */
export const baseOf = (fact: Fact | undefined): Node | undefined => (fact?.kind === "rows" ? fact.base : undefined);

/** The gradient of a lookup: rows that are added up by index in zeros. */
export interface Source {
  readonly updates: Node;
  readonly indices: Node;
  /** The first row that this device holds, of a table of `total` rows that is split. */
  readonly start?: Node;
  readonly total?: number;
}

/** The operands of a sum by index into zeros; undefined for other nodes. */
export function sourceOf(node: Node): Source | undefined {
  const [first, second, third] = node.inputs as [Node, Node, Node];
  if (node.attrs["batchDims"] !== 0) return undefined;
  if (isOp(node, "scatterAdd")) return { updates: first, indices: second };
  if (isOp(node, "scatterAddPart"))
    return { updates: first, indices: second, start: third, total: attr<number>(node, "total") };
  const sums = isOp(node, "scatter") && attr(node, "op") === "sum" && isAll(first, 0);
  return sums ? { updates: third, indices: second } : undefined;
}

/** Facts of the nodes, which are in topological order; a node without a fact does not depend on lookups. */
export function factsOf(nodes: readonly Node[]): Map<Node, Fact> {
  const facts = new Map<Node, Fact>();
  for (const node of nodes) {
    const fact =
      sourceOf(node) !== undefined
        ? { kind: "rows" as const, sources: [node], atZero: 0, base: undefined }
        : derived(node, facts);
    if (fact !== undefined) facts.set(node, fact);
  }
  return facts;
}

function derived(node: Node, facts: ReadonlyMap<Node, Fact>): Fact | undefined {
  const rows = node.inputs.map((operand) => facts.get(operand)).filter((fact) => fact?.kind === "rows");
  const updates = sourcesOf(rows.filter(({ base }) => base !== undefined));
  const sources = sourcesOf(rows.filter(({ base }) => base === undefined));
  // An update under a condition is an update of the same base.
  if (updates.length > 0 && sources.every((source) => updates.includes(source)) && isPointwise(node)) {
    const atZero = pointwiseAtZero(
      node,
      node.inputs.map((operand) => valueAtZero(operand, facts.get(operand), true)),
    );
    const base = heldBase(node, atZero, facts);
    if (base !== undefined) return { kind: "rows", sources: updates, atZero, base };
  }
  // Other ops see a value that equals its base except in few rows as one like the base.
  return sources.length === 0 ? undefined : derivedFrom(node, sources, facts);
}

const sourcesOf = (facts: readonly RowFact[]): Node[] =>
  [...new Set(facts.flatMap(({ sources }) => sources))].sort((left, right) => left.id - right.id);

function derivedFrom(node: Node, sources: readonly Node[], facts: ReadonlyMap<Node, Fact>): Fact | undefined {
  const operands = node.inputs.map((operand) => valueAtZero(operand, facts.get(operand), false));
  if (isPointwise(node)) {
    const atZero = pointwiseAtZero(node, operands);
    return { kind: "rows", sources, atZero, base: heldBase(node, atZero, facts) };
  }
  const value = typeof operands[0] === "number" ? operands[0] : undefined;
  if (keepsRows(node)) {
    const atZero = value === undefined ? undefined : combined(node, value);
    return { kind: "rows", sources, atZero, base: undefined };
  }
  const folds = isOp(node, "reduce") && value !== undefined && canFold(node, value);
  return folds ? { kind: "fold", sources, atZero: value } : undefined;
}

/**
 * The base at zero gradient, unless it is a computed value: to copy that and update rows is no less work than to compute
 * the result.
 */
function heldBase(node: Node, atZero: AtZero, facts: ReadonlyMap<Node, Fact>): Node | undefined {
  if (typeof atZero !== "object" || atZero.dtype !== node.dtype || !sameShape(atZero.shape, node.shape))
    return undefined;
  return isPointwise(atZero) && baseOf(facts.get(atZero)) === undefined ? undefined : atZero;
}

/** Whether row i of the result depends on row i of the single input alone, and equal rows give equal rows. */
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

/** The combination of many equal elements. */
function combined(node: Node, value: number): number | undefined {
  if (!isOp(node, "reduce")) return value;
  const op = attr<Combination>(node, "op");
  if (op === "sum") return value === 0 ? 0 : undefined;
  return op === "prod" && value !== 0 && value !== 1 ? undefined : value;
}

/** Whether rows of this value do not change the combination, or count as one more value in it. */
function canFold(node: Node, value: number): boolean {
  const op = attr<Combination>(node, "op");
  return op === "max" || op === "min" || Object.is(Math.abs(value), Number(identityOf(op, node.dtype)));
}

function valueAtZero(node: Node, fact: Fact | undefined, through: boolean): AtZero {
  if (fact?.kind === "rows" && (through || fact.base === undefined)) return fact.base ?? fact.atZero;
  return repeatedValue(node) ?? node;
}

/** The result of a pointwise function on these operands; zero times anything is zero, as for a sparse gradient. */
function pointwiseAtZero(node: Node, operands: readonly AtZero[]): AtZero {
  if (operands.every((value): value is number => typeof value === "number")) return evaluated(node, operands);
  const [x, y, z] = operands;
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

/** The function of numbers; undefined where the result is NaN or an error. */
function evaluated(node: Node, operands: readonly number[]): number | undefined {
  const inputs = node.inputs.map(({ dtype }, index): HostTensor => {
    const type: TensorType = { dtype, shape: [] };
    return { ...type, data: dtypes[dtype].create([operands[index] as number]) };
  });
  try {
    const [result] = evaluateNode({ ...node, types: [{ dtype: node.dtype, shape: [] }] }, inputs);
    const value: unknown = result?.data[0];
    return typeof value === "number" && !Number.isNaN(value) ? value + 0 : undefined;
  } catch (error) {
    // Division by zero is an error of the run, and only if it is reached.
    if (error instanceof HeddleError && error.code === "value") return undefined;
    throw error;
  }
}
