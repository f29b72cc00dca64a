/** @module Layouts: where the elements of a value live, one placement per mesh axis. */
import type { Reduction } from "../ir/equation.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { formatMesh, type Mesh, type MeshAxis } from "./mesh.ts";
import { canonical, dealt, intervals, type Sizes, sizesOn } from "./partition.ts";

/**
 * On one mesh axis: split along a dim (equally, or by sizes), held whole by all, held as contributions that combine to the
 * value, or held by the devices at one coordinate only (a parameter of a pipeline's stage).
 */
export type Placement =
  | { readonly kind: "shard"; readonly dim: number; readonly sizes?: Sizes }
  | { readonly kind: "replicate" }
  | { readonly kind: "partial"; readonly reduction: Reduction }
  | { readonly kind: "only"; readonly coordinate: number };

/** One placement per axis of the mesh, in the mesh's order. A dim split on several axes is cut by the first one first. */
export type Layout = readonly Placement[];

/** Held whole by every device of the axis; `R`. */
export const replicate: Placement = { kind: "replicate" };
/** Split along a dim; `sizes` are each device's number of elements. Equal sizes are the same as no sizes. */
export function shard(dim: number, sizes?: Sizes): Placement {
  const uneven = sizes === undefined ? undefined : canonical(sizes);
  return uneven === undefined ? { kind: "shard", dim } : { kind: "shard", dim, sizes: uneven };
}
/** Held as contributions of the axis's devices, which combine to the value by `reduction`; `P(sum)`. */
export const partial = (reduction: Reduction = "sum"): Placement => ({ kind: "partial", reduction });
/** Held by the devices at one coordinate of the axis; `O(1)`. */
export const only = (coordinate: number): Placement => ({ kind: "only", coordinate });

/** The layout of a value that every device of the mesh holds whole. */
export const replicated = (mesh: Mesh): Layout => mesh.axes.map(() => replicate);

/** A layout that splits dims over named axes and replicates on the others: `shardedOn(mesh, { data: 0 })`. */
export function shardedOn(mesh: Mesh, dims: { readonly [axis: string]: number | undefined }): Layout {
  const unknown = Object.keys(dims).find((name) => !mesh.axes.some((axis) => axis.name === name));
  if (unknown !== undefined) throw new HeddleError("layout", `mesh ${formatMesh(mesh)} has no axis '${unknown}'`);
  return mesh.axes.map(({ name }) => {
    const dim = dims[name];
    return dim === undefined ? replicate : shard(dim);
  });
}

/** The layout with sizes where a dim is not divided equally: those of the layout, else those that the mesh's shares give. */
export function resolved(type: TensorType, layout: Layout, mesh: Mesh): Layout {
  if (!Array.isArray(layout))
    throw new HeddleError("layout", `${shown(layout)} is not a layout`, {
      hint: "give a placement for each axis of the mesh",
    });
  const lengths: (number | undefined)[] = [...type.shape];
  return layout.map((placement, index) => {
    if (placement.kind !== "shard") return placement;
    const { dim } = placement;
    const axis = mesh.axes[index] as MeshAxis;
    const length = lengths[dim];
    if (length === undefined) return placement;
    const sizes = placement.sizes ?? dealt(length, axis);
    lengths[dim] = sizes === undefined ? length / axis.size : undefined;
    // Sizes of another number of devices stay, for the error to show.
    return sizes?.length === axis.size ? shard(dim, sizes) : { kind: "shard", dim, ...(sizes && { sizes }) };
  });
}

/** `S(0)`, `S(0:4+3+3)`, `R`, `P(sum)`, `O(1)`. */
export function formatPlacement(placement: Placement): string {
  switch (placement.kind) {
    case "shard":
      return `S(${placement.dim}${placement.sizes === undefined ? "" : `:${placement.sizes.join("+")}`})`;
    case "replicate":
      return "R";
    case "partial":
      return `P(${placement.reduction})`;
    case "only":
      return `O(${placement.coordinate})`;
  }
}

/** `S(0) R`; one word per mesh axis. */
export const formatLayout = (layout: Layout): string => layout.map(formatPlacement).join(" ");

/**
 * Reads what {@link formatPlacement} writes.
 *
 * @throws HeddleError `layout` when the text is malformed.
 */
export function parsePlacement(text: string): Placement {
  if (text === "R") return replicate;
  const match = /^(?:S\((\d+)(?::(\d+(?:\+\d+)*))?\)|P\((sum|max|min)\)|O\((\d+)\))$/.exec(text);
  if (match === null)
    throw new HeddleError(
      "layout",
      `'${text}' is not a placement; write S(dim), S(dim:4+3+3), R, P(sum|max|min) or O(coordinate)`,
    );
  const sizes = match[2]?.split("+").map(Number);
  // Equal sizes stay: the mesh, whose shares may differ, is not known here.
  if (match[1] !== undefined) return { kind: "shard", dim: Number(match[1]), ...(sizes && { sizes }) };
  return match[3] === undefined ? only(Number(match[4])) : partial(match[3] as Reduction);
}

/**
 * Reads what {@link formatLayout} writes; an empty text is the layout on a mesh without axes.
 *
 * @throws HeddleError `layout` when a placement is malformed.
 */
export const parseLayout = (text: string): Layout =>
  text.trim() === "" ? [] : text.trim().split(/\s+/).map(parsePlacement);

export function samePlacement(left: Placement, right: Placement): boolean {
  return left === right || formatPlacement(left) === formatPlacement(right);
}

/** Whether both have the same placements on every axis. */
export const sameLayout = (left: Layout, right: Layout): boolean => formatLayout(left) === formatLayout(right);

/** The layout with another placement on the axis of this index. */
export const withPlacement = (layout: Layout, axis: number, placement: Placement): Layout =>
  layout.map((old, index) => (index === axis ? placement : old));

/**
 * Type of one device's part of a value; without coordinates, of the largest part.
 *
 * @throws HeddleError `layout` when a dim does not divide as the layout says.
 */
export function localType(type: TensorType, layout: Layout, mesh: Mesh, coordinates?: readonly number[]): TensorType {
  const shape = [...type.shape];
  const uneven = new Set<number>();
  layout.forEach((placement, index) => {
    if (placement.kind !== "shard") return;
    const { dim, sizes } = placement;
    const { name, size } = mesh.axes[index] as MeshAxis;
    const length = shape[dim];
    const total = sizes?.reduce((sum, deviceSize) => sum + deviceSize, 0);
    const fits =
      length !== undefined &&
      !uneven.has(dim) &&
      (sizes === undefined ? length % size === 0 : sizes.length === size && total === length);
    if (!fits) {
      const mismatch =
        length === undefined
          ? `there is no dim ${dim}`
          : uneven.has(dim)
            ? `dim ${dim} is split unevenly on another axis`
            : `dim ${dim} has ${length} elements`;
      throw new HeddleError(
        "layout",
        `${formatType(type)} cannot be ${formatLayout(layout)} on mesh ${formatMesh(mesh)}: ${mismatch}, axis '${name}' has ${size} devices`,
        {
          hint: "choose a size that the number of devices divides, say the sizes, or leave the value replicated on that axis",
        },
      );
    }
    if (sizes === undefined) shape[dim] = length / size;
    else {
      uneven.add(dim);
      shape[dim] = sizes[coordinates?.[index] ?? sizes.indexOf(Math.max(...sizes))] as number;
    }
  });
  return { dtype: type.dtype, shape };
}

/** Where the part of the device at these coordinates begins, along each dim. */
export function partStart(type: TensorType, layout: Layout, mesh: Mesh, coordinates: readonly number[]): number[] {
  const start = type.shape.map(() => 0);
  const length = [...type.shape];
  layout.forEach((placement, index) => {
    if (placement.kind !== "shard") return;
    const { dim } = placement;
    const sizes = sizesOn(placement.sizes, length[dim] as number, (mesh.axes[index] as MeshAxis).size);
    const coordinate = coordinates[index] as number;
    (start[dim] as number) += (intervals(sizes)[coordinate] as readonly [number, number])[0];
    length[dim] = sizes[coordinate] as number;
  });
  return start;
}
