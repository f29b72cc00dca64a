/** @module Changes of layout: a shortest path over the legal steps, each at most one collective on one axis. */
import { collectiveSeconds, type Machine, workSeconds } from "../cost/index.ts";
import type { Attrs } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { exchangeAttrs } from "./exchange.ts";
import {
  formatLayout,
  type Layout,
  localType,
  type Placement,
  replicate,
  sameLayout,
  samePlacement,
  withPlacement,
} from "./layout.ts";
import type { Mesh, MeshAxis } from "./mesh.ts";
import { type Interval, intervals, type Sizes, sizesOn } from "./partition.ts";

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
export const laterAxisSplits = (layout: Layout, axis: number, dim: number): boolean =>
  layout.some((placement, index) => index > axis && placement.kind === "shard" && placement.dim === dim);

/** One step for one device's part of a value. */
interface LocalStep {
  readonly local: TensorType;
  readonly axis: MeshAxis;
  readonly from: Placement;
  readonly to: Placement;
  /** The device's coordinate on the axis. */
  readonly coordinate: number;
}

/**
 * The collective that takes a value from one placement on an axis to another; undefined where each device takes its part
 * of the whole.
 */
export function collectiveFor(step: LocalStep, label = ""): { readonly op: string; readonly attrs: Attrs } | undefined {
  const { axis, from, to } = step;
  const common = { axis: axis.name, parts: axis.size, label };
  if (to.kind === "partial") throw new HeddleError("layout", "no value becomes partial by communication");
  if (from.kind === "replicate") return undefined;
  if (from.kind === "only" || to.kind === "only")
    throw new HeddleError("layout", "a value on one stage of a pipeline only is not moved by a collective");
  const sized = (placement: Placement): boolean => placement.kind === "shard" && placement.sizes !== undefined;
  if (sized(from) || sized(to)) return { op: "exchange", attrs: unevenStep(step, common) };
  if (from.kind === "shard" && to.kind === "replicate") return { op: "allGather", attrs: { ...common, dim: from.dim } };
  if (from.kind === "shard" && to.kind === "shard")
    return { op: "allToAll", attrs: { ...common, from: from.dim, to: to.dim } };
  const { reduction } = from as Placement & { kind: "partial" };
  if (to.kind === "shard") return { op: "reduceScatter", attrs: { ...common, reduction, dim: to.dim } };
  return { op: "allReduce", attrs: { ...common, reduction } };
}

function unevenStep(
  { local: { shape }, axis: { size }, from, to, coordinate }: LocalStep,
  common: { readonly axis: string; readonly parts: number; readonly label: string },
): Attrs {
  const whole = (length: number): Interval[] => Array.from({ length: size }, (): Interval => [0, length]);
  const intervalsFor = ({ sizes }: { readonly sizes?: Sizes }, length: number) =>
    intervals(sizesOn(sizes, length, size));
  if (from.kind === "partial") {
    const wanted = to as Placement & { kind: "shard" };
    const length = shape[wanted.dim] as number;
    const parts = { from: whole(length), to: intervalsFor(wanted, length), coordinate };
    return exchangeAttrs(common, shape, wanted.dim, { ...parts, relative: false }, from.reduction);
  }
  const { dim, sizes } = from as Placement & { kind: "shard" };
  const length =
    sizes === undefined ? (shape[dim] as number) * size : sizes.reduce((sum, partSize) => sum + partSize, 0);
  const held = intervalsFor({ sizes }, length);
  const parts = { from: held, coordinate };
  if (to.kind !== "shard") return exchangeAttrs(common, shape, dim, { ...parts, to: whole(length), relative: false });
  if (to.dim === dim)
    return exchangeAttrs(common, shape, dim, { ...parts, to: intervalsFor(to, length), relative: true });
  // A piece spans what its sender holds along one dim and what its receiver wants along the other.
  const wanted = intervalsFor(to, shape[to.dim] as number);
  const [first, last] = wanted[coordinate] as Interval;
  return {
    ...common,
    take: to.dim,
    put: dim,
    shape: shape.map((old, index) => (index === dim ? length : index === to.dim ? last - first : old)),
    sends: wanted.map(([begin, end], peer) => [peer, begin, end - begin]),
    receives: held.map(([begin, end], peer) => [peer, begin, end - begin]),
    reduction: "sum",
    relative: false,
  };
}

/** Longer than any other path, in seconds. */
export const never = 1e12;

/** Seconds of one step for one device's part of a value: the slowest device's. */
function stepSeconds(step: Omit<LocalStep, "coordinate">, machine: Machine): number {
  const { local, axis } = step;
  const uneven = [step.from, step.to].some((placement) => placement.kind === "shard" && placement.sizes !== undefined);
  const coordinates = uneven ? [0, Math.floor(axis.size / 2), axis.size - 1] : [0];
  return Math.max(
    ...coordinates.map((coordinate) => {
      const collective = collectiveFor({ ...step, coordinate });
      // Such a path is taken only if there is no other; the pipeline's planner then reports what cannot be done.
      if (axis.isTime === true && collective !== undefined && collective.op !== "allReduce") return never;
      // Taking a part moves it once in memory.
      return collective === undefined
        ? workSeconds({ flops: 0, bytes: bytesOf(local) / axis.size }, machine)
        : collectiveSeconds(machine, collective.op, [local], collective.attrs);
    }),
  );
}

/** Whether the dims divide as the layout says. */
function fits(type: TensorType, layout: Layout, mesh: Mesh): boolean {
  try {
    localType(type, layout, mesh);
    return true;
  } catch (error) {
    if (error instanceof HeddleError && error.code === "layout") return false;
    throw error;
  }
}

/** Steps that may lie on a path: on each axis to the target's placement, or to `R` on the way there. */
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
        result.push({
          transition: { axis, from, to },
          seconds: stepSeconds({ local, axis: meshAxis, from, to }, machine),
        });
    };
    if (from.kind === "shard" && laterAxisSplits(layout, axis, from.dim)) return;
    if (from.kind !== "replicate") add(replicate);
    if (
      wanted.kind === "shard" &&
      !samePlacement(from, wanted) &&
      !laterAxisSplits(layout, axis, wanted.dim) &&
      fits(type, withPlacement(layout, axis, wanted), mesh)
    )
      add(wanted);
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
  const frontier = new Map<string, { layout: Layout; path: Path }>([
    [formatLayout(from), { layout: from, path: { steps: [], seconds: 0 } }],
  ]);
  const visited = new Set<string>();
  while (frontier.size > 0) {
    const [key, best] = [...frontier].reduce((least, entry) =>
      entry[1].path.seconds < least[1].path.seconds ? entry : least,
    );
    if (sameLayout(best.layout, to)) return best.path;
    frontier.delete(key);
    visited.add(key);
    for (const { transition, seconds } of stepsFrom(type, best.layout, to, mesh, machine)) {
      const layout = withPlacement(best.layout, transition.axis, transition.to);
      const next = formatLayout(layout);
      const total = best.path.seconds + seconds;
      if (visited.has(next) || total >= (frontier.get(next)?.path.seconds ?? Infinity)) continue;
      frontier.set(next, { layout, path: { steps: [...best.path.steps, transition], seconds: total } });
    }
  }
  return undefined;
}

/** Like {@link cheapestPath}, but throws when there is no path. */
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
  if (to.kind === "partial") return Infinity;
  const alone: Mesh = { axes: [axis] };
  if (to.kind === "shard" && !fits(type, [to], alone)) return Infinity;
  const local = fits(type, [from], alone) ? localType(type, [from], alone) : type;
  return stepSeconds({ local, axis, from, to }, machine);
}
