/**
 * @module Functions that a file defines, put in the place of the nodes that call them, so that all else sees one graph of ONNX's ops.
 * https://github.com/onnx/onnx/blob/main/docs/IR.md#functions
 */
import { HeddleError } from "../../util/errors.ts";
import type { AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto } from "./messages.ts";
import { nameOfSparse, neededOf, neededOfWhole } from "./needed.ts";

/** ONNX's own ops are of the domain "", which has another name. */
export const domainOf = ({ domain = "" }: { readonly domain?: string }): string => (domain === "ai.onnx" ? "" : domain);

/** The version of ONNX's own ops that a list of imports asks for. */
export const opsetOfImports = (imports: ModelProto["opsetImport"]): number | undefined =>
  imports.find((one) => domainOf(one) === "")?.version;

const keyOf = (domain: string, name = "", overload = ""): string => [domain, name, overload].join("\n");

/** Functions that call others may grow to more than any memory: a network has fewer nodes than this. */
const mostNodes = 1_000_000;

type Names = (name: string) => string;

class Inliner {
  readonly #functions: ReadonlyMap<string, FunctionProto>;
  readonly #file: string;
  /** What no name of the graph has in it, so that names made with it are new. */
  readonly #mark: string;
  #calls = 0;
  #made = 0;

  constructor(functions: readonly FunctionProto[], graph: GraphProto, file: string) {
    this.#functions = new Map(functions.map((one) => [keyOf(domainOf(one), one.name, one.overload), one]));
    this.#file = file;
    const names = namesOf(graph);
    let mark = "#";
    while (names.some((name) => name.includes(mark))) mark += "#";
    this.#mark = mark;
  }

  graph(graph: GraphProto, path: readonly FunctionProto[]): GraphProto {
    return { ...graph, node: graph.node.flatMap((node) => this.#node(node, path)) };
  }

  #node(node: NodeProto, path: readonly FunctionProto[]): NodeProto[] {
    if (++this.#made > mostNodes)
      throw new HeddleError("model", `${this.#file} has more than ${mostNodes} nodes once its functions are inlined`);
    const called = this.#functions.get(keyOf(domainOf(node), node.opType, node.overload));
    if (called !== undefined) return this.#call(node, called, path);
    const attribute = node.attribute.map((one) => (one.g === undefined ? one : { ...one, g: this.graph(one.g, path) }));
    return [{ ...node, attribute }];
  }

  #call(node: NodeProto, called: FunctionProto, path: readonly FunctionProto[]): NodeProto[] {
    const within = [...path, called];
    if (path.includes(called)) {
      const names = within.slice(within.indexOf(called)).map(({ name }) => name);
      throw new HeddleError("format", `${this.#file} has functions that call themselves: ${names.join(" calls ")}`);
    }
    const body = this.#bodyOf(node, called);
    const opset = opsetOfImports(called.opsetImport);
    const own = this.#names(node, called);
    const attributes = new Map(
      [...called.attributeProto, ...node.attribute].map((attribute) => [attribute.name ?? "", attribute]),
    );
    const nodes = body.map((one) => instance(one, own, attributes, opset));
    // What is passed through has no node that could carry the caller's name for it.
    const passed = called.output.flatMap((name, place): NodeProto[] => {
      const [index, output] = [called.input.indexOf(name), node.output[place] ?? ""];
      if (index < 0 || output === "") return [];
      return [{ opType: "Identity", input: [node.input[index] ?? ""], output: [output], attribute: [] }];
    });
    return [...nodes.flatMap((one) => this.#node(one, within)), ...passed];
  }

  /** The nodes of a function that the results which are asked for need, in order. */
  #bodyOf(node: NodeProto, called: FunctionProto): readonly NodeProto[] {
    const asked = called.output.filter((_name, place) => (node.output[place] ?? "") !== "");
    const port = (name: string) => ({ name });
    const graph = { node: called.node, initializer: [], input: called.input.map(port), output: asked.map(port) };
    return neededOfWhole(graph, `${this.#file}: function ${called.name}`).graph.node;
  }

  /** The caller's names of inputs and results, and for all else names of this call alone. */
  #names(node: NodeProto, called: FunctionProto): Names {
    const prefix = `${called.name}${this.#mark}${this.#calls++}/`;
    const known = new Map(called.input.map((name, place) => [name, node.input[place] ?? ""]));
    called.output.forEach((name, place) => {
      const given = node.output[place] ?? "";
      if (given !== "" && !known.has(name)) known.set(name, given);
    });
    return (name) => (name === "" ? "" : (known.get(name) ?? `${prefix}${name}`));
  }
}

/** A node of a function as it stands in the caller's graph. */
function instance(
  node: NodeProto,
  names: Names,
  attributes: ReadonlyMap<string, AttributeProto>,
  opset: number | undefined,
): NodeProto {
  const attribute = node.attribute.flatMap((one): AttributeProto[] => {
    const given = one.refAttrName ? attributes.get(one.refAttrName) : one;
    // One that the caller leaves out, and that has no default, is left out here too.
    if (given === undefined) return [];
    const named = given === one ? one : { ...given, name: one.name ?? "" };
    return [named.g === undefined || given !== one ? named : { ...named, g: inner(named.g, names, attributes, opset) }];
  });
  const version = node.opset ?? opset;
  return {
    ...node,
    input: node.input.map(names),
    output: node.output.map(names),
    attribute,
    ...(version === undefined ? {} : { opset: version }),
  };
}

/** A graph within a function: its own names are this call's, others those of the function. */
function inner(
  graph: GraphProto,
  names: Names,
  attributes: ReadonlyMap<string, AttributeProto>,
  opset: number | undefined,
): GraphProto {
  const named = <T extends { readonly name?: string }>(one: T): T => ({ ...one, name: names(one.name ?? "") });
  const { sparseInitializer = [] } = graph;
  return {
    ...graph,
    node: graph.node.map((node) => instance(node, names, attributes, opset)),
    initializer: graph.initializer.map(named),
    sparseInitializer: sparseInitializer.map((one) => ({ ...one, values: named({ dims: [], ...one.values }) })),
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
  return new Inliner(functions, asked, file).graph(asked, []);
}
