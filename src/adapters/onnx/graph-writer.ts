/** @module The nodes, weights and constants of an ONNX graph that is written, each under a unique name. */

import { dtypes, type HostTensor, type TensorType } from "../../ir/index.ts";
import type { AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfo } from "./messages.ts";
import { codeOfDType, int64 } from "./tensors.ts";

/** Attributes as JavaScript values: whole numbers are ints, `{ f: … }` floats, `{ g: … }` graphs. */
export interface GivenAttributes {
  readonly [name: string]: number | string | readonly number[] | { readonly f: number } | { readonly g: GraphProto };
}

/** A value with its name and type, as an input or output of a graph. */
export type Port = readonly [name: string, type: TensorType];

const infoOf = ([name, { dtype, shape }]: Port): ValueInfo => ({
  name,
  type: { tensorType: { elemType: codeOfDType(dtype), shape: { dim: shape.map((dimValue) => ({ dimValue })) } } },
});

const text = new TextEncoder();

function attribute(name: string, value: GivenAttributes[string]): AttributeProto {
  if (typeof value === "number") return { name, i: value, type: 2 };
  if (typeof value === "string") return { name, s: text.encode(value), type: 3 };
  if ("g" in value) return { name, g: value.g, type: 5 };
  if ("f" in value) return { name, f: value.f, type: 1 };
  return { name, ints: value as readonly number[], type: 7 };
}

const namesRead = (nodes: readonly NodeProto[]): string[] =>
  nodes.flatMap(({ input, attribute }) => [
    ...input,
    ...attribute.flatMap(({ g }) => (g === undefined ? [] : namesRead(g.node))),
  ]);

const constantNode = (t: TensorProto): NodeProto => ({
  input: [],
  output: [t.name ?? ""],
  name: t.name ?? "",
  opType: "Constant",
  attribute: [{ name: "value", t, type: 4 }],
});

/**
 * What a graph and the graphs inside it share: names are unique among all of them, and the outermost graph keeps all
 * tensors.
 */
interface Shared {
  readonly names: Set<string>;
  readonly weights: TensorProto[];
  readonly constants: TensorProto[];
  readonly lists: Map<string, string>;
  readonly once: boolean;
  count: number;
}

/** Collects a graph. */
export class GraphWriter {
  readonly nodes: NodeProto[] = [];
  readonly #shared: Shared;

  /**
   * @param reserved names that inputs and outputs have
   * @param once whether equal lists are kept once; false where graphs that differ in such numbers are compared
   */
  constructor(reserved: readonly string[], once = true, shared?: Shared) {
    this.#shared = shared ?? { names: new Set(reserved), weights: [], constants: [], lists: new Map(), once, count: 0 };
  }

  /** The writer of a graph within this one, which sees the values of this one by their names. */
  within(): GraphWriter {
    return new GraphWriter([], true, this.#shared);
  }

  /** A new name, equal or similar to the wanted one. */
  name(wanted: string): string {
    const { names } = this.#shared;
    let name = wanted;
    while (names.has(name)) name = `${wanted}_${this.#shared.count++}`;
    names.add(name);
    return name;
  }

  /** The graph of the nodes so far, to stand inside another graph, which holds its tensors. */
  graph(name: string, inputs: readonly Port[], outputs: readonly Port[]): GraphProto {
    return { node: this.nodes, name, initializer: [], input: inputs.map(infoOf), output: outputs.map(infoOf) };
  }

  /** The outermost graph: with the tensors that nodes read, here or in graphs within (a loop that never runs reads nothing). */
  whole(name: string, inputs: readonly Port[], outputs: readonly Port[]): GraphProto {
    const names = new Set(namesRead(this.nodes));
    const read = ({ name = "" }: TensorProto): boolean => names.has(name);
    const constants = this.#shared.constants.filter(read).map(constantNode);
    const graph = this.graph(name, inputs, outputs);
    return { ...graph, node: [...constants, ...this.nodes], initializer: this.#shared.weights.filter(read) };
  }

  /** Adds a node with one result; returns the result's name. */
  add(opType: string, inputs: readonly string[], attributes: GivenAttributes = {}): string {
    return this.addAll(opType, inputs, 1, attributes)[0] as string;
  }

  /** Adds a node with several results; returns their names. */
  addAll(opType: string, inputs: readonly string[], results: number, attributes: GivenAttributes = {}): string[] {
    const output = Array.from({ length: results }, () => this.name(`${opType}_${this.#shared.count++}`));
    this.nodes.push({
      input: inputs,
      output,
      name: output[0] as string,
      opType,
      attribute: Object.entries(attributes).map(([name, value]) => attribute(name, value)),
    });
    return output;
  }

  /** A tensor that is one of the model's weights: an initializer. */
  weight(wanted: string, host: HostTensor): string {
    return this.#kept(this.#shared.weights, wanted, host);
  }

  /** A tensor that is not a weight: a node, since readers take initializers for trainable. */
  constant(wanted: string, host: HostTensor): string {
    return this.#kept(this.#shared.constants, wanted, host);
  }

  #kept(tensors: TensorProto[], wanted: string, host: HostTensor): string {
    const name = this.name(wanted);
    const { dtype, shape, data } = host;
    tensors.push({ dims: shape, dataType: codeOfDType(dtype), name, rawData: dtypes[dtype].bytesOf(data) });
    return name;
  }

  /** Whole numbers as an int64 vector, the form of shapes and axes; equal lists are kept once. */
  list(values: readonly number[]): string {
    const key = values.join(",");
    const known = this.#shared.lists.get(key);
    if (known !== undefined) return known;
    const name = this.constant("list", { dtype: int64, shape: [values.length], data: dtypes[int64].create(values) });
    if (this.#shared.once) this.#shared.lists.set(key, name);
    return name;
  }

  /** A whole number as an int64 scalar, the form of an axis. */
  index(value: number): string {
    return this.constant("index", { dtype: int64, shape: [], data: dtypes[int64].create([value]) });
  }

  /** A number as a scalar of a dtype. */
  scalar(dtype: HostTensor["dtype"], value: number): string {
    return this.constant("number", { dtype, shape: [], data: dtypes[dtype].create([value]) });
  }

  /** Adds a node whose one result has the name `name`. */
  addAs(name: string, opType: string, inputs: readonly string[], called = name): void {
    this.nodes.push({ input: inputs, output: [name], name: called, opType, attribute: [] });
  }

  /** Names an output by an Identity node, since the value may be an input or another output, too. */
  rename(from: string, to: string): void {
    this.addAs(to, "Identity", [from], `output ${to}`);
  }
}
