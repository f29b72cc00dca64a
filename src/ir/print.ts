/** @module Text of graphs: the form in which they are read, compared and fingerprinted. */
import { canonicalJson, type Plain } from "../util/text.ts";
import { parameterOp } from "./leaf.ts";
import type { Attrs, Graph, Node } from "./node.ts";
import { formatType } from "./shape.ts";
import { isGraph } from "./trace.ts";
import { topological } from "./walk.ts";

/**
 * Prints a graph, after the graphs that its ops own:
 *
 *     graph @loss(%0 x: f32[4]) {
 *       %1 = mul %0, %0 : f32[4]
 *       return %1
 *     }
 */
export function printGraph(graph: Graph): string {
  const printer = new GraphPrinter();
  printer.add(graph, graph.name);
  return `${printer.parts.join("\n\n")}\n`;
}

class GraphPrinter {
  readonly parts: string[] = [];
  private readonly names = new Map<Graph, string>();
  private readonly taken = new Set<string>();

  /** Prints a graph unless that is done; gives the text of its name. */
  add(graph: Graph, wanted: string): string {
    const known = this.names.get(graph);
    if (known !== undefined) return known;
    const name = quoted(this.unique(wanted));
    this.names.set(graph, name);
    const numbers = new Map<Node, number>();
    const number = (node: Node): string => `%${numbers.get(node)}`;
    for (const input of graph.inputs) numbers.set(input, numbers.size);
    const inputs = graph.inputs.map(
      (node) => `${number(node)} ${inputText(String(node.attrs["name"]))}: ${formatType(node)}`,
    );
    const lines: string[] = [];
    for (const node of topological(graph.outputs)) {
      if (numbers.has(node)) continue;
      numbers.set(node, numbers.size);
      lines.push(`  ${number(node)} = ${this.expression(node, number)} : ${node.types.map(formatType).join(", ")}`);
    }
    lines.push(`  return ${graph.outputs.map(number).join(", ")}`);
    this.parts.push(`graph @${name}(${inputs.join(", ")}) {\n${lines.join("\n")}\n}`);
    return name;
  }

  private expression(node: Node, number: (node: Node) => string): string {
    const inputs = node.inputs.map(number).join(", ");
    const attrs = this.attrs(node.attrs);
    return [node.op.name, inputs, attrs].filter((part) => part !== "").join(" ");
  }

  private attrs(attrs: Attrs): string {
    const keys = Object.keys(attrs).sort();
    if (keys.length === 0) return "";
    const text = (value: Plain | Graph): string =>
      isGraph(value) ? `@${this.add(value, value.name)}` : canonicalJson(value);
    return `{${keys.map((key) => `${key}: ${text(attrs[key] as Plain | Graph)}`).join(", ")}}`;
  }

  private unique(wanted: string): string {
    let name = wanted;
    for (let count = 1; this.taken.has(name); count++) name = `${wanted}~${count}`;
    this.taken.add(name);
    return name;
  }
}

/** The name of a graph in texts; one that could be mistaken for something else is quoted. Functions may have none. */
export const quoted = (name: string): string => (/^[^\s("{},:]*$/.test(name) ? name : JSON.stringify(name));

/** The name that {@link quoted} has written. @throws SyntaxError where quotes hold none. */
export const unquoted = (text: string): string => (text.startsWith('"') ? String(JSON.parse(text)) : text);

const inputText = (name: string): string => (/^[\w.$/-]+$/.test(name) ? name : JSON.stringify(name));

/** One node on a line, for messages: `dot f32[2,3], f32[3,4] -> f32[2,4]`. */
export function describeNode(node: Node): string {
  if (node.op === parameterOp) return `parameter '${String(node.attrs["name"])}' ${formatType(node)}`;
  return `${node.op.name} ${node.inputs.map(formatType).join(", ")} -> ${node.types.map(formatType).join(", ")}`.replace(
    "  ",
    " ",
  );
}
