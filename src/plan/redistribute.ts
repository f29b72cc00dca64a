/** @module Changes of layout: a shortest path over the legal steps, each at most one collective on one axis. */
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import {
  formatLayout,
  type Layout,
  localType,
  type Placement,
  replicate,
  sameLayout,
  samePlacement,
  shard,
  withPlacement,
} from "./layout.ts";
import { collectiveSeconds, type Machine } from "./machine.ts";
import type { Mesh, MeshAxis } from "./mesh.ts";

/** One step: on one axis, from one placement to another. */
export interface Transition {
  readonly axis: number;
  readonly from: Placement;
  readonly to: Placement;
}

/** Steps from one layout to another and their cost in seconds. */
export interface Path {
  readonly steps: readonly Transition[];
  readonly seconds: number;
}

/**
 * [Note: dims split on several axes] Axis 0 cuts first, so the blocks of a later axis lie inside those of an earlier
 * one. Joining or cutting dim d on an axis is therefore legal only while no later axis splits d.
 */
const laterAxisSplits = (layout: Layout, axis: number, dim: number): boolean =>
  layout.some((placement, index) => index > axis && placement.kind === "shard" && placement.dim === dim);

/** Steps that may lie on a path: to what is wanted on the axis, or to whole on the way there. */
function stepsFrom(
  type: TensorType,
  layout: Layout,
  target: Layout,
  mesh: Mesh,
  machine: Machine,
): { transition: Transition; seconds: number }[] {
  const local = localType(type, layout, mesh);
  const bytes = bytesOf(local);
  const result: { transition: Transition; seconds: number }[] = [];
  layout.forEach((from, axis) => {
    const { size } = mesh.axes[axis] as MeshAxis;
    const wanted = target[axis] as Placement;
    // A detour through parts (reduce-scatter, then all-gather) would be an algorithm for an all-reduce, not a layout.
    const add = (to: Placement, seconds: number): void => {
      if (to.kind === "replicate" || samePlacement(to, wanted))
        result.push({ transition: { axis, from, to }, seconds });
    };
    const cuts = local.shape.flatMap((length, dim) =>
      length % size === 0 && !laterAxisSplits(layout, axis, dim) ? [dim] : [],
    );
    if (from.kind === "shard") {
      if (laterAxisSplits(layout, axis, from.dim)) return;
      add(replicate, collectiveSeconds(machine, "allGather", bytes, size));
      for (const dim of cuts)
        if (dim !== from.dim) add(shard(dim), collectiveSeconds(machine, "allToAll", bytes, size));
    } else if (from.kind === "partial") {
      add(replicate, collectiveSeconds(machine, "allReduce", bytes, size));
      for (const dim of cuts) add(shard(dim), collectiveSeconds(machine, "reduceScatter", bytes, size));
    } else {
      // Taking one's own part moves it once in memory.
      for (const dim of cuts) add(shard(dim), bytes / size / machine.memory);
    }
  });
  return result;
}

/**
 * The cheapest path from one layout to another (Dijkstra), or undefined when there is none.
 * A value cannot become `Partial` on the way.
 */
export function cheapestPath(
  type: TensorType,
  from: Layout,
  to: Layout,
  mesh: Mesh,
  machine: Machine,
): Path | undefined {
  if (sameLayout(from, to)) return { steps: [], seconds: 0 };
  const open = new Map<string, { layout: Layout; path: Path }>([
    [formatLayout(from), { layout: from, path: { steps: [], seconds: 0 } }],
  ]);
  const closed = new Set<string>();
  while (open.size > 0) {
    const [key, best] = [...open].reduce((least, entry) =>
      entry[1].path.seconds < least[1].path.seconds ? entry : least,
    );
    if (sameLayout(best.layout, to)) return best.path;
    open.delete(key);
    closed.add(key);
    for (const { transition, seconds } of stepsFrom(type, best.layout, to, mesh, machine)) {
      const layout = withPlacement(best.layout, transition.axis, transition.to);
      const next = formatLayout(layout);
      const total = best.path.seconds + seconds;
      if (closed.has(next) || total >= (open.get(next)?.path.seconds ?? Infinity)) continue;
      open.set(next, { layout, path: { steps: [...best.path.steps, transition], seconds: total } });
    }
  }
  return undefined;
}

/** Like {@link cheapestPath}, but an error when there is no path. */
export function pathOrThrow(
  what: string,
  type: TensorType,
  from: Layout,
  to: Layout,
  mesh: Mesh,
  machine: Machine,
): Path {
  const path = cheapestPath(type, from, to, mesh, machine);
  if (path !== undefined) return path;
  throw new HeddleError("layout", `${what}: no collectives lead from ${formatLayout(from)} to ${formatLayout(to)}`);
}

/** Seconds to change the placement on one axis alone, for one device's part of `type`; infinite when impossible. */
export function axisSeconds(type: TensorType, from: Placement, to: Placement, size: number, machine: Machine): number {
  if (samePlacement(from, to)) return 0;
  const bytes = bytesOf(type);
  if (to.kind === "partial" || (to.kind === "shard" && (type.shape[to.dim] ?? 1) % size !== 0)) return Infinity;
  if (from.kind === "replicate") return bytes / size / machine.memory;
  if (from.kind === "partial")
    return collectiveSeconds(machine, to.kind === "shard" ? "reduceScatter" : "allReduce", bytes, size);
  return collectiveSeconds(machine, to.kind === "shard" ? "allToAll" : "allGather", bytes, size);
}
