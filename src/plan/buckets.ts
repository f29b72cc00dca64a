/**
 * @module Buckets: all-reduces of one axis travel together. Values are put into buckets in the order in which they are
 * ready; the first bucket is small so that communication starts early (sizes as in PyTorch DDP). Gathers that are sent together
 * share a bucket, and so do reduce-scatters, as far as they need no more memory than the largest alone.
 */

import { communicationOf, isCollective } from "../ir/communication.ts";
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { bytesOf } from "../ir/shape.ts";
import { apply, atPositionOf } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { gatherGroups, roomBeside } from "../prefetch/gathers.ts";

export interface BucketSizes {
  /** Bytes at which the first bucket of an axis is closed. */
  readonly first: number;
  /** Bytes at which every later bucket is closed. */
  readonly others: number;
}

/** 1 MiB for the first bucket of an axis, which is to start early, and 25 MiB for the others. */
export const defaultBuckets: BucketSizes = { first: 2 ** 20, others: 25 * 2 ** 20 };

/** Nodes with equal keys may share a bucket; undefined: the node does not communicate, or shares no bucket. */
function bucketKey(node: Node): string | undefined {
  const bucket = communicationOf(node)?.bucket;
  return bucket === undefined || isAbsent(bucket) ? undefined : `${node.op.name} ${bucket(node.attrs)}`;
}

/** Whether the plan has numbered the collective, as it does where devices differ. */
const isNumbered = (node: Node): boolean => /^\d+$/.test(String(node.attrs["label"]));

/** Joins collectives into buckets and gives every collective a label. */
export function formBuckets(graph: Graph, sizes: BucketSizes = defaultBuckets): Graph {
  const order = topological(graph.outputs);
  if (!order.some(isCollective)) return graph;
  const bucketOf = new Map<Node, Node[]>();
  for (const group of candidates(order).values()) {
    // Readiness: the order in which the inputs were computed. Where devices differ, their nodes are numbered
    // differently, but their collectives are not.
    const readiness = (node: Node): number =>
      isNumbered(node) ? Number(node.attrs["label"]) : (node.inputs[0] as Node).id;
    const nodes = group.sort((left, right) => readiness(left) - readiness(right));
    const sent = (node: Node): number => bytesOf(node.inputs[0] as Node);
    const scatters = sent(nodes[0] as Node) > bytesOf(nodes[0] as Node);
    const most = scatters ? Math.min(sizes.others, roomBeside * Math.max(...nodes.map(sent))) : sizes.others;
    let [open, bytes, limit]: [Node[], number, number] = [[], 0, scatters ? most : sizes.first];
    for (const node of nodes) {
      if (bytes + (scatters ? sent(node) : 1) > limit) [open, bytes, limit] = [[], 0, most];
      open.push(node);
      bucketOf.set(node, open);
      bytes += sent(node);
    }
  }
  return rebuild(graph, order, bucketOf);
}

/** Collectives that may share a bucket: same key and dtype, gathers sent together, and none needs the result of another. */
function candidates(order: readonly Node[]): Map<string, Node[]> {
  const together = new Map(gatherGroups(order).flatMap(({ nodes }, index) => nodes.map((node) => [node, index])));
  const depths = new Map<Node, number>();
  const groups = new Map<string, Node[]>();
  for (const node of order) {
    const depth = node.inputs.reduce(
      (most, input) => Math.max(most, (depths.get(input) as number) + (bucketKey(input) === undefined ? 0 : 1)),
      0,
    );
    depths.set(node, depth);
    const nodeKey = bucketKey(node);
    // Where devices differ, so may the groups of their gathers.
    if (nodeKey === undefined || (isNumbered(node) && together.has(node))) continue;
    const key = `${nodeKey} ${node.dtype} ${depth} ${together.get(node)}`;
    groups.set(key, [...(groups.get(key) ?? []), node]);
  }
  return groups;
}

function rebuild(graph: Graph, order: readonly Node[], bucketOf: ReadonlyMap<Node, readonly Node[]>): Graph {
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => {
    const copies = new Map<Node, Node>(graph.inputs.map((input, index) => [input, inputs[index] as Node]));
    const counts = new Map<string, number>();
    const label = (node: Node): string => {
      const given = String(node.attrs["label"]);
      // A user's call is named already.
      if (given.startsWith("comm.")) return given;
      const count = isNumbered(node) ? Number(given) : (counts.get(node.op.name) ?? 0);
      counts.set(node.op.name, count + 1);
      return `${node.op.name} ${count}`;
    };
    // By recursion from the outputs, since the members of a bucket are apart in the order.
    const copy = (node: Node): Node => {
      const known = copies.get(node);
      if (known !== undefined) return known;
      const bucket = bucketOf.get(node);
      const copied = atPositionOf(node, () => (bucket === undefined ? plain(node) : fromBucket(node, bucket)));
      copies.set(node, copied);
      return copied;
    };
    const plain = (node: Node): Node => {
      const attrs = isCollective(node) ? { ...node.attrs, label: label(node) } : node.attrs;
      return apply(node.op, node.inputs.map(copy), attrs);
    };
    const fromBucket = (node: Node, bucket: readonly Node[]): Node => {
      const joined = apply(
        node.op,
        bucket.map((member) => copy(member.inputs[0] as Node)),
        { ...node.attrs, label: label(node) },
      );
      bucket.forEach((member, index) => {
        copies.set(member, bucket.length === 1 ? joined : apply(elementOp, [joined], { index }));
      });
      return copies.get(node) as Node;
    };
    const isEarlierMember = (node: Node): boolean => (bucketOf.get(node)?.at(-1) ?? node) !== node;
    for (const node of order) if (!isEarlierMember(node)) copy(node);
    return graph.outputs.map(copy);
  });
}
