/**
 * @module The layout of convolutions. Native kernels want channels last; users write channels first. Each convolution is
 * replaced by one in the native layout between transposes, and the transposes move towards the outputs until they meet and
 * cancel. Some transposes remain at the edges: the network's input, a flatten, the gradients of the weights.
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

/** The layout in which native kernels compute this convolution; a kernel of undefined form may have any strides. */
function nativeForm(node: Node): ReturnType<typeof convOrders> {
  const dims = convDims((node.attrs as ConvAttrs).layout);
  return convOrders(convForm(dims, input(node, 1).shape, node.shape), dims);
}

/** The order that brings dims named by `from` into the order `to`. */
const orderOfLetters = (from: string, to: string): number[] => [...to].map((letter) => from.indexOf(letter));

/** The operand without its transpose, with the letters of its dims. */
function withoutTranspose(operand: Node, letters: string): { operand: Node; letters: string } {
  if (!isOp(operand, "transpose")) return { operand, letters };
  const back = inverseOrder(orderOf(operand));
  return { operand: input(operand), letters: back.map((dim) => letters[dim]).join("") };
}

function convInNativeForm(node: Node): Node {
  const attrs = node.attrs as ConvAttrs;
  const dims = convDims(attrs.layout);
  const form = nativeForm(node);
  const arrange = (operand: Node, letters: string, target: string | undefined): { operand: Node; letters: string } => {
    const stripped = withoutTranspose(operand, letters);
    return target === undefined
      ? stripped
      : { operand: transpose(stripped.operand, orderOfLetters(stripped.letters, target)), letters: target };
  };
  const x = arrange(input(node), dims.x, form.x);
  const kernel = arrange(input(node, 1), dims.kernel, form.kernel);
  const native = call("conv", [x.operand, kernel.operand], {
    ...attrs,
    layout: `${x.letters},${kernel.letters}->${form.out}`,
  });
  return transpose(native, orderOfLetters(form.out, dims.out));
}

/** The attributes of an op that depend on its operand's dims: with one entry per dim, or with numbers of dims. */
interface DimAttrs {
  readonly perDim?: readonly string[];
  readonly dims?: string;
  readonly dim?: string;
  /** The number of operands that have those dims; default: all. */
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
  const permuted: { [key: string]: Attrs[string] } = { ...attrs };
  for (const key of perDim.filter((key) => attrs[key] !== undefined))
    permuted[key] = back.map((from) => (attrs[key] as readonly number[])[from] as number);
  if (dims !== undefined)
    permuted[dims] = (attrs[dims] as readonly number[]).map((oldDim) => order[oldDim] as number).sort((a, b) => a - b);
  if (dim !== undefined) permuted[dim] = order[attrs[dim] as number] as number;
  return permuted;
}

/** Whether the dims that a window slides over keep their order, which decides which of equal elements is first. */
function keepsFirst({ attrs }: Node, order: readonly number[]): boolean {
  const moving = order.filter((_from, dim) => (attrs["window"] as readonly number[])[dim] !== 1);
  return moving.every((from, index) => index === 0 || from > (moving[index - 1] as number));
}

/** op(transpose(x), y) = transpose(op(x, transpose⁻¹(y))), for the orders that convolutions introduce. */
function towardsOutput(orders: ReadonlySet<string>) {
  return (node: Node): Node | undefined => {
    const rule = isPointwise(node) ? {} : movable[node.op.name];
    if (rule === undefined || node.types.length !== 1) return undefined;
    const operands = node.inputs.slice(0, rule.operands);
    const transposed = operands.find((operand) => isOp(operand, "transpose") && orders.has(String(orderOf(operand))));
    if (transposed === undefined) return undefined;
    const order = orderOf(transposed);
    if (rule === windows && !keepsFirst(node, order)) return undefined;
    const back = inverseOrder(order);
    const inputs = node.inputs.map((operand, index) => (index < operands.length ? transpose(operand, back) : operand));
    return transpose(apply(node.op, inputs, attrsBelow(node.attrs, order, rule)), order);
  };
}

/**
 * reshape(transpose(x)) = transpose(reshape(x)) where the dims that the reshape merges or splits are adjacent in x, too:
 * groups and channels become channels, and back, without a copy.
 */
function reshapeTowardsOutput(orders: ReadonlySet<string>) {
  return (node: Node): Node | undefined => {
    const transposed = input(node);
    if (!isOp(transposed, "transpose") || !orders.has(String(orderOf(transposed)))) return undefined;
    const order = orderOf(transposed);
    const source = input(transposed);
    const runs = reshapeGroups(transposed.shape, node.shape);
    // Positions of each run's dims in x; dims of size 1 are ignored.
    const large = order.flatMap((_dim, dim) => (transposed.shape[dim] === 1 ? [] : [dim]));
    const inSource = [...large].sort((a, b) => (order[a] as number) - (order[b] as number));
    const inX = runs.map((run) => run.input.filter((dim) => large.includes(dim)).map((dim) => inSource.indexOf(dim)));
    const adjacent = inX.every((list) => list.every((position, index) => position === (list[0] as number) + index));
    if (!adjacent || node.shape.includes(0)) return undefined;
    const sorted = runs.map((_run, run) => run).sort((a, b) => (inX[a]?.[0] ?? -1) - (inX[b]?.[0] ?? -1));
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

/** Orders of the transposes that follow forward convolutions. */
function introducedOrders(graph: Graph): Set<string> {
  const orders = new Set<string>();
  for (const node of nodesWithin(graph)) {
    if (!isOp(node, "conv") || nativeForm(node).kernel !== undefined) continue;
    const [native, declared] = [nativeForm(node).out, convDims((node.attrs as ConvAttrs).layout).out];
    orders.add(String(orderOfLetters(native, declared)));
    // The order after a reshape has turned groups into channels again.
    const withoutGroups = (letters: string): string => letters.replace("fg", "f").replace("gf", "f");
    if (native.includes("g")) orders.add(String(orderOfLetters(withoutGroups(native), withoutGroups(declared))));
  }
  return orders;
}

/** The layout rules for a graph whose convolutions introduce these orders. */
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
  // convolutions introduce an order and its inverse), the inverse could move as well, and back: so each node is rewritten once.
  const onceRewritten = rewriteOnce(graph, [...layoutRules(introducedOrders(graph)), ...simplifyRules], trace);
  return rewriteGraph(onceRewritten, simplifyRules, trace);
}
