/**
 * @module Residuals of loops: a scan that computes again what another scan has computed (the gradient of a scan does) reads
 * the value from a stack of the other scan. Values that are cheap to compute from what the loop has at hand, and values that
 * are the same in every iteration, are computed again.
 */
import { controlOf } from "../ir/control.ts";
import { type InputSpec, inlineGraph, inputSpecs, interpretGraph, traceGraph } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import type { Attrs, Graph, Node } from "../ir/node.ts";
import { bytesOf, sizeOf } from "../ir/shape.ts";
import { apply, atPositionOf, currentTrace, isGraph } from "../ir/trace.ts";
import { flopsOf, nodesWithin, topological, usersOf } from "../ir/walk.ts";
import { resultsOf, type ScanAttrs, stackLimit } from "../ops/index.ts";
import { prune } from "./prune.ts";

/** A value of at most this many operations per element is computed again. */
const cheapFlops = 20;

/** A result of a node. */
interface Ref {
  readonly node: Node;
  readonly place: number;
}

/** A scan as it will be, with its inputs as results of nodes as they were. */
interface Draft {
  attrs: ScanAttrs;
  inputs: readonly Ref[];
}

type Drafts = Map<Node, Draft>;

const refOf = (node: Node): Ref =>
  node.op === elementOp ? { node: node.inputs[0] as Node, place: node.attrs["index"] as number } : { node, place: 0 };

const placeOf = (refs: readonly Ref[], { node, place }: Ref): number =>
  refs.findIndex((ref) => ref.node === node && ref.place === place);

const isSlice = ({ carries, slices }: ScanAttrs, place: number): boolean =>
  place >= carries && place < carries + slices;

/** The graph whose scans read the stacks of earlier scans instead of computing their values again, at any depth. */
export function residuals(graph: Graph): Graph {
  if (!nodesWithin(graph).some(({ op }) => op.name === "scan")) return graph;
  return prune(withResiduals(graph));
}

function withResiduals(graph: Graph): Graph {
  const drafts: Drafts = new Map();
  const inner = (node: Node): Attrs =>
    Object.fromEntries(
      Object.entries(node.attrs).map(([key, value]) => [key, isGraph(value) ? withResiduals(value) : value]),
    );
  for (const node of topological(graph.outputs)) {
    if (node.op.name !== "scan") continue;
    drafts.set(node, { attrs: inner(node) as ScanAttrs, inputs: node.inputs.map(refOf) });
    for (const source of drafts.keys()) if (source !== node) readStacks(node, source, drafts);
  }
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => {
    const copies = new Map<Node, readonly Node[]>(graph.inputs.map((input, place) => [input, [inputs[place] as Node]]));
    const copyOf = ({ node, place }: Ref): Node => {
      // A stack of a slice is the value that is sliced.
      const { attrs, inputs: operands } = drafts.get(node) ?? {};
      const slice = attrs?.body.inputs.indexOf(attrs.body.outputs[place] as Node) ?? 0;
      return attrs !== undefined && place >= attrs.carries && isSlice(attrs, slice - 1)
        ? copyOf(operands?.[slice - 1] as Ref)
        : (copies.get(node)?.[place] as Node);
    };
    for (const node of topological(graph.outputs)) {
      if (copies.has(node) || node.op === elementOp) continue;
      const draft = drafts.get(node);
      const operands = (draft?.inputs ?? node.inputs.map(refOf)).map(copyOf);
      const attrs = draft?.attrs ?? (controlOf(node) === undefined ? node.attrs : inner(node));
      copies.set(
        node,
        atPositionOf(node, () => resultsOf(apply(node.op, operands, attrs))),
      );
    }
    return graph.outputs.map((output) => copyOf(refOf(output)));
  });
}

/** Replaces values in the body of `loop` by stacks of `source`, where that saves work and the stacks are not too large. */
function readStacks(loop: Node, source: Node, drafts: Drafts): void {
  const [reader, writer] = [drafts.get(loop), drafts.get(source)] as [Draft, Draft];
  const { body, carries, slices, length } = reader.attrs;
  const reads = reader.inputs.slice(carries, carries + slices);
  if (writer.attrs.length !== length || !reads.some(({ node }) => node === source)) return;
  const specs = inputSpecs(writer.attrs.body);
  let stacked: readonly Node[] = [];
  let places: readonly number[] = [];
  const extended = traceGraph(writer.attrs.body.name, specs, (...inputs) => {
    const outputs = inlineGraph(writer.attrs.body, inputs);
    const images = imagesOf(reader, { draft: writer, source, inputs, outputs });
    stacked = expensive(body, images, body.inputs.slice(1 + carries, 1 + carries + slices));
    const all = [...outputs];
    places = stacked.map((node) => {
      const image = images.get(node) as Node;
      const known = all.indexOf(image, writer.attrs.carries);
      return known < 0 ? all.push(image) - 1 : known;
    });
    return all;
  });
  const fresh = extended.outputs.slice(writer.attrs.body.outputs.length);
  if (stacked.length === 0 || length * fresh.reduce((sum, node) => sum + bytesOf(node), 0) > stackLimit) return;
  writer.attrs = { ...writer.attrs, body: extended };
  const end = carries + slices;
  const added = stacked.map((node, order): InputSpec => ({ name: `residual${slices + order}`, type: node }));
  reader.inputs = [
    ...reader.inputs.slice(0, end),
    ...places.map((place) => ({ node: source, place })),
    ...reader.inputs.slice(end),
  ];
  reader.attrs = {
    ...reader.attrs,
    slices: slices + stacked.length,
    body: withSlices(body, 1 + end, added, stacked),
  };
}

/** The body with further slices, after the first `at` inputs, in place of these nodes. */
function withSlices(body: Graph, at: number, added: readonly InputSpec[], replaced: readonly Node[]): Graph {
  const specs = inputSpecs(body);
  return traceGraph(body.name, [...specs.slice(0, at), ...added, ...specs.slice(at)], (...nodes) => {
    const given = nodes.splice(at, added.length);
    return interpretGraph<Node>(body, nodes, (node, inputs) => {
      const place = replaced.indexOf(node);
      return place < 0 ? apply(node.op, inputs, node.attrs) : (given[place] as Node);
    });
  });
}

/** The scan that may stack more: its inputs and outputs in the trace of its body. */
interface Writer {
  readonly draft: Draft;
  readonly source: Node;
  readonly inputs: readonly Node[];
  readonly outputs: readonly Node[];
}

/** For each node of a body that the writer computes in the same iteration, the writer's node, in the trace in progress. */
function imagesOf({ attrs, inputs }: Draft, writer: Writer): Map<Node, Node> {
  const { carries, slices, body } = attrs;
  const { draft } = writer;
  const end = draft.attrs.carries + draft.attrs.slices;
  const [xs, constants] = [draft.inputs.slice(draft.attrs.carries, end), draft.inputs.slice(end)];
  const images = new Map<Node, Node>([[body.inputs[0] as Node, writer.inputs[0] as Node]]);
  const given = (place: number): Node | undefined => {
    const ref = inputs[place] as Ref;
    if (place >= carries + slices) return at(constants, 1 + end, ref);
    if (ref.node !== writer.source) return at(xs, 1 + draft.attrs.carries, ref);
    return ref.place < draft.attrs.carries ? undefined : writer.outputs[ref.place];
  };
  const at = (refs: readonly Ref[], from: number, ref: Ref): Node | undefined => {
    const place = placeOf(refs, ref);
    return place < 0 ? undefined : writer.inputs[from + place];
  };
  for (let place = carries; place < inputs.length; place++) {
    const image = given(place);
    if (image !== undefined) images.set(body.inputs[1 + place] as Node, image);
  }
  // Nodes are interned: what the writer does not compute is a new node.
  const next = currentTrace()?.size as number;
  for (const node of topological(body.outputs)) {
    const operands = node.inputs.map((input) => images.get(input));
    if (node.op === parameterOp || operands.includes(undefined)) continue;
    const image = apply(node.op, operands as Node[], node.attrs);
    if (image.id < next) images.set(node, image);
  }
  return images;
}

/**
 * The values to read from stacks, so that the rest of the body needs nothing of `known` but what is cheap to compute or depends on no
 * slice. The planner does not split what depends on no slice, such as random bits: each device would stack all of it.
 */
function expensive({ outputs }: Graph, known: ReadonlyMap<Node, Node>, slices: readonly Node[]): readonly Node[] {
  const nodes = topological(outputs);
  const users = usersOf(nodes);
  const varying = new Set(slices);
  for (const node of nodes) if (node.inputs.some((input) => varying.has(input))) varying.add(node);
  const found = new Set<Node>();
  const seen = new Set<Node>();
  const visit = (node: Node): void => {
    if (seen.has(node) || !varying.has(node) || node.op === parameterOp) return;
    seen.add(node);
    if (isCheap(node) || node.types.length > 1) {
      node.inputs.forEach(visit);
      return;
    }
    // What is computed from the value alone and is no larger serves better.
    let kept = node;
    for (;;) {
      const [user, another] = users.get(kept) as Node[];
      if (user === undefined || another !== undefined || outputs.includes(kept)) break;
      if (!known.has(user) || !isCheap(user) || bytesOf(user) > bytesOf(kept)) break;
      kept = user;
    }
    found.add(kept);
  };
  for (const node of nodes)
    if (known.has(node) && (outputs.includes(node) || users.get(node)?.some((user) => !known.has(user)))) visit(node);
  return [...found];
}

/** Whether a value costs about as much to compute as to read. */
const isCheap = (node: Node): boolean =>
  node.op.name !== "dot" &&
  flopsOf(node.op === elementOp ? (node.inputs[0] as Node) : node) <= cheapFlops * sizeOf(node.shape);
