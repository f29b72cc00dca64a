/**
 * @module Inlines the functions that a file defines into the nodes that call them, so that all other code sees one
 * graph of ONNX's ops. https://github.com/onnx/onnx/blob/main/docs/IR.md#functions
 */
import { HeddleError } from "../../extend/index.ts";
import type { AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto } from "./messages.ts";
import { nameOfSparse, neededOf, neededOfWhole } from "./needed.ts";

/** The domain of a node or a function; "ai.onnx" is another name of "", the domain of ONNX's own ops. */
export const domainOf = ({ domain = "" }: { readonly domain?: string }): string => (domain === "ai.onnx" ? "" : domain);

/** The version of ONNX's own ops that a list of imports asks for. */
export const opsetOfImports = (imports: ModelProto["opsetImport"]): number | undefined =>
  imports.find((entry) => domainOf(entry) === "")?.version;

const keyOf = (domain: string, name = "", overload = ""): string => [domain, name, overload].join("\n");

/** The most nodes of a graph after inlining: functions that call functions may grow beyond any memory. */
const mostNodes = 1_000_000;

/** One call of a function: the names, attributes and opset of the function's nodes in this call. */
interface Call {
  readonly prefix: string;
  readonly names: (name: string) => string;
  readonly attributes: ReadonlyMap<string, AttributeProto>;
  readonly opset: number | undefined;
}

class Inliner {
  readonly #functions: ReadonlyMap<string, FunctionProto>;
  readonly #file: string;
  /** A text that no name of the graph contains, so that names with it are new. */
  readonly #mark: string;
  #calls = 0;
  /** How many nodes a call of a function becomes. */
  readonly #sizes = new Map<FunctionProto, number>();

  constructor(functions: readonly FunctionProto[], graph: GraphProto, file: string) {
    this.#functions = new Map(
      functions.map((definition) => [keyOf(domainOf(definition), definition.name, definition.overload), definition]),
    );
    this.#file = file;
    const names = namesOf(graph);
    let mark = "#";
    while (names.some((name) => name.includes(mark))) mark += "#";
    this.#mark = mark;
  }

  /** @throws HeddleError `model` for a graph that would be larger than any memory. */
  whole(graph: GraphProto): GraphProto {
    const size = this.#sizeOf(graph.node);
    if (size <= mostNodes) return this.graph(graph, []);
    const problem = `has ${size} nodes once its functions are inlined, which is more than ${mostNodes}`;
    throw new HeddleError("model", `${this.#file} ${problem}`);
  }

  #called = (node: NodeProto): FunctionProto | undefined =>
    this.#functions.get(keyOf(domainOf(node), node.opType, node.overload));

  #sizeOf(nodes: readonly NodeProto[]): number {
    return nodes.reduce((sum, node) => {
      const called = this.#called(node);
      if (called === undefined)
        return node.attribute.reduce((all, { g }) => all + (g === undefined ? 0 : this.#sizeOf(g.node)), sum + 1);
      // A function that calls itself is reported when it is inlined.
      if (!this.#sizes.has(called)) {
        this.#sizes.set(called, 0);
        this.#sizes.set(called, this.#sizeOf(called.node));
      }
      return sum + (this.#sizes.get(called) as number);
    }, 0);
  }

  graph(graph: GraphProto, path: readonly FunctionProto[]): GraphProto {
    return { ...graph, node: graph.node.flatMap((node) => this.#node(node, path)) };
  }

  #node(node: NodeProto, path: readonly FunctionProto[]): NodeProto[] {
    const called = this.#called(node);
    if (called !== undefined) return this.#call(node, called, path);
    const attribute = node.attribute.map((entry) =>
      entry.g === undefined ? entry : { ...entry, g: this.graph(entry.g, path) },
    );
    return [{ ...node, attribute }];
  }

  #call(node: NodeProto, called: FunctionProto, path: readonly FunctionProto[]): NodeProto[] {
    const within = [...path, called];
    if (path.includes(called)) {
      const names = within.slice(within.indexOf(called)).map(({ name }) => name);
      throw new HeddleError("format", `${this.#file} has functions that call themselves: ${names.join(" calls ")}`);
    }
    const body = this.#bodyOf(node, called);
    const call = this.#callOf(node, called);
    const nodes = body.map((bodyNode) => instance(bodyNode, call));
    // An input that is passed through as an output has no node to carry the caller's name.
    const passed = called.output.flatMap((name, outputIndex): NodeProto[] => {
      const [index, output] = [called.input.indexOf(name), node.output[outputIndex] ?? ""];
      if (index < 0 || output === "") return [];
      return [{ opType: "Identity", input: [node.input[index] ?? ""], output: [output], attribute: [] }];
    });
    return [...nodes.flatMap((bodyNode) => this.#node(bodyNode, within)), ...passed];
  }

  /** The nodes that the requested results of a function need, in order. */
  #bodyOf(node: NodeProto, called: FunctionProto): readonly NodeProto[] {
    const asked = called.output.filter((_name, index) => (node.output[index] ?? "") !== "");
    const port = (name: string) => ({ name });
    const graph = { node: called.node, initializer: [], input: called.input.map(port), output: asked.map(port) };
    return neededOfWhole(graph, `${this.#file}: function ${called.name}`).graph.node;
  }

  /** A call: the names of inputs and results are the caller's, all other names are new for this call. */
  #callOf(node: NodeProto, called: FunctionProto): Call {
    const prefix = `${called.name}${this.#mark}${this.#calls++}/`;
    const known = new Map(called.input.map((name, index) => [name, node.input[index] ?? ""]));
    called.output.forEach((name, index) => {
      const callerName = node.output[index] ?? "";
      if (callerName !== "" && !known.has(name)) known.set(name, callerName);
    });
    const attributes = [...called.attributeProto, ...node.attribute];
    return {
      prefix,
      names: (name) => (name === "" ? "" : (known.get(name) ?? `${prefix}${name}`)),
      attributes: new Map(attributes.map((attribute) => [attribute.name ?? "", attribute])),
      opset: opsetOfImports(called.opsetImport),
    };
  }
}

/** A node of a function as it stands in the caller's graph. */
function instance(node: NodeProto, call: Call): NodeProto {
  const attribute = node.attribute.flatMap((entry): AttributeProto[] => {
    if (!entry.refAttrName) return [entry.g === undefined ? entry : { ...entry, g: inner(entry.g, call) }];
    const actual = call.attributes.get(entry.refAttrName);
    // An attribute that the caller leaves out and that has no default is left out here, too.
    return actual === undefined ? [] : [{ ...actual, name: entry.name ?? "" }];
  });
  const opset = node.opset ?? call.opset;
  return {
    ...node,
    ...(node.name ? { name: `${call.prefix}${node.name}` } : {}),
    input: node.input.map(call.names),
    output: node.output.map(call.names),
    attribute,
    ...(opset === undefined ? {} : { opset }),
  };
}

/** A graph inside a function, with its names renamed for this call. */
function inner(graph: GraphProto, call: Call): GraphProto {
  const named = <T extends { readonly name?: string }>(value: T): T => ({
    ...value,
    name: call.names(value.name ?? ""),
  });
  const { sparseInitializer = [] } = graph;
  return {
    ...graph,
    node: graph.node.map((node) => instance(node, call)),
    initializer: graph.initializer.map(named),
    sparseInitializer: sparseInitializer.map((sparse) => ({
      ...sparse,
      values: named({ dims: [], ...sparse.values }),
    })),
    input: graph.input.map(named),
    output: graph.output.map(named),
  };
}

/** All names of values in a graph and those within it. */
function namesOf(graph: GraphProto): string[] {
  const initial = [...graph.initializer, ...graph.input].map(({ name = "" }) => name);
  const ofNodes = graph.node.flatMap(({ output, attribute }) => [
    ...output,
    ...attribute.flatMap(({ g }) => (g === undefined ? [] : namesOf(g))),
  ]);
  return [...initial, ...(graph.sparseInitializer ?? []).map(nameOfSparse), ...ofNodes];
}

/**
 * A graph without calls of the file's functions, with the nodes that its outputs need, in an order in which they can be
 * computed.
 *
 * @throws HeddleError `format` for functions that call themselves, and what {@link neededOf} refuses.
 */
export function inlined(graph: GraphProto, functions: readonly FunctionProto[], file: string): GraphProto {
  const { graph: asked } = neededOf(graph, file);
  if (functions.length === 0) return asked;
  return new Inliner(functions, asked, file).whole(asked);
}
