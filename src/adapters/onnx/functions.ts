/**
 * @module Functions that a file defines, put in the place of the nodes that call them, so that all else sees one graph of ONNX's ops.
 * https://github.com/onnx/onnx/blob/main/docs/IR.md#functions
 */
import { HeddleError } from "../../extend/index.ts";
import type { AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto } from "./messages.ts";
import { nameOfSparse, neededOf, neededOfWhole } from "./needed.ts";

/** ONNX's own ops are of the domain "", which has another name. */
export const domainOf = ({ domain = "" }: { readonly domain?: string }): string => (domain === "ai.onnx" ? "" : domain);

/** The version of ONNX's own ops that a list of imports asks for. */
export const opsetOfImports = (imports: ModelProto["opsetImport"]): number | undefined =>
  imports.find((entry) => domainOf(entry) === "")?.version;

const keyOf = (domain: string, name = "", overload = ""): string => [domain, name, overload].join("\n");

/** Functions that call others may grow to more than any memory: a network has fewer nodes than this. */
const mostNodes = 1_000_000;

/** One call: what the names, attributes and versions of the function's nodes are there. */
interface Call {
  readonly prefix: string;
  readonly names: (name: string) => string;
  readonly attributes: ReadonlyMap<string, AttributeProto>;
  readonly opset: number | undefined;
}

class Inliner {
  readonly #functions: ReadonlyMap<string, FunctionProto>;
  readonly #file: string;
  /** What no name of the graph has in it, so that names made with it are new. */
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
      // One that calls itself is told when it is inlined.
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
    // What is passed through has no node that could carry the caller's name for it.
    const passed = called.output.flatMap((name, place): NodeProto[] => {
      const [index, output] = [called.input.indexOf(name), node.output[place] ?? ""];
      if (index < 0 || output === "") return [];
      return [{ opType: "Identity", input: [node.input[index] ?? ""], output: [output], attribute: [] }];
    });
    return [...nodes.flatMap((bodyNode) => this.#node(bodyNode, within)), ...passed];
  }

  /** The nodes of a function that the results which are asked for need, in order. */
  #bodyOf(node: NodeProto, called: FunctionProto): readonly NodeProto[] {
    const asked = called.output.filter((_name, place) => (node.output[place] ?? "") !== "");
    const port = (name: string) => ({ name });
    const graph = { node: called.node, initializer: [], input: called.input.map(port), output: asked.map(port) };
    return neededOfWhole(graph, `${this.#file}: function ${called.name}`).graph.node;
  }

  /** The caller's names of inputs and results, and for all else names of this call alone. */
  #callOf(node: NodeProto, called: FunctionProto): Call {
    const prefix = `${called.name}${this.#mark}${this.#calls++}/`;
    const known = new Map(called.input.map((name, place) => [name, node.input[place] ?? ""]));
    called.output.forEach((name, place) => {
      const callerName = node.output[place] ?? "";
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
    // One that the caller leaves out, and that has no default, is left out here too.
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

/** A graph within a function: its own names are this call's, others those of the function. */
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
 * A graph without calls of the file's functions: what was asked for is in it, in an order in which it can be computed.
 *
 * @throws HeddleError `format` for functions that call themselves, and what {@link neededOf} refuses.
 */
export function inlined(graph: GraphProto, functions: readonly FunctionProto[], file: string): GraphProto {
  const { graph: asked } = neededOf(graph, file);
  if (functions.length === 0) return asked;
  return new Inliner(functions, asked, file).whole(asked);
}
