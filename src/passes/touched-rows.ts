/**
 * @module Updates of tables by the rows that a step has looked up. The gradient of a lookup is zero but for few rows, and
 * most of what is computed from it is, where it is zero, what was there before: then only those rows are computed, with the
 * same bits, and written into the table. An embedding costs what its ids cost, not what its rows do.
 *
 * Where the gradient is zero, zero times anything is taken for zero: rows that nothing has touched do not become NaN when a
 * learning rate is not finite.
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

/** Before it pays to find out which rows are touched. */
export interface RowLimits {
  /** So many times more rows than may be touched must be in the table. */
  readonly fewer: number;
  /** Bytes of a table that are updated in the time that it takes to sort an id: of narrow rows, there must be more. */
  readonly idBytes: number;
  /** Bytes that the table must have. */
  readonly leastBytes: number;
}

const defaultLimits: RowLimits = { fewer: 8, idBytes: 128, leastBytes: 1 << 18 };

// What is made of a gradient together with others is made for each set of them.
const mostSets = 16;

/** The graph of one device with updates of large tables by the rows that are touched. */
export function touchedRows(graph: Graph, limits: RowLimits = defaultLimits): Graph {
  const nodes = topological(graph.outputs);
  if (!nodes.some((node) => sourceOf(node) !== undefined)) return graph;
  const facts = factsOf(nodes);
  const wanted = wantedOf(graph, facts, limits);
  if (wanted.boundaries.size === 0) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => new RowTrace(facts, wanted).outputs(graph, inputs));
}

/** Nodes that are made whole, and those among them that are made by rows. */
interface Wanted {
  readonly whole: ReadonlySet<Node>;
  readonly boundaries: ReadonlySet<Node>;
}

/** Decides from the outputs backwards; a gradient that is needed whole after all is the end of what is made of its rows. */
function wantedOf(graph: Graph, facts: ReadonlyMap<Node, Fact>, limits: RowLimits): Wanted {
  const needed = crowded(facts);
  for (;;) {
    const before = needed.size;
    const whole = new Set<Node>();
    const boundaries = new Set<Node>();
    const open = [...graph.outputs];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (whole.has(node)) continue;
      whole.add(node);
      const fact = facts.get(node);
      if (fact !== undefined && pays(fact, needed, limits)) {
        boundaries.add(node);
        open.push(...leavesOf(node, fact, facts));
        continue;
      }
      if (sourceOf(node) !== undefined) needed.add(node);
      open.push(...node.inputs);
    }
    if (needed.size === before) return { whole, boundaries };
  }
}

/** Sources of more sets of rows than are worth a program that grows with each: steps without end, all by one momentum. */
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

/** How the rows of a value are had: as those of a source, from the rows of its inputs, the same for all, or from the whole. */
type Form = "source" | "function" | "repeat" | "lookup";

function formOf(node: Node, { sources }: Fact, facts: ReadonlyMap<Node, Fact>): Form {
  const fact = facts.get(node);
  const within = fact?.kind === "rows" && fact.sources.every((source) => sources.includes(source));
  if (within && sourceOf(node) !== undefined) return "source";
  if (fact !== undefined && !within) return "lookup";
  if (isPointwise(node) || keepsRows(node)) return "function";
  return isOp(node, "broadcast") && attr<readonly number[]>(node, "dims")[0] !== 0 ? "repeat" : "lookup";
}

/** The nodes whose rows a boundary is made from, in order, and the root of them. */
function membersOf(node: Node, fact: Fact, facts: ReadonlyMap<Node, Fact>): Node[] {
  const seen = new Set<Node>([fact.kind === "fold" ? input(node) : node]);
  for (const one of seen) if (formOf(one, fact, facts) === "function") for (const given of one.inputs) seen.add(given);
  return [...seen].sort((left, right) => left.id - right.id);
}

/** What a boundary needs whole. */
function leavesOf(node: Node, fact: Fact, facts: ReadonlyMap<Node, Fact>): Node[] {
  const base = baseOf(fact);
  return [
    ...(base === undefined ? [] : [base]),
    ...fact.sources.flatMap((source) => source.inputs),
    ...membersOf(node, fact, facts).flatMap((one) => {
      const form = formOf(one, fact, facts);
      return form === "lookup" ? [one] : form === "repeat" ? [input(one)] : [];
    }),
  ];
}

/** The rows that some gradients touch. */
class Touched {
  /** Their numbers, i32; what is left over at the front is the first of them again, with the same sums. */
  readonly rows: Node;
  /** Which of them are not left over. */
  readonly used: Node;
  /** The gradients' rows. */
  readonly sums: ReadonlyMap<Node, Node>;
  /** Rows of values in the table's place. */
  readonly known = new Map<Node, Node>();

  constructor(fact: Fact, whole: (node: Node) => Node) {
    const { rows: size } = tableOf(fact);
    const given = fact.sources.map((source) => localSource(source, size, whole));
    const all = concat(
      given.map(({ rows }) => rows),
      0,
    );
    const count = all.shape[0] as number;
    const { order, sorted, rank } = distinct(all);
    const unused = sub(count - 1, slice(rank, [count - 1], [count]));
    const before = broadcastInDim(unused, [count], [0]);
    const slots = add(rank, before);
    this.used = ge(iota("i32", [count], 0), before);
    const first = broadcastInDim(slice(sorted, [0], [1]), [count], [0]);
    this.rows = scatter("replace", first, slots, sorted);
    const places = scatter("replace", full("i32", [count], 0), order, slots);
    let start = 0;
    this.sums = new Map(
      given.map(({ rows, updates }, index): [Node, Node] => {
        const own = slice(places, [start], [start + (rows.shape[0] as number)]);
        start += rows.shape[0] as number;
        return [fact.sources[index] as Node, this.filled(scatterAdd(updates, own, count), unused)];
      }),
    );
  }

  /** With the first sum in what is left over: where a row is written several times, it may be open which time is the last. */
  private filled(sums: Node, unused: Node): Node {
    const { shape } = sums;
    const first = reshape(gather(sums, unused), shape.slice(1));
    const used = broadcastInDim(this.used, shape, [0]);
    return select(used, sums, broadcastInDim(first, shape, range(shape.length).slice(1)));
  }
}

/** Row numbers in the device's own part of a table, and what is added there: rows elsewhere add zeros to the first. */
function localSource(node: Node, size: number, whole: (node: Node) => Node): { rows: Node; updates: Node } {
  const { updates, indices, start, total } = sourceOf(node) as Source;
  const count = sizeOf(indices.shape);
  const added = reshape(whole(updates), [count, ...node.shape.slice(1)]);
  const flat = atPositionOf(node, () => checked(reshape(whole(indices), [count]), total ?? size));
  if (start === undefined) return { rows: flat, updates: added };
  const own = sub(flat, broadcastInDim(whole(start), [count], []));
  const inside = and(ge(own, 0), lt(own, size));
  return { rows: select(inside, own, 0), updates: select(broadcastInDim(inside, added.shape, [0]), added, 0) };
}

/** The indices; one that is outside the whole table is the error that the sum by index would make of it, before ids are sorted. */
function checked(indices: Node, total: number): Node {
  const nothing = call("gatherPart", [full("i32", [1], 0), indices, constant("i32", 0)], { batchDims: 0, total });
  return add(indices, nothing);
}

/** Makes the graph anew. */
class RowTrace {
  private readonly facts: ReadonlyMap<Node, Fact>;
  private readonly wanted: Wanted;
  private readonly made = new Map<Node, Node>();
  private readonly touched = new Map<string, Touched>();

  constructor(facts: ReadonlyMap<Node, Fact>, wanted: Wanted) {
    this.facts = facts;
    this.wanted = wanted;
  }

  outputs(graph: Graph, inputs: readonly Node[]): Node[] {
    graph.inputs.forEach((parameter, index) => {
      this.made.set(parameter, inputs[index] as Node);
    });
    for (const node of topological([...this.wanted.whole])) {
      if (!this.wanted.whole.has(node) || node.op === parameterOp) continue;
      this.made.set(
        node,
        atPositionOf(node, () => this.make(node)),
      );
    }
    return graph.outputs.map(this.whole);
  }

  private readonly whole = (node: Node): Node => this.made.get(node) as Node;

  private make(node: Node): Node {
    if (!this.wanted.boundaries.has(node)) return apply(node.op, node.inputs.map(this.whole), node.attrs);
    const fact = this.facts.get(node) as Fact;
    const touched = this.touchedBy(fact);
    this.makeRows(node, fact, touched);
    const base = baseOf(fact);
    if (base !== undefined) return scatter("replace", this.whole(base), touched.rows, touched.known.get(node) as Node);
    const { atZero } = fact as FoldFact;
    const rows = touched.known.get(input(node)) as Node;
    // What is left over counts once.
    const used = select(broadcastInDim(touched.used, rows.shape, [0]), rows, atZero);
    const folded = apply(node.op, [used], node.attrs);
    const op = attr<Combination>(node, "op");
    if (op !== "max" && op !== "min") return folded;
    // There are more rows than were touched, so that the value of the others is one of those compared.
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
    const sized = (one: Node): { shape: number[] } => ({ shape: [count, ...one.shape.slice(1)] });
    const rowsOf = (one: Node): Node => {
      const form = formOf(one, fact, this.facts);
      if (form === "source") return sums.get(one) as Node;
      if (form === "lookup") return gather(this.whole(one), rows);
      const given = form === "repeat" ? [this.whole(input(one))] : one.inputs.map((each) => known.get(each) as Node);
      return apply(one.op, given, "shape" in one.attrs ? { ...one.attrs, ...sized(one) } : one.attrs);
    };
    for (const one of membersOf(node, fact, this.facts)) {
      if (known.has(one)) continue;
      known.set(
        one,
        atPositionOf(one, () => rowsOf(one)),
      );
    }
  }
}
