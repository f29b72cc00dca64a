/** @module A trace: the table in which nodes are made and interned while a function runs. */
import { HeddleError } from "../util/errors.ts";
import { capturePosition, describePosition, type SourcePosition, type Speaker } from "../util/source.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import type { Attrs, Graph, Node, OpDef } from "./node.ts";
import { formatType, type TensorType } from "./shape.ts";

// Outlives the traces, so that a copy of a graph keeps the positions of the original.
const positions = new WeakMap<Node, SourcePosition>();

/** Where the user wrote a node. */
export function positionOf(node: Node): SourcePosition | undefined {
  return positions.get(node);
}

/** The description of a fault at a node: by the node's op if it has one, otherwise by the given speaker. */
export function meaningAt(node: Node | undefined, by: Speaker | undefined): Speaker["says"] {
  const { says } = node?.op ?? {};
  if (node === undefined || says === undefined) return by?.says;
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  return (fault) => says(fault, types, node.attrs);
}

/** Numbers nodes that come from no user's code, but from a text that somebody else has. */
export function markNodes(nodes: readonly Node[]): void {
  for (const [mark, node] of nodes.entries()) positions.set(node, { mark });
}

/** The nodes of one function being traced. Dropped when the trace ends. */
export class Trace {
  private readonly table = new Map<string, Node>();
  private readonly nodes = new Set<Node>();
  private readonly graphIds = new Map<Graph, number>();
  private readonly placed: boolean;
  private nextId = 0;
  /** When set, nodes made now take this node's source position (gradients, rewrites). */
  positionOf: SourcePosition | undefined;

  /**
   * `placed`: nodes remember where they were written, for a trace of the user's code. Other nodes have the position of
   * what they are made from or become part of.
   */
  constructor(placed = false) {
    this.placed = placed;
  }

  /** Makes or finds the node `op(inputs, attrs)`; errors of `infer` gain the user's source line. */
  apply<A extends Attrs>(op: OpDef<A>, inputs: readonly Node[], attrs: A): Node {
    // Before the table: another trace's value may have the id of one of ours.
    for (const input of inputs) if (!this.nodes.has(input)) throw foreignValue(op.name, input);
    const key = `${op.name}|${inputs.map((input) => input.id).join(",")}|${this.attrsKey(attrs)}`;
    const known = this.table.get(key);
    if (known !== undefined) return known;
    // A node with several results shows them all; only `element` accepts that.
    const inputTypes = inputs.flatMap((input) => input.types);
    const position = this.positionOf ?? (this.placed ? capturePosition() : undefined);
    const types = inferAt(op, inputTypes, attrs, position);
    const first = types[0] as TensorType;
    const node: Node = { id: this.nextId++, op, inputs, attrs, types, shape: first.shape, dtype: first.dtype };
    this.table.set(key, node);
    this.nodes.add(node);
    if (position !== undefined) positions.set(node, position);
    return node;
  }

  /** Whether a node was made here. */
  owns(node: Node): boolean {
    return this.nodes.has(node);
  }

  /** Nodes made so far. */
  get size(): number {
    return this.nextId;
  }

  private attrsKey(attrs: Attrs): string {
    let key = "";
    for (const name of Object.keys(attrs).sort()) {
      const value = attrs[name] as Plain | Graph;
      key += isGraph(value) ? `${name}=graph${this.graphId(value)};` : `${name}=${canonicalJson(value)};`;
    }
    return key;
  }

  private graphId(graph: Graph): number {
    const known = this.graphIds.get(graph);
    if (known !== undefined) return known;
    this.graphIds.set(graph, this.graphIds.size);
    return this.graphIds.size - 1;
  }
}

/** Whether an attribute is a graph (a body) rather than plain data. */
export function isGraph(value: unknown): value is Graph {
  return typeof value === "object" && value !== null && (value as { kind?: unknown }).kind === "graph";
}

function inferAt<A extends Attrs>(
  op: OpDef<A>,
  inputTypes: readonly TensorType[],
  attrs: A,
  position: SourcePosition | undefined,
): readonly TensorType[] {
  try {
    const results = op.infer(inputTypes, attrs);
    return Array.isArray(results) ? (results as readonly TensorType[]) : [results as TensorType];
  } catch (error) {
    if (!(error instanceof HeddleError) || error.isPlaced) throw error;
    const where = describePosition(position);
    throw where === undefined ? error : error.at(where);
  }
}

function foreignValue(op: string, input: Node): HeddleError {
  return new HeddleError("trace", `${op}: input ${input.op.name} ${formatType(input)} belongs to another trace`, {
    hint: "a traced value cannot be used after its function has returned; return it instead",
  });
}

let current: Trace | undefined;

/** Runs `body` with `trace` as the table that {@link apply} uses. Not for async functions. */
export function withTrace<Result>(trace: Trace, body: () => Result): Result {
  const previous = current;
  current = trace;
  try {
    return body();
  } finally {
    current = previous;
  }
}

/** The trace in progress, if any. */
export function currentTrace(): Trace | undefined {
  return current;
}

/** Makes or finds a node in the current trace. */
export function apply<A extends Attrs>(op: OpDef<A>, inputs: readonly Node[], attrs: A): Node {
  if (current === undefined) throw new HeddleError("trace", `${op.name}: no trace is in progress`);
  return current.apply(op, inputs, attrs);
}

/** Runs `body` so that nodes made in it carry the source position of `node`, of this or another trace. */
export function atPositionOf<Result>(node: Node, body: () => Result): Result {
  const trace = current;
  if (trace === undefined) return body();
  const previous = trace.positionOf;
  trace.positionOf = positions.get(node) ?? previous;
  try {
    return body();
  } finally {
    trace.positionOf = previous;
  }
}
