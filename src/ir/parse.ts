/** @module Reads the text that `print.ts` writes. */
import { HeddleError } from "../util/errors.ts";
import { type Plain, parseCanonicalJson } from "../util/text.ts";
import { parameter } from "./graph.ts";
import type { Attrs, Graph, Node } from "./node.ts";
import { opNamed } from "./op.ts";
import { unquoted } from "./print.ts";
import { formatType, parseType, sameType, type TensorType } from "./shape.ts";
import { apply, Trace, withTrace } from "./trace.ts";

/**
 * Parses the text of one graph and the graphs it owns; the last one in the text is returned.
 *
 * @throws HeddleError `parse` with the line number.
 */
export function parseGraph(text: string): Graph {
  const reader = new GraphReader(text);
  return reader.read();
}

class GraphReader {
  private readonly lines: string[];
  private line = 0;
  private readonly graphs = new Map<string, Graph>();

  constructor(text: string) {
    this.lines = text.split("\n");
  }

  read(): Graph {
    let last: Graph | undefined;
    for (; this.line < this.lines.length; this.line++) {
      if (this.text() === "") continue;
      last = this.graph();
    }
    if (last === undefined) throw this.error("there is no graph");
    return last;
  }

  private graph(): Graph {
    const head = /^graph @("(?:[^"\\]|\\.)*"|[^\s(]*)\((.*)\) \{$/.exec(this.text());
    if (head === null) throw this.error("expected 'graph @name(…) {'");
    const name = this.name(head[1] as string);
    const values = new Map<string, Node>();
    return withTrace(new Trace(), () => {
      const inputs = splitTop(head[2] as string).map((part, index) => {
        const match = /^(%\d+) (.*): (\S+)$/.exec(part);
        if (match === null) throw this.error(`malformed input '${part}'`);
        const node = parameter(index, {
          name: this.name(match[2] as string),
          type: this.type(match[3] as string),
        });
        values.set(match[1] as string, node);
        return node;
      });
      const outputs = this.body(values);
      const graph: Graph = { kind: "graph", name: name.replace(/~\d+$/, ""), inputs, outputs };
      this.graphs.set(name, graph);
      return graph;
    });
  }

  private body(values: Map<string, Node>): Node[] {
    let outputs: Node[] | undefined;
    for (this.line++; this.line < this.lines.length; this.line++) {
      const text = this.text();
      if (text === "}") break;
      if (text.startsWith("return ") || text === "return") outputs = this.operands(text.slice("return".length), values);
      else this.statement(text, values);
    }
    if (outputs === undefined) throw this.error("graph ends without 'return'");
    return outputs;
  }

  private statement(text: string, values: Map<string, Node>): void {
    const match = /^(%\d+) = ([a-zA-Z0-9]+)((?: %\d+,?)*) ?(\{.*\})? ?: (.+)$/.exec(text);
    if (match === null) throw this.error(`malformed line '${text}'`);
    const inputs = this.operands(match[3] as string, values);
    const node = this.applied(match[2] as string, inputs, this.attrs(match[4] ?? "{}"));
    const types = splitTop(match[5] as string).map((part) => this.type(part));
    if (
      types.length !== node.types.length ||
      !types.every((type, index) => sameType(type, node.types[index] as TensorType))
    ) {
      throw this.error(`'${node.op.name}' gives ${node.types.map(formatType).join(", ")}, the text says ${match[5]}`);
    }
    values.set(match[1] as string, node);
  }

  private applied(name: string, inputs: readonly Node[], attrs: Attrs): Node {
    try {
      return apply(opNamed(name), inputs, attrs);
    } catch (error) {
      throw this.error(error instanceof HeddleError ? error.plain : `'${name}' does not take these attributes`);
    }
  }

  private operands(text: string, values: Map<string, Node>): Node[] {
    return text
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "")
      .map((name) => {
        const node = values.get(name);
        if (node === undefined) throw this.error(`${name} is not defined`);
        return node;
      });
  }

  private attrs(text: string): Attrs {
    const attrs: Record<string, Plain | Graph> = {};
    for (const part of splitTop(text.slice(1, -1))) {
      const colon = part.indexOf(": ");
      const value = part.slice(colon + 2);
      attrs[part.slice(0, colon)] = value.startsWith("@") ? this.owned(this.name(value.slice(1))) : this.plain(value);
    }
    return attrs;
  }

  private name(text: string): string {
    try {
      return unquoted(text);
    } catch {
      throw this.error(`malformed name ${text}`);
    }
  }

  private owned(name: string): Graph {
    const graph = this.graphs.get(name);
    if (graph === undefined) throw this.error(`graph @${name} is not defined above`);
    return graph;
  }

  private plain(text: string): Plain {
    try {
      return parseCanonicalJson(text);
    } catch {
      throw this.error(`malformed attribute '${text}'`);
    }
  }

  private type(text: string): TensorType {
    const type = parseType(text);
    if (type === undefined) throw this.error(`'${text}' is not a type`);
    return type;
  }

  private text(): string {
    return (this.lines[this.line] ?? "").trim();
  }

  private error(message: string): HeddleError {
    return new HeddleError("parse", `line ${this.line + 1}: ${message}`);
  }
}

/** Splits at `, ` outside of brackets and strings. */
function splitTop(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let quoted = false;
  let start = 0;
  for (let index = 0; index < text.length; index++) {
    const char = text[index] as string;
    if (char === '"') quoted = !quoted;
    // What a backslash escapes ends no string.
    if (quoted && char === "\\") index++;
    if (quoted) continue;
    if ("[{(".includes(char)) depth++;
    else if ("]})".includes(char)) depth--;
    else if (char === "," && depth === 0 && text[index + 1] === " ") {
      parts.push(text.slice(start, index).trim());
      start = index + 1;
    }
  }
  const last = text.slice(start).trim();
  if (last !== "") parts.push(last);
  return parts;
}
