/**
 * @module The parts of a graph that its outputs need, in an order in which they can be computed. Files hold other
 * parts, too, and in any order.
 */
import { HeddleError } from "../../extend/index.ts";
import type { GraphProto, NodeProto, SparseTensorProto, TensorProto } from "./messages.ts";

/** A node as error messages call it: by its name, or by its first output. */
export const calledNode = ({ name, output }: NodeProto): string =>
  name ? `node "${name}"` : `node of "${output.find((result) => result !== "") ?? ""}"`;

/** A node with its op. */
export const describe = (node: NodeProto): string => `${calledNode(node)} (${node.opType})`;

/** A graph reduced to what its outputs need, and the names that it uses and no node of it makes. */
export interface Needed {
  readonly graph: GraphProto;
  /** Names of the graph's inputs and initializers that are used. */
  readonly sources: ReadonlySet<string>;
  /** Names of values around the graph, each with the description of a node that uses it. */
  readonly free: ReadonlyMap<string, string>;
}

const nameOf = ({ name = "" }: TensorProto): string => name;
export const nameOfSparse = ({ values }: SparseTensorProto): string => values?.name ?? "";

/** The nodes of one graph while it is walked. */
class Walk {
  readonly #graph: GraphProto;
  readonly #file: string;
  /** The node that makes a name; -1 for an input or an initializer. */
  readonly #makers = new Map<string, number>();
  readonly #twice = new Set<string>();
  readonly #taken = new Set<string>();
  readonly #nodes = new Map<number, { readonly node: NodeProto; readonly before: readonly number[] }>();
  readonly sources = new Set<string>();
  readonly free = new Map<string, string>();

  constructor(graph: GraphProto, file: string) {
    this.#graph = graph;
    this.#file = file;
    const { initializer, sparseInitializer = [], input } = graph;
    const initial = [...initializer.map(nameOf), ...sparseInitializer.map(nameOfSparse)];
    for (const name of initial) this.#make(name, -1);
    // An initializer may be an input, too: it is the input's default.
    for (const { name = "" } of input) this.#makers.set(name, -1);
    graph.node.forEach(({ output }, index) => {
      for (const name of output) this.#make(name, index);
    });
  }

  #make(name: string, index: number): void {
    if (name === "") return;
    if (this.#makers.has(name)) this.#twice.add(name);
    this.#makers.set(name, index);
  }

  /** The node that makes the value `name`, which `who` uses; undefined where no node of this graph makes it. */
  #makerOf(name: string, who: string): number | undefined {
    if (this.#twice.has(name)) throw new HeddleError("format", `${this.#file} has two values "${name}"`);
    this.#taken.add(name);
    const index = this.#makers.get(name);
    if (index === undefined) this.free.set(name, this.free.get(name) ?? who);
    else if (index < 0) this.sources.add(name);
    else return index;
    return undefined;
  }

  /** A node with its graphs reduced to what they need, and the nodes that must come before it. */
  #of(index: number): { readonly node: NodeProto; readonly before: readonly number[] } {
    const known = this.#nodes.get(index);
    if (known !== undefined) return known;
    const whole = this.#graph.node[index] as NodeProto;
    const who = `${describe(whole)} takes`;
    const taken = new Map(whole.input.filter((name) => name !== "").map((name) => [name, who]));
    const attribute = whole.attribute.map((entry) => {
      if (entry.g === undefined) return entry;
      const { graph, free } = neededOf(entry.g, this.#file);
      for (const [name, inner] of free) if (!taken.has(name)) taken.set(name, inner);
      return { ...entry, g: graph };
    });
    const before = [...taken].map(([name, by]) => this.#makerOf(name, by)).filter((maker) => maker !== undefined);
    const found = { node: { ...whole, attribute }, before };
    this.#nodes.set(index, found);
    return found;
  }

  /** All nodes that these outputs need, each after the nodes whose results it uses, otherwise in the file's order. */
  run(outputs: readonly string[]): NodeProto[] {
    const open = outputs.map((name) => this.#makerOf(name, "an output is")).filter((maker) => maker !== undefined);
    const reached = new Set(open);
    while (open.length > 0) {
      for (const index of this.#of(open.pop() as number).before) {
        if (reached.has(index)) continue;
        reached.add(index);
        open.push(index);
      }
    }
    const ordered = new Set<number>();
    for (const index of [...reached].sort((left, right) => left - right)) this.#place(index, ordered);
    return [...ordered].map((index) => {
      const { node } = this.#of(index);
      // A result that is not used loses its name: rows need not compute it.
      return { ...node, output: node.output.map((name) => (this.#taken.has(name) ? name : "")) };
    });
  }

  /** Places a node after those before it. Not by recursion: networks are deeper than the stack. */
  #place(start: number, ordered: Set<number>): void {
    const path: { readonly index: number; next: number }[] = [{ index: start, next: 0 }];
    const onPath = new Set([start]);
    while (path.length > 0) {
      const top = path.at(-1) as { readonly index: number; next: number };
      const index = ordered.has(top.index) ? undefined : this.#of(top.index).before[top.next++];
      if (index === undefined) {
        ordered.add(top.index);
        onPath.delete(top.index);
        path.pop();
      } else if (onPath.has(index)) throw this.#cycle([...path.map((step) => step.index), index]);
      else if (!ordered.has(index)) {
        path.push({ index, next: 0 });
        onPath.add(index);
      }
    }
  }

  #cycle(path: readonly number[]): HeddleError {
    const nodes = path.slice(path.indexOf(path.at(-1) as number)).map((index) => describe(this.#of(index).node));
    const shown = nodes.length > 6 ? [...nodes.slice(0, 5), "…", nodes.at(-1)] : nodes;
    return new HeddleError("format", `${this.#file} has a cycle, each taking from the next: ${shown.join(", ")}`);
  }
}

/**
 * The part of a graph that its outputs need. @throws HeddleError `format` naming a cycle, or a value that two nodes
 * make.
 */
export function neededOf(graph: GraphProto, file: string): Needed {
  const walk = new Walk(graph, file);
  const node = walk.run(graph.output.map(({ name = "" }) => name));
  const { sources, free } = walk;
  const initializer = graph.initializer.filter((proto) => sources.has(nameOf(proto)));
  const sparseInitializer = (graph.sparseInitializer ?? []).filter((proto) => sources.has(nameOfSparse(proto)));
  return { graph: { ...graph, node, initializer, sparseInitializer }, sources, free };
}

/**
 * {@link neededOf} for an outermost graph, which has no values around it. @throws HeddleError as {@link neededOf};
 * `format` for a name without a value.
 */
export function neededOfWhole(graph: GraphProto, file: string): Needed {
  const needed = neededOf(graph, file);
  for (const [name, who] of needed.free)
    throw new HeddleError("format", `${file}: ${who} "${name}", which nothing makes`);
  return needed;
}

/** A graph with its tensors replaced, those in attributes and in graphs inside included. */
export function withTensors(graph: GraphProto, replace: (proto: TensorProto) => TensorProto): GraphProto {
  const ofSparse = (sparse: SparseTensorProto): SparseTensorProto => ({
    ...sparse,
    ...(sparse.values && { values: replace(sparse.values) }),
    ...(sparse.indices && { indices: replace(sparse.indices) }),
  });
  const node = graph.node.map((whole) => ({
    ...whole,
    attribute: whole.attribute.map((attribute) => ({
      ...attribute,
      ...(attribute.t && { t: replace(attribute.t) }),
      ...(attribute.g && { g: withTensors(attribute.g, replace) }),
      ...(attribute.sparseTensor && { sparseTensor: ofSparse(attribute.sparseTensor) }),
    })),
  }));
  const sparseInitializer = (graph.sparseInitializer ?? []).map(ofSparse);
  return { ...graph, node, initializer: graph.initializer.map(replace), sparseInitializer };
}
