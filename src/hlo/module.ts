/**
 * @module StableHLO text of a graph: a module that XLA compiles. Ops are spelled by the rules of this folder; composites
 * become functions of their bodies. docs/stablehlo.md says where the meaning differs.
 */

import { type Attrs, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { printGraph } from "../ir/print.ts";
import type { TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import { bodyGraph } from "../ops/index.ts";
import type { ProgramAxis } from "../program/program.ts";
import { HeddleError } from "../util/errors.ts";
import { HloBlock, type HloSurroundings, type HloValue, hloAxis, hloResults, hloType } from "./block.ts";
import { stablehloRules } from "./rules.ts";

export interface StableHloOptions {
  /** The mesh, where the graph is that of one device: the devices are replicas, numbered in row-major order. */
  readonly axes?: readonly ProgramAxis[];
}

/**
 * A graph as a StableHLO module with a public function `main`.
 *
 * @throws HeddleError `argument` when the graph communicates over an axis that `axes` lacks; `op` when StableHLO cannot
 * spell an op.
 */
export function stablehloText(graph: Graph, options: StableHloOptions = {}): string {
  return new ModuleWriter(options.axes ?? []).module(graph);
}

class ModuleWriter {
  private readonly functions: string[] = [];
  /** Name of the function of each composite's body, by the text of the body. */
  private readonly bodies = new Map<string, string>();
  private readonly usedNames = new Set(["main"]);
  private readonly surroundings: HloSurroundings;
  private readonly replicas: number;

  constructor(axes: readonly ProgramAxis[]) {
    this.replicas = axes.reduce((count, { size }) => count * size, 1);
    this.surroundings = {
      axis: (name) => hloAxis(axes, name),
      inline: (hlo, graph, inputs) => this.inline(hlo, graph, inputs),
    };
  }

  module(graph: Graph): string {
    const main = this.function("public @main", graph);
    const replicas = this.replicas > 1 ? ` attributes {mhlo.num_replicas = ${this.replicas} : i32}` : "";
    return `module @${symbol(graph.name)}${replicas} {\n${[main, ...this.functions].join("\n")}\n}\n`;
  }

  private function(head: string, graph: Graph): string {
    const inputs = graph.inputs.map(
      (node, index): HloValue => ({ name: `%arg${index}`, type: node.types[0] as TensorType }),
    );
    const block = new HloBlock(this.surroundings, "    ");
    block.end("func.return", this.inline(block, graph, inputs));
    const results = graph.outputs.map((node) => node.types[0] as TensorType);
    const parameters = inputs.map(({ name, type }) => `${name}: ${hloType(type)}`).join(", ");
    return `  func.func ${head}(${parameters}) -> ${hloResults(results)} {\n${block.lines.join("\n")}\n  }`;
  }

  private inline(hlo: HloBlock, graph: Graph, inputs: readonly HloValue[]): HloValue[] {
    const values = new Map<Node, readonly HloValue[]>(
      graph.inputs.map((node, index) => [node, [inputs[index] as HloValue]]),
    );
    for (const node of topological(graph.outputs)) {
      if (values.has(node)) continue;
      const operands = node.inputs.flatMap((input) => values.get(input) as readonly HloValue[]);
      values.set(node, this.node(hlo, node, operands));
    }
    return graph.outputs.map((output) => (values.get(output) as readonly HloValue[])[0] as HloValue);
  }

  private node(hlo: HloBlock, node: Node, inputs: readonly HloValue[]): readonly HloValue[] {
    const { op, attrs, types } = node;
    const rule = stablehloRules.ruleOf(op);
    if (!isAbsent(rule)) return rule({ hlo, attrs: attrs as never, inputs, outputs: types });
    if (isAbsent(op.body)) {
      throw new HeddleError("op", `${op.name} has no spelling in StableHLO: ${rule.absent}`);
    }
    return hlo.call(this.bodyOf(node), inputs, types);
  }

  /** The name of the function with the body of a composite; equal bodies share a function. */
  private bodyOf({ op, inputs, attrs }: Node): string {
    const types = inputs.flatMap((input) => input.types);
    const body = bodyGraph(op, types, attrs as Attrs);
    const text = printGraph(body);
    const known = this.bodies.get(text);
    if (known !== undefined) return known;
    const name = this.unique(symbol(op.name));
    this.bodies.set(text, name);
    this.functions.push(this.function(`private @${name}`, body));
    return name;
  }

  private unique(preferred: string): string {
    let name = preferred;
    for (let count = 1; this.usedNames.has(name); count++) name = `${preferred}_${count}`;
    this.usedNames.add(name);
    return name;
  }
}

/** A name that MLIR accepts without quotes. */
const symbol = (name: string): string => name.replace(/^(?![A-Za-z_])/, "_").replace(/[^\w.$]/g, "_");
