/**
 * @module How loops and branches are spelled in ONNX: `scan` as Scan, `while` as Loop, `cond` as If. Values that are
 * the same in all iterations, and operands of branches, are found by name in the surrounding graph.
 */
import { type Graph, type Node, range, type TensorType, topological } from "../../ir/index.ts";
import type { CondAttrs, ScanAttrs, WhileAttrs } from "../../ops/index.ts";
import type { GraphWriter } from "./graph-writer.ts";
import type { GraphProto } from "./messages.ts";
import { castTo, reshaped, type Spelled, type Spelling, sliced } from "./spelled.ts";

const typeOf = (node: Node): TensorType => node.types[0] as TensorType;

/** A graph that a node owns, written by `build` with a new writer. */
function subgraph(
  writer: GraphWriter,
  name: string,
  inputs: readonly (readonly [name: string, type: TensorType])[],
  build: (inner: GraphWriter) => readonly (readonly [name: string, type: TensorType])[],
): GraphProto {
  const inner = writer.within();
  const results = build(inner).map(([result, type]) => [inner.add("Identity", [result]), type] as const);
  return inner.graph(name, inputs, results);
}

/** Names and types for the inputs of a graph that a node owns. */
const named = (writer: GraphWriter, nodes: readonly Node[]): (readonly [string, TensorType])[] =>
  nodes.map((node) => [writer.name(String(node.attrs["name"])), typeOf(node)] as const);

const withTypes = (names: readonly string[], nodes: readonly Node[]): (readonly [string, TensorType])[] =>
  names.map((name, index) => [name, typeOf(nodes[index] as Node)] as const);

/** Whether a graph uses its input at `index`. */
const uses = ({ outputs, inputs }: Graph, index: number): boolean =>
  topological(outputs).includes(inputs[index] as Node);

/** No iterations: the first carries, and stacks of nothing. */
function empty({ node, inputs, writer }: Spelled): string[] {
  const { body, carries } = node.attrs as ScanAttrs;
  const stacks = body.outputs.slice(carries).map(({ dtype, shape }) => {
    const row = writer.add("Expand", [writer.scalar(dtype, 0), writer.list([1, ...shape])]);
    return sliced(writer, row, [0, ...shape.map(() => 0)], [0, ...shape]);
  });
  return [...inputs.slice(0, carries), ...stacks];
}

/** Carries, slices and stacks are those of ONNX; the number of the iteration is one more sliced input. */
function scan(spelled: Spelled): string[] {
  const { node, inputs, writer, spell } = spelled;
  const { body, length, carries, slices, reverse } = node.attrs as ScanAttrs;
  if (length === 0) return empty(spelled);
  const counted = slices === 0 || uses(body, 0);
  const [index, ...rest] = named(writer, body.inputs) as [readonly [string, TensorType], ...[string, TensorType][]];
  const ports = rest.slice(0, carries + slices);
  const graph = subgraph(writer, "scan", counted ? [...ports, index] : ports, (inner) => {
    const operands = [index[0], ...ports.map(([name]) => name), ...inputs.slice(carries + slices)];
    return withTypes(spell(body, operands, inner), body.outputs);
  });
  const count = counted
    ? [writer.constant("iterations", { dtype: "i32", shape: [length], data: Int32Array.from(range(length)) })]
    : [];
  const directions = (number: number): number[] => range(number).map(() => Number(reverse));
  const stacks = body.outputs.length - carries;
  return writer.addAll("Scan", [...inputs.slice(0, carries + slices), ...count], body.outputs.length, {
    body: { g: graph },
    num_scan_inputs: slices + count.length,
    scan_input_directions: directions(slices + count.length),
    ...(stacks === 0 ? {} : { scan_output_directions: directions(stacks) }),
  });
}

/** A Loop without a count: its condition is computed before the first iteration, and at the end of each for the next. */
function whileLoop({ node, inputs, writer, spell }: Spelled): string[] {
  const { condition, body, carries } = node.attrs as WhileAttrs;
  const constants = inputs.slice(carries);
  const test = (at: string, held: readonly string[], inner: GraphWriter): string =>
    spell(condition, [at, ...held, ...constants], inner)[0] as string;
  const [counter, going] = [writer.name("iteration"), writer.name("going")];
  const [, ...rest] = named(writer, body.inputs);
  const carried = rest.slice(0, carries);
  const ports = [[counter, { dtype: "i64", shape: [] }], [going, { dtype: "bool", shape: [] }], ...carried] as const;
  const graph = subgraph(writer, "loop", ports, (inner) => {
    const at = castTo(inner, reshaped(inner, counter, []), "i32");
    const next = spell(body, [at, ...carried.map(([name]) => name), ...constants], inner);
    const holds = test(inner.add("Add", [at, inner.scalar("i32", 1)]), next, inner);
    return [[holds, { dtype: "bool", shape: [] }], ...withTypes(next, body.outputs)];
  });
  const start = inputs.slice(0, carries);
  const first = test(writer.scalar("i32", 0), start, writer);
  return writer.addAll("Loop", ["", first, ...start], carries, { body: { g: graph } });
}

function cond({ node, inputs: [test, ...operands], writer, spell }: Spelled): string[] {
  const { onTrue, onFalse } = node.attrs as CondAttrs;
  const branch = (graph: Graph, name: string): GraphProto =>
    subgraph(writer, name, [], (inner) => withTypes(spell(graph, operands, inner), graph.outputs));
  return writer.addAll("If", [test as string], onTrue.outputs.length, {
    then_branch: { g: branch(onTrue, "then") },
    else_branch: { g: branch(onFalse, "else") },
  });
}

export const controlSpellings: { readonly [op: string]: Spelling } = {
  scan,
  while: whileLoop,
  cond,
};
