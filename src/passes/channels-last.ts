/**
 * @module The layout of convolutions. Native kernels want channels last; users write channels first. Each convolution is
 * turned into its native layout between transposes, and the transposes move towards the outputs until they meet and
 * cancel. What stays is at the edges: the network's input, a flatten, the gradients of the weights.
 */
import type { Attrs, Graph, Node } from "../ir/node.ts";
import { apply } from "../ir/trace.ts";
import { nodesWithin } from "../ir/walk.ts";
import { inverseOrder } from "../ops/host-arrays.ts";
import { type ConvAttrs, call, convDims, convForm, convOrders, reshape, transpose } from "../ops/index.ts";
import { reshapeGroups } from "../ops/movement.ts";
import { type RewriteTrace, type Rule, rewriteGraph, rewriteOnce, rule } from "../rewrite/index.ts";
import { input, isOp, isPointwise, orderOf } from "./match.ts";
import { simplifyRules } from "./simplify.ts";

/** The layout in which native kernels compute this convolution; kernels without one are read with any strides. */
function nativeForm(node: Node): ReturnType<typeof convOrders> {
  const dims = convDims((node.attrs as ConvAttrs).layout);
  return convOrders(convForm(dims, input(node, 1).shape, node.shape), dims);
}

/** The order that brings dims named by `from` into the order `to`. */
const orderOfLetters = (from: string, to: string): number[] => [...to].map((letter) => from.indexOf(letter));

/** The operand below its transpose, with the letters of its own dims. */
function below(operand: Node, letters: string): { operand: Node; letters: string } {
  if (!isOp(operand, "transpose")) return { operand, letters };
  const back = inverseOrder(orderOf(operand));
  return { operand: input(operand), letters: back.map((dim) => letters[dim]).join("") };
}

function convInNativeForm(node: Node): Node {
  const attrs = node.attrs as ConvAttrs;
  const dims = convDims(attrs.layout);
  const form = nativeForm(node);
  const arrange = (operand: Node, letters: string, wanted: string | undefined): { operand: Node; letters: string } => {
    const own = below(operand, letters);
    return wanted === undefined
      ? own
      : { operand: transpose(own.operand, orderOfLetters(own.letters, wanted)), letters: wanted };
  };
  const x = arrange(input(node), dims.x, form.x);
  const kernel = arrange(input(node, 1), dims.kernel, form.kernel);
  const made = call("conv", [x.operand, kernel.operand], {
    ...attrs,
    layout: `${x.letters},${kernel.letters}->${form.out}`,
  });
  return transpose(made, orderOfLetters(form.out, dims.out));
}

/** How the attributes of an op that has one entry per dim, or names dims, follow its operand's dims. */
interface DimAttrs {
  readonly perDim?: readonly string[];
  readonly dims?: string;
  readonly dim?: string;
  /** How many operands have those dims; all by default. */
  readonly operands?: number;
}

const windows: DimAttrs = { perDim: ["window", "strides", "padding", "dilation"] };
const movable: { readonly [op: string]: DimAttrs } = {
  reduceWindow: windows,
  selectAndScatter: windows,
  windowTake: windows,
  pad: { perDim: ["low", "high", "interior"], operands: 1 },
  slice: { perDim: ["start", "limit", "stride"] },
  reverse: { dims: "dims" },
  concat: { dim: "dim" },
};

function attrsBelow(attrs: Attrs, order: readonly number[], { perDim = [], dims, dim }: DimAttrs): Attrs {
  const back = inverseOrder(order);
  const moved: { [key: string]: Attrs[string] } = { ...attrs };
  for (const key of perDim.filter((key) => attrs[key] !== undefined))
    moved[key] = back.map((from) => (attrs[key] as readonly number[])[from] as number);
  if (dims !== undefined)
    moved[dims] = (attrs[dims] as readonly number[]).map((at) => order[at] as number).sort((a, b) => a - b);
  if (dim !== undefined) moved[dim] = order[attrs[dim] as number] as number;
  return moved;
}

/** Which of equal elements is first depends on the order of the dims that a window slides over. */
function keepsFirst({ attrs }: Node, order: readonly number[]): boolean {
  const moving = order.filter((_from, dim) => (attrs["window"] as readonly number[])[dim] !== 1);
  return moving.every((from, index) => index === 0 || from > (moving[index - 1] as number));
}

/** op(transpose(x), y) = transpose(op(x, transpose⁻¹(y))), for the orders that convolutions brought in. */
function towardsOutput(orders: ReadonlySet<string>) {
  return (node: Node): Node | undefined => {
    const rule = isPointwise(node) ? {} : movable[node.op.name];
    if (rule === undefined || node.types.length !== 1) return undefined;
    const operands = node.inputs.slice(0, rule.operands);
    const moved = operands.find((operand) => isOp(operand, "transpose") && orders.has(String(orderOf(operand))));
    if (moved === undefined) return undefined;
    const order = orderOf(moved);
    if (rule === windows && !keepsFirst(node, order)) return undefined;
    const back = inverseOrder(order);
    const inputs = node.inputs.map((operand, index) => (index < operands.length ? transpose(operand, back) : operand));
    return transpose(apply(node.op, inputs, attrsBelow(node.attrs, order, rule)), order);
  };
}

/**
 * reshape(transpose(x)) = transpose(reshape(x)) where the dims that the reshape merges or splits are neighbours in x, too:
 * groups and channels become channels, and back, without a copy.
 */
function reshapeTowardsOutput(orders: ReadonlySet<string>) {
  return (node: Node): Node | undefined => {
    const moved = input(node);
    if (!isOp(moved, "transpose") || !orders.has(String(orderOf(moved)))) return undefined;
    const order = orderOf(moved);
    const source = input(moved);
    const runs = reshapeGroups(moved.shape, node.shape);
    // Where each run begins in x; dims of size 1 lie anywhere.
    const large = order.flatMap((_dim, dim) => (moved.shape[dim] === 1 ? [] : [dim]));
    const inSource = [...large].sort((a, b) => (order[a] as number) - (order[b] as number));
    const places = runs.map((run) =>
      run.input.filter((dim) => large.includes(dim)).map((dim) => inSource.indexOf(dim)),
    );
    const adjacent = places.every((list) => list.every((place, index) => place === (list[0] as number) + index));
    if (!adjacent || node.shape.includes(0)) return undefined;
    const sorted = runs.map((_run, run) => run).sort((a, b) => (places[a]?.[0] ?? -1) - (places[b]?.[0] ?? -1));
    const dims = sorted.flatMap((run) => runs[run]?.output as number[]);
    return transpose(
      reshape(
        source,
        dims.map((dim) => node.shape[dim] as number),
      ),
      inverseOrder(dims),
    );
  };
}

/** Orders of the transposes that follow convolutions of the forward kind. */
function broughtOrders(graph: Graph): Set<string> {
  const orders = new Set<string>();
  for (const node of nodesWithin(graph)) {
    if (!isOp(node, "conv") || nativeForm(node).kernel !== undefined) continue;
    const [made, wanted] = [nativeForm(node).out, convDims((node.attrs as ConvAttrs).layout).out];
    orders.add(String(orderOfLetters(made, wanted)));
    // What is left when groups are channels again.
    const plain = (letters: string): string => letters.replace("fg", "f").replace("gf", "f");
    if (made.includes("g")) orders.add(String(orderOfLetters(plain(made), plain(wanted))));
  }
  return orders;
}

/** The layout rules for a graph whose convolutions bring in these orders. */
const layoutRules = (orders: ReadonlySet<string>): readonly Rule[] => [
  rule("conv", "conv in native layout", "conv(x) = transpose(conv'(transpose(x)))", convInNativeForm),
  rule(
    "*",
    "transpose towards output",
    "op(transpose(x), y) = transpose(op(x, transpose⁻¹(y)))",
    towardsOutput(orders),
  ),
  rule(
    "reshape",
    "transpose before a reshape of neighbours",
    "reshape(transpose(x)) = transpose(reshape(x))",
    reshapeTowardsOutput(orders),
  ),
];

/** The graph with its convolutions in the layouts of the native kernels. */
export function channelsLast(graph: Graph, trace?: RewriteTrace): Graph {
  if (!nodesWithin(graph).some((node) => isOp(node, "conv"))) return graph;
  // A transpose that moves past an op leaves its inverse on the op's other operands. Where an order is its own inverse (or two
  // convolutions bring in an order and its inverse), that one could move as well, and back: each node is moved once.
  const moved = rewriteOnce(graph, [...layoutRules(broughtOrders(graph)), ...simplifyRules], trace);
  return rewriteGraph(moved, simplifyRules, trace);
}
