/**
 * @module Builds the values of a model's graph: each node by its row of the table; values that are known are computed
 * at once.
 */

import { HeddleError } from "../../extend/index.ts";
import { isTensor, random, Tensor, traceFunction } from "../../functions/index.ts";
import { type HostTensor, type Node, sizeOf } from "../../ir/index.ts";
import { evaluateGraph } from "../../ops/index.ts";
import { type BuildGraph, NodeContext, type Result, type Row, Value } from "./context.ts";
import type { GraphProto, NodeProto } from "./messages.ts";
import { describe, nameOfSparse } from "./needed.ts";
import { rowOf } from "./ops.ts";
import { hostOfProto, hostOfSparse } from "./tensors.ts";
import { isConstantInput } from "./weights.ts";

/** The most elements of a value that is folded: shapes and small tables, not weights. */
const largestFolded = 65_536;

/** The tensors that a graph has, by name. @throws HeddleError `format`, `dtype`. */
export function initialOf(graph: GraphProto, file: string): Map<string, HostTensor> {
  const { initializer, sparseInitializer = [] } = graph;
  const dense = initializer.map((proto) => [proto.name ?? "", hostOfProto(proto, file)] as const);
  return new Map([
    ...dense,
    ...sparseInitializer.map((proto) => [nameOfSparse(proto), hostOfSparse(proto, file)] as const),
  ]);
}

/** Builds the values of a graph while a model is applied. */
export class Builder {
  readonly #opset: number;
  readonly #file: string;
  readonly #key: Tensor | undefined;
  /** How many nodes have drawn so far: each draws from a key of its own. */
  #draws = 0;
  readonly #seeded = new Map<NodeProto, number>();

  constructor(opset: number, file: string, key: Tensor | undefined) {
    this.#opset = opset;
    this.#file = file;
    this.#key = key;
  }

  /** The random key of a node. A node with a seed has the same key whatever other nodes draw. */
  #keyOf(node: NodeProto, seed: number | undefined): Tensor {
    if (seed !== undefined) {
      // A node within a loop that is written out draws anew in each iteration.
      const times = this.#seeded.get(node) ?? 0;
      this.#seeded.set(node, times + 1);
      return random.foldIn(random.key(new Uint32Array(Float32Array.of(seed).buffer)[0] as number), times);
    }
    if (this.#key === undefined) {
      throw new HeddleError("argument", "draws random numbers, but has no seed, and no key was given", {
        hint: "apply or run the model with { key: random.key(0) }",
      });
    }
    return random.foldIn(this.#key, this.#draws++);
  }

  /**
   * The outputs of a graph. Puts the values by name into `values`; `outer` finds the values around a graph that is an
   * attribute.
   */
  run(
    graph: GraphProto,
    values: Map<string, Value>,
    outer: ((name: string) => Value | undefined) | undefined,
  ): Value[] {
    const find = (name: string): Value | undefined => values.get(name) ?? outer?.(name);
    // That each name has a value was checked when the file was read.
    for (const node of graph.node) {
      const inputs = node.input.map((name, index) =>
        name === "" ? undefined : asTaken(node, index, find(name) as Value),
      );
      const results = this.#node(node, inputs, find);
      node.output.forEach((name, index) => {
        const result = results[index];
        if (name === "") return;
        if (result !== undefined) values.set(name, result);
        else throw this.#located(node, new HeddleError("op", `gives no result ${index} here ("${name}")`));
      });
    }
    return graph.output.map(({ name = "" }) => find(name) as Value);
  }

  #context(node: NodeProto, inputs: readonly (Value | undefined)[], buildGraph: BuildGraph): NodeContext {
    const opset = node.opset ?? this.#opset;
    return new NodeContext(node, inputs, opset, { buildGraph, keyOf: (seed) => this.#keyOf(node, seed) });
  }

  #located(node: NodeProto, error: HeddleError): HeddleError {
    const Kind = error.constructor as typeof HeddleError;
    const hint = error.hint === undefined ? {} : { hint: error.hint };
    return new Kind(error.code, `${this.#file}: ${describe(node)}: ${error.plain}`, { ...hint, cause: error });
  }

  #node(node: NodeProto, inputs: readonly (Value | undefined)[], find: (name: string) => Value | undefined): Value[] {
    // Another name for the same value, which stays known.
    if (node.opType === "Identity" && inputs[0] !== undefined) return [inputs[0]];
    const row = rowOf(node, node.opset ?? this.#opset, this.#file);
    const build = (graph: GraphProto, operands: readonly Value[]): Value[] => {
      const values = new Map([...initialOf(graph, this.#file)].map(([name, host]) => [name, new Value(host)]));
      graph.input.forEach(({ name = "" }, index) => {
        const value = operands[index];
        if (value !== undefined) values.set(name, value);
      });
      return this.run(graph, values, find);
    };
    try {
      const folded = this.#fold(row, node, inputs, build);
      return folded ?? valuesOf(row.build(this.#context(node, inputs, build)));
    } catch (error) {
      if (error instanceof HeddleError && error.plain.startsWith(`${this.#file}: `)) throw error;
      throw this.#located(node, asOwn(error));
    }
  }

  /**
   * The results of a node whose inputs are all known, computed now; undefined where an input is not known or a result
   * is large.
   */
  #fold(
    row: Row,
    node: NodeProto,
    inputs: readonly (Value | undefined)[],
    build: (graph: GraphProto, inputs: readonly Value[]) => Value[],
  ): Value[] | undefined {
    const present = inputs.filter((input): input is Value => input !== undefined);
    // Graphs in attributes use values from around them, which are not folded.
    if (node.attribute.some(({ g }) => g !== undefined)) return undefined;
    if (row.random === true || present.length === 0 || !present.every(({ folds, host }) => folds && host !== undefined))
      return undefined;
    const specs = present.map(({ type }, index) => ({ name: `x${index}`, type }));
    let built: readonly Result[] = [];
    const { graph, captured } = traceFunction<Tensor>("fold", specs, (nodes) => {
      const stand = new Map(present.map((value, index) => [value, standIn(value, nodes[index] as Node)]));
      const operands = inputs.map((input) => (input === undefined ? undefined : stand.get(input)));
      built = listOf(row.build(this.#context(node, operands, build)));
      return built.filter((result) => isTensor(result)).map((result) => result.node);
    });
    const tensors = built.filter((result) => isTensor(result));
    if (tensors.some(({ shape }) => sizeOf(shape) > largestFolded)) return undefined;
    const hosts = captured.map((tensor) => ({ dtype: tensor.dtype, shape: tensor.shape, data: tensor.dataSync() }));
    const knownHosts = present.map(({ host }) => host as HostTensor);
    const results = evaluateGraph(graph, [...knownHosts, ...hosts]);
    let next = 0;
    return built.map(
      (result) => (isTensor(result) ? new Value(results[next++] as HostTensor) : valueOf(result)) as Value,
    );
  }
}

/**
 * Errors that no check has reported, such as sizes beyond memory or attributes that contradict each other, are reported
 * as faults of the file.
 */
function asOwn(error: unknown): HeddleError {
  if (error instanceof HeddleError) return error;
  const said = error instanceof Error ? error.message : String(error);
  const problem =
    error instanceof RangeError ? "asks for sizes beyond reason" : "has inputs and attributes that make no sense";
  return new HeddleError("format", `${problem} (${said})`, { cause: error });
}

/** A weight that also stands at a constant input is a constant there: files keep equal tensors once. */
const asTaken = (node: NodeProto, index: number, value: Value): Value =>
  value.host !== undefined && !value.folds && isConstantInput(node, index, value.host) ? new Value(value.host) : value;

/** A known value as a node of a trace; rows may still read its numbers. */
const standIn = (value: Value, node: Node): Value => new Value(Tensor.ofNode(node), { host: value.host as HostTensor });

const listOf = (results: ReturnType<Row["build"]>): readonly Result[] =>
  Array.isArray(results) ? (results as readonly Result[]) : [results as Result];

const valueOf = (result: Result): Value | undefined => (result === undefined ? undefined : new Value(result));

const valuesOf = (results: ReturnType<Row["build"]>): Value[] => listOf(results).map(valueOf) as Value[];
