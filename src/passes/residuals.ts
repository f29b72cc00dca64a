/**
 * @module Residuals of loops: a scan that computes again what another scan has computed (the gradient of a scan does) reads
 * the value from a stack of the other scan. Values that are cheap to compute from what the loop has at hand, and values that
 * are the same in every iteration, are computed again.
 */
import { controlOf, type LoopControl } from "../ir/control.ts";
import { inlineGraph, inputSpecs, mapGraph, mapGraphs, type NodeMapper, traceGraph } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import { bytesOf, sizeOf } from "../ir/shape.ts";
import { apply, currentTrace } from "../ir/trace.ts";
import { flopsOf, nodesWithin, topological, usersOf } from "../ir/walk.ts";
import { resultsOf, stackLimit } from "../ops/index.ts";
import { prune } from "./prune.ts";

/** A value of at most this many operations per element is computed again. */
const cheapFlops = 20;

/** A scan as it becomes: its body has further slices, in front of the others. */
interface Loop {
  readonly node: Node;
  readonly attrs: Required<LoopControl>;
  body: Graph;
  readonly added: Node[];
}

/** The loop that a node is, if it counts its iterations and stacks their values. */
function countedLoop(node: Pick<Node, "op" | "attrs">): Required<LoopControl> | undefined {
  const control = controlOf(node);
  return control?.kind === "loop" && control.withBody !== undefined ? (control as Required<LoopControl>) : undefined;
}

/** The graph whose scans read the stacks of earlier scans instead of computing their values again, at any depth. */
export const residuals = (graph: Graph): Graph =>
  nodesWithin(graph).some(countedLoop) ? prune(withResiduals(graph)) : graph;

function withResiduals(graph: Graph): Graph {
  const loops = topological(graph.outputs).flatMap((node): Loop[] => {
    const attrs = countedLoop({ op: node.op, attrs: mapGraphs(node.attrs, withResiduals) });
    return attrs === undefined ? [] : [{ node, attrs, body: attrs.body, added: [] }];
  });
  return mapGraph(graph, (node, inputs) => {
    if (node.op === elementOp) return resultOf(inputs[0] as Node, node.attrs["index"] as number);
    const loop = loops.find((one) => one.node === node);
    return loop === undefined
      ? apply(node.op, inputs, mapGraphs(node.attrs, withResiduals))
      : loopWithStacks(loop, loops, inputs);
  });
}

/** A result of a node; a stack of a slice is the value that is sliced. */
function resultOf(node: Node, index: number): Node {
  const { body, carries = 0, slices = 0 } = countedLoop(node) ?? {};
  const at = index >= carries ? (body?.inputs.indexOf(body.outputs[index] as Node) ?? 0) - 1 : -1;
  return (at >= carries && at < carries + slices ? node.inputs[at] : resultsOf(node)[index]) as Node;
}

/** The loop, which stacks what later loops compute again; those get the stacks as further slices. */
function loopWithStacks(loop: Loop, loops: readonly Loop[], inputs: readonly Node[]): Node {
  const { carries, slices, length } = loop.attrs;
  const reads = loops.flatMap((reader) =>
    reader.attrs.length === length && reader.node.inputs.some((input) => input.inputs[0] === loop.node)
      ? [{ reader, indices: stacksFor(reader, loop) }]
      : [],
  );
  const operands = [...inputs.slice(0, carries), ...loop.added, ...inputs.slice(carries)];
  const node = apply(loop.node.op, operands, loop.attrs.withBody(loop.body, slices + loop.added.length));
  for (const { reader, indices } of reads) reader.added.unshift(...indices.map((index) => resultOf(node, index)));
  return node;
}

/** Makes the writer stack values that the reader then slices, unless the stacks are too large; their indices in the writer's results. */
function stacksFor(reader: Loop, writer: Loop): readonly number[] {
  const { carries } = reader.attrs;
  let saved: readonly Node[] = [];
  let indices: readonly number[] = [];
  const extended = traceGraph(writer.body.name, inputSpecs(writer.body), (...inputs) => {
    const outputs = inlineGraph(writer.body, inputs);
    const images = imagesOf(reader, writer, inputs, outputs);
    saved = savedBy(reader, images);
    indices = saved.map((node) => {
      const known = outputs.indexOf(images.get(node) as Node, writer.attrs.carries);
      return known < 0 ? outputs.push(images.get(node) as Node) - 1 : known;
    });
    return outputs;
  });
  const fresh = extended.outputs.slice(writer.body.outputs.length).map(bytesOf);
  if ((reader.attrs.length as number) * fresh.reduce((sum, bytes) => sum + bytes, 0) > stackLimit) return [];
  const [specs, at] = [inputSpecs(reader.body), 1 + carries];
  const added = saved.map((node, order) => ({ name: `residual${reader.added.length + order}`, type: node }));
  writer.body = extended;
  reader.body = traceGraph(reader.body.name, [...specs.slice(0, at), ...added, ...specs.slice(at)], (...nodes) => {
    const given = nodes.splice(at, added.length);
    const read: NodeMapper = (node, inputs) => given[saved.indexOf(node)] ?? apply(node.op, inputs, node.attrs);
    return inlineGraph(reader.body, nodes, read);
  });
  return indices;
}

/** For each node of the reader's body that the writer computes in the same iteration, the writer's node, in the trace in progress. */
function imagesOf(reader: Loop, writer: Loop, inputs: readonly Node[], outputs: readonly Node[]): Map<Node, Node> {
  const { carries, slices } = reader.attrs;
  const { node: source, attrs, added } = writer;
  const constants = attrs.carries + attrs.slices;
  const images = new Map<Node, Node>([[reader.body.inputs[0] as Node, inputs[0] as Node]]);
  reader.node.inputs.slice(carries).forEach((input, index) => {
    const isSlice = index < slices;
    const stack = isSlice && input.inputs[0] === source ? (input.attrs["index"] as number) : -1;
    const same = source.inputs.indexOf(input, isSlice ? attrs.carries : constants);
    const given = same >= 0 && (!isSlice || same < constants) ? inputs[1 + added.length + same] : undefined;
    const image = stack >= attrs.carries ? outputs[stack] : given;
    if (image !== undefined) images.set(reader.body.inputs[1 + carries + reader.added.length + index] as Node, image);
  });
  // Nodes are interned: what the writer does not compute is a new node.
  const next = currentTrace()?.size as number;
  for (const node of topological(reader.body.outputs)) {
    const operands = node.inputs.map((input) => images.get(input));
    if (node.op === parameterOp || operands.includes(undefined)) continue;
    const image = apply(node.op, operands as Node[], node.attrs);
    if (image.id < next) images.set(node, image);
  }
  return images;
}

/**
 * The values to read from stacks, so that the rest of the body needs nothing that the writer computes but what is cheap or depends on no
 * slice. The planner does not split what depends on no slice, such as random bits: each device would stack all of it.
 */
function savedBy({ body, added, attrs }: Loop, images: ReadonlyMap<Node, Node>): readonly Node[] {
  const nodes = topological(body.outputs);
  const users = usersOf(nodes);
  const isOutput = (node: Node): boolean => body.outputs.includes(node);
  const first = 1 + attrs.carries;
  const varying = new Set(body.inputs.slice(first, first + added.length + attrs.slices));
  for (const node of nodes) if (node.inputs.some((input) => varying.has(input))) varying.add(node);
  const needed = new Set(
    nodes.filter((node) => images.has(node) && (isOutput(node) || users.get(node)?.some((user) => !images.has(user)))),
  );
  // What is computed from a value alone, cheaply, and is no larger, serves better than the value.
  const behind = (node: Node): Node => {
    const [user, another] = isOutput(node) ? [] : (users.get(node) as Node[]);
    const serves = user !== undefined && another === undefined && images.has(user) && isCheap(user);
    return serves && bytesOf(user) <= bytesOf(node) ? behind(user) : node;
  };
  const saved = new Set<Node>();
  // What is needed grows by the operands of what is cheap.
  for (const node of needed) {
    if (node.op === parameterOp || !varying.has(node)) continue;
    if (isCheap(node) || node.types.length > 1) for (const input of node.inputs) needed.add(input);
    else saved.add(behind(node));
  }
  return [...saved];
}

/** Whether a value costs about as much to compute as to read. */
const isCheap = (node: Node): boolean =>
  node.op.contracts === undefined &&
  flopsOf(node.op === elementOp ? (node.inputs[0] as Node) : node) <= cheapFlops * sizeOf(node.shape);
