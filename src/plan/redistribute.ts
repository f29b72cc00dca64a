/** @module Changes of layout: a shortest path over the legal steps, each at most one collective on one axis. */
import type { Attrs } from "../ir/node.ts";
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

/** The collective that takes a value from one placement on an axis to another; undefined where each device cuts its own. */
export function collectiveFor(
  { name, size }: MeshAxis,
  from: Placement,
  to: Placement,
): { readonly op: string; readonly attrs: Attrs } | undefined {
  const common = { axis: name, parts: size, label: "" };
  if (from.kind === "replicate" && to.kind === "shard") return undefined;
  if (from.kind === "shard" && to.kind === "replicate") return { op: "allGather", attrs: { ...common, dim: from.dim } };
  if (from.kind === "shard" && to.kind === "shard")
    return { op: "allToAll", attrs: { ...common, from: from.dim, to: to.dim } };
  if (from.kind === "partial" && to.kind === "shard")
    return { op: "reduceScatter", attrs: { ...common, reduction: from.reduction, dim: to.dim } };
  if (from.kind === "partial" && to.kind === "replicate")
    return { op: "allReduce", attrs: { ...common, reduction: from.reduction } };
  throw new HeddleError("layout", "no value becomes partial by communication");
}

/** Seconds of one step for one device's part of a value. */
function stepSeconds(local: TensorType, axis: MeshAxis, from: Placement, to: Placement, machine: Machine): number {
  const collective = collectiveFor(axis, from, to);
  // Taking one's own part moves it once in memory.
  return collective === undefined
    ? bytesOf(local) / axis.size / machine.memory
    : collectiveSeconds(machine, collective.op, [local], collective.attrs);
}

/** Steps that may lie on a path: to what is wanted on the axis, or to whole on the way there. */
function stepsFrom(
  type: TensorType,
  layout: Layout,
  target: Layout,
  mesh: Mesh,
  machine: Machine,
): { transition: Transition; seconds: number }[] {
  const local = localType(type, layout, mesh);
  const result: { transition: Transition; seconds: number }[] = [];
  layout.forEach((from, axis) => {
    const meshAxis = mesh.axes[axis] as MeshAxis;
    const wanted = target[axis] as Placement;
    // A detour through parts (reduce-scatter, then all-gather) would be an algorithm for an all-reduce, not a layout.
    const add = (to: Placement): void => {
      if (to.kind === "replicate" || samePlacement(to, wanted))
        result.push({ transition: { axis, from, to }, seconds: stepSeconds(local, meshAxis, from, to, machine) });
    };
    const cuts = local.shape.flatMap((length, dim) =>
      length % meshAxis.size === 0 && !laterAxisSplits(layout, axis, dim) ? [dim] : [],
    );
    if (from.kind === "shard") {
      if (laterAxisSplits(layout, axis, from.dim)) return;
    }
    if (from.kind !== "replicate") add(replicate);
    for (const dim of cuts) if (from.kind !== "shard" || dim !== from.dim) add(shard(dim));
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
export function axisSeconds(
  type: TensorType,
  from: Placement,
  to: Placement,
  axis: MeshAxis,
  machine: Machine,
): number {
  if (samePlacement(from, to)) return 0;
  if (to.kind === "partial" || (to.kind === "shard" && (type.shape[to.dim] ?? 1) % axis.size !== 0)) return Infinity;
  return stepSeconds(type, axis, from, to, machine);
}
