/**
 * @module Updates of tables by the rows that a step has looked up. The gradient of a lookup is zero except in few rows,
 * and most values that depend on it are unchanged where it is zero: so only those rows are computed, with the same bits,
 * and written into the table. The cost of an embedding depends on the number of its ids, not of its rows.
 *
 * Zero gradients times anything count as zero: rows that nothing has touched do not become NaN when a learning rate is not
 * finite.
 */
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { parameterOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import { bytesOf, range, sizeOf, type TensorType } from "../ir/shape.ts";
import { apply, atPositionOf } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import {
  add,
  and,
  broadcastInDim,
  type Combination,
  call,
  concat,
  constant,
  distinct,
  full,
  gather,
  ge,
  iota,
  lt,
  maximum,
  minimum,
  reshape,
  scatter,
  scatterAdd,
  select,
  slice,
  sub,
} from "../ops/index.ts";
import { attr, input, isOp, isPointwise } from "./match.ts";
import { baseOf, type Fact, type FoldFact, factsOf, keepsRows, type Source, sourceOf } from "./row-facts.ts";

/** Thresholds from which it pays to find the touched rows. */
export interface RowLimits {
  /** The table must have this many times the rows that may be touched. */
  readonly fewer: number;
  /** Bytes of a table that are updated in the time of sorting one id; tables of narrow rows need more rows. */
  readonly idBytes: number;
  /** The least bytes of a table. */
  readonly leastBytes: number;
}

const defaultLimits: RowLimits = { fewer: 8, idBytes: 128, leastBytes: 1 << 18 };

// Rows are computed for each set of gradients that enter a value together.
const mostSets = 16;

/** The graph of one device with updates of large tables by the rows that are touched. */
export function touchedRows(graph: Graph, limits: RowLimits = defaultLimits): Graph {
  const nodes = topological(graph.outputs);
  if (!nodes.some((node) => sourceOf(node) !== undefined)) return graph;
  const facts = factsOf(nodes);
  const plan = planRows(graph, facts, limits);
  if (plan.boundaries.size === 0) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => new RowTrace(facts, plan).outputs(graph, inputs));
}

/** The nodes that are computed, and the boundaries among them: nodes that are computed by rows. */
interface RowPlan {
  readonly whole: ReadonlySet<Node>;
  readonly boundaries: ReadonlySet<Node>;
}

/** Decides from the outputs backwards; values of a gradient that is needed whole are not computed by rows. */
function planRows(graph: Graph, facts: ReadonlyMap<Node, Fact>, limits: RowLimits): RowPlan {
  const needed = crowded(facts);
  for (;;) {
    const before = needed.size;
    const whole = new Set<Node>();
    const boundaries = new Set<Node>();
    const pending = [...graph.outputs];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      if (whole.has(node)) continue;
      whole.add(node);
      const fact = facts.get(node);
      if (fact !== undefined && pays(fact, needed, limits)) {
        boundaries.add(node);
        pending.push(...leavesOf(node, fact, facts));
        continue;
      }
      if (sourceOf(node) !== undefined) needed.add(node);
      pending.push(...node.inputs);
    }
    if (needed.size === before) return { whole, boundaries };
  }
}

/** Sources that are in too many sets of rows, each of which makes the program larger: unrolled steps that share a momentum. */
function crowded(facts: ReadonlyMap<Node, Fact>): Set<Node> {
  const sets = new Map<Node, Set<string>>();
  for (const fact of facts.values()) {
    if (fact.kind === "rows" && fact.base === undefined) continue;
    for (const source of fact.sources) sets.set(source, (sets.get(source) ?? new Set()).add(keyOf(fact)));
  }
  return new Set([...sets].flatMap(([source, keys]) => (keys.size > mostSets ? [source] : [])));
}

/** The set of rows that a value depends on. */
const keyOf = ({ sources }: Fact): string => sources.map(({ id }) => id).join(" ");

function pays(fact: Fact, needed: ReadonlySet<Node>, { fewer, idBytes, leastBytes }: RowLimits): boolean {
  if (fact.kind === "rows" && fact.base === undefined) return false;
  if (fact.sources.some((source) => needed.has(source))) return false;
  const table = tableOf(fact);
  const touched = touchedBy(fact);
  const bytes = bytesOf(table.type);
  return touched > 0 && table.rows >= touched * (fewer + (idBytes * table.rows) / bytes) && bytes >= leastBytes;
}

function tableOf({ sources }: Fact): { readonly rows: number; readonly type: TensorType } {
  const type = sources[0]?.types[0] as TensorType;
  return { rows: type.shape[0] as number, type };
}

/** How many rows may be touched. */
const touchedBy = ({ sources }: Fact): number =>
  sources.reduce((total, source) => total + sizeOf((sourceOf(source) as Source).indices.shape), 0);

/**
 * The way to a value's rows: rows of a source, a function of the inputs' rows, one row repeated, or rows of the whole value.
 */
type Form = "source" | "function" | "repeat" | "lookup";

function formOf(node: Node, { sources }: Fact, facts: ReadonlyMap<Node, Fact>): Form {
  const fact = facts.get(node);
  const isCovered = fact?.kind === "rows" && fact.sources.every((source) => sources.includes(source));
  if (isCovered && sourceOf(node) !== undefined) return "source";
  if (fact !== undefined && !isCovered) return "lookup";
  if (isPointwise(node) || keepsRows(node)) return "function";
  return isOp(node, "broadcast") && attr<readonly number[]>(node, "dims")[0] !== 0 ? "repeat" : "lookup";
}

/** The nodes from whose rows a boundary is computed, in order, with their root. */
function membersOf(node: Node, fact: Fact, facts: ReadonlyMap<Node, Fact>): Node[] {
  const seen = new Set<Node>([fact.kind === "fold" ? input(node) : node]);
  for (const member of seen)
    if (formOf(member, fact, facts) === "function") for (const operand of member.inputs) seen.add(operand);
  return [...seen].sort((left, right) => left.id - right.id);
}

/** The nodes that a boundary needs whole. */
function leavesOf(node: Node, fact: Fact, facts: ReadonlyMap<Node, Fact>): Node[] {
  const base = baseOf(fact);
  return [
    ...(base === undefined ? [] : [base]),
    ...fact.sources.flatMap((source) => source.inputs),
    ...membersOf(node, fact, facts).flatMap((member) => {
      const form = formOf(member, fact, facts);
      return form === "lookup" ? [member] : form === "repeat" ? [input(member)] : [];
    }),
  ];
}

/** The rows that a set of gradients touches. */
class Touched {
  /** The numbers of the rows, i32. Unused slots at the front repeat the first row, with the same sums. */
  readonly rows: Node;
  /** Which slots are used. */
  readonly used: Node;
  /** The rows of each gradient. */
  readonly sums: ReadonlyMap<Node, Node>;
  /** The rows of each value. */
  readonly known = new Map<Node, Node>();

  constructor(fact: Fact, whole: (node: Node) => Node) {
    const { rows: size } = tableOf(fact);
    const sources = fact.sources.map((source) => localSource(source, size, whole));
    const allRows = concat(
      sources.map(({ rows }) => rows),
      0,
    );
    const count = allRows.shape[0] as number;
    const { order, sorted, rank } = distinct(allRows);
    const unused = sub(count - 1, slice(rank, [count - 1], [count]));
    const before = broadcastInDim(unused, [count], [0]);
    const slots = add(rank, before);
    this.used = ge(iota("i32", [count], 0), before);
    const first = broadcastInDim(slice(sorted, [0], [1]), [count], [0]);
    this.rows = scatter("replace", first, slots, sorted);
    const positions = scatter("replace", full("i32", [count], 0), order, slots);
    let start = 0;
    this.sums = new Map(
      sources.map(({ rows, updates }, index): [Node, Node] => {
        const slotsOfSource = slice(positions, [start], [start + (rows.shape[0] as number)]);
        start += rows.shape[0] as number;
        return [fact.sources[index] as Node, this.filled(scatterAdd(updates, slotsOfSource, count), unused)];
      }),
    );
  }

  /** Fills unused slots with the first sum, since a row may be written several times in any order. */
  private filled(sums: Node, unused: Node): Node {
    const { shape } = sums;
    const first = reshape(gather(sums, unused), shape.slice(1));
    const used = broadcastInDim(this.used, shape, [0]);
    return select(used, sums, broadcastInDim(first, shape, range(shape.length).slice(1)));
  }
}

/**
 * Row numbers in the device's part of a table, and the updates to add there: rows of other parts add zeros to the first row.
 */
function localSource(node: Node, size: number, whole: (node: Node) => Node): { rows: Node; updates: Node } {
  const { updates, indices, start, total } = sourceOf(node) as Source;
  const count = sizeOf(indices.shape);
  const added = reshape(whole(updates), [count, ...node.shape.slice(1)]);
  const flat = atPositionOf(node, () => checked(reshape(whole(indices), [count]), total ?? size));
  if (start === undefined) return { rows: flat, updates: added };
  const localRows = sub(flat, broadcastInDim(whole(start), [count], []));
  const inside = and(ge(localRows, 0), lt(localRows, size));
  return { rows: select(inside, localRows, 0), updates: select(broadcastInDim(inside, added.shape, [0]), added, 0) };
}

/** The indices, with the error of the sum by index for an index outside the table, before ids are sorted. */
function checked(indices: Node, total: number): Node {
  const zeros = call("gatherPart", [full("i32", [1], 0), indices, constant("i32", 0)], { batchDims: 0, total });
  return add(indices, zeros);
}

/** Builds the graph again, with boundaries by rows. */
class RowTrace {
  private readonly facts: ReadonlyMap<Node, Fact>;
  private readonly plan: RowPlan;
  private readonly copies = new Map<Node, Node>();
  private readonly touched = new Map<string, Touched>();

  constructor(facts: ReadonlyMap<Node, Fact>, plan: RowPlan) {
    this.facts = facts;
    this.plan = plan;
  }

  outputs(graph: Graph, inputs: readonly Node[]): Node[] {
    graph.inputs.forEach((parameter, index) => {
      this.copies.set(parameter, inputs[index] as Node);
    });
    for (const node of topological([...this.plan.whole])) {
      if (!this.plan.whole.has(node) || node.op === parameterOp) continue;
      this.copies.set(
        node,
        atPositionOf(node, () => this.make(node)),
      );
    }
    return graph.outputs.map(this.whole);
  }

  private readonly whole = (node: Node): Node => this.copies.get(node) as Node;

  private make(node: Node): Node {
    if (!this.plan.boundaries.has(node)) return apply(node.op, node.inputs.map(this.whole), node.attrs);
    const fact = this.facts.get(node) as Fact;
    const touched = this.touchedBy(fact);
    this.makeRows(node, fact, touched);
    const base = baseOf(fact);
    if (base !== undefined) return scatter("replace", this.whole(base), touched.rows, touched.known.get(node) as Node);
    const { atZero } = fact as FoldFact;
    const rows = touched.known.get(input(node)) as Node;
    // Unused slots do not count.
    const used = select(broadcastInDim(touched.used, rows.shape, [0]), rows, atZero);
    const folded = apply(node.op, [used], node.attrs);
    const op = attr<Combination>(node, "op");
    if (op !== "max" && op !== "min") return folded;
    // Some rows are untouched, so their value is compared, too.
    return (op === "max" ? maximum : minimum)(folded, atZero);
  }

  private touchedBy(fact: Fact): Touched {
    const key = keyOf(fact);
    const touched = this.touched.get(key) ?? new Touched(fact, this.whole);
    this.touched.set(key, touched);
    return touched;
  }

  private makeRows(node: Node, fact: Fact, { rows, sums, known }: Touched): void {
    const count = rows.shape[0] as number;
    const sized = (member: Node): { shape: number[] } => ({ shape: [count, ...member.shape.slice(1)] });
    const rowsOf = (member: Node): Node => {
      const form = formOf(member, fact, this.facts);
      if (form === "source") return sums.get(member) as Node;
      if (form === "lookup") return gather(this.whole(member), rows);
      const operands =
        form === "repeat" ? [this.whole(input(member))] : member.inputs.map((operand) => known.get(operand) as Node);
      return apply(member.op, operands, "shape" in member.attrs ? { ...member.attrs, ...sized(member) } : member.attrs);
    };
    for (const member of membersOf(node, fact, this.facts)) {
      if (known.has(member)) continue;
      known.set(
        member,
        atPositionOf(member, () => rowsOf(member)),
      );
    }
  }
}
