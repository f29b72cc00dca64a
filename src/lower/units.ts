/** @module The units of work of a region, with the memory that each reads and writes, in an order that keeps memory small. */
import type { ScalarInstruction, View } from "../ir/kernel.ts";
import type { Node } from "../ir/node.ts";
import { type Cluster, hasRegisters } from "./cluster.ts";
import type { Storage } from "./storage.ts";
import type { RegionValues } from "./values.ts";

/** One piece of work of a region, or a copy into an output's buffer. */
export interface Unit {
  readonly cluster: Cluster | OutputCopy;
  readonly reads: ReadonlySet<Storage>;
  readonly writes: readonly Storage[];
}

/** An output that must be copied into its buffer, because it is a view or an input. */
export interface OutputCopy {
  readonly kind: "output";
  readonly from: View;
  readonly to: View;
  /** Generates the value where that costs nothing; then `from` is not read. */
  readonly generator: ScalarInstruction | undefined;
}

const copyReads = (copy: OutputCopy): Storage[] => (copy.generator === undefined ? [copy.from.origin as Storage] : []);

/** Memory that a cluster reads; a group reads the values of its nodes from registers. */
function readsOf(cluster: Cluster, values: RegionValues): Set<Storage> {
  const first = cluster.nodes[0] as Node;
  if (cluster.kind === "copy")
    return new Set([values.copies.get(first)?.from.origin as Storage, ...values.waitsOf(first)]);
  const reads = new Set<Storage>();
  const groupStorages = hasRegisters(cluster)
    ? new Set(cluster.nodes.map((node) => values.storage(node)))
    : new Set<Storage>();
  for (const node of cluster.nodes) {
    for (const input of node.inputs) {
      if (hasRegisters(cluster) && values.generator(input) !== undefined) continue;
      for (const storage of [values.storage(input), ...values.waitsOf(input)])
        if (!groupStorages.has(storage)) reads.add(storage);
    }
  }
  return reads;
}

/** The units that the demanded storages need, with the memory that each reads and writes. */
export function unitsFor(
  values: RegionValues,
  clusters: ReadonlyMap<Storage, Cluster>,
  demanded: readonly Storage[],
  copies: readonly OutputCopy[],
): Unit[] {
  const stored = new Set<Storage>();
  const reads = new Map<Cluster, Set<Storage>>();
  const pending = [...demanded, ...copies.flatMap(copyReads)];
  for (let storage = pending.pop(); storage !== undefined; storage = pending.pop()) {
    if (stored.has(storage)) continue;
    stored.add(storage);
    const cluster = clusters.get(storage);
    if (cluster === undefined || reads.has(cluster)) continue;
    const read = readsOf(cluster, values);
    reads.set(cluster, read);
    pending.push(...read);
  }
  const units = [...reads].map(([cluster, read]): Unit => {
    // A group may compute a value that another group writes.
    const isOwn = (storage: Storage): boolean => clusters.get(storage) === cluster;
    return { cluster, reads: read, writes: writesOf(cluster, values, stored).filter(isOwn) };
  });
  return [
    ...units,
    ...copies.map(
      (copy): Unit => ({ cluster: copy, reads: new Set(copyReads(copy)), writes: [copy.to.origin as Storage] }),
    ),
  ];
}

function writesOf(cluster: Cluster, values: RegionValues, stored: ReadonlySet<Storage>): Storage[] {
  const first = cluster.nodes[0] as Node;
  if (cluster.kind === "copy") return [values.copies.get(first)?.to.origin as Storage];
  if (cluster.kind === "kernel") return values.results(first).map((view) => view.origin as Storage);
  return cluster.nodes.map((node) => values.storage(node)).filter((storage) => stored.has(storage));
}
