/** @module Layouts: where the elements of a value live, one placement per mesh axis. */
import type { Reduction } from "../ir/equation.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { formatMesh, type Mesh, type MeshAxis } from "./mesh.ts";

/**
 * On one mesh axis: split along a dim, held whole by all, held as contributions that combine to the value, or held by the
 * devices at one coordinate only (a parameter of a pipeline's stage).
 */
export type Placement =
  | { readonly kind: "shard"; readonly dim: number }
  | { readonly kind: "replicate" }
  | { readonly kind: "partial"; readonly reduction: Reduction }
  | { readonly kind: "only"; readonly coordinate: number };

/** One placement per axis of the mesh, in the mesh's order. A dim split on several axes is cut by the first one first. */
export type Layout = readonly Placement[];

export const replicate: Placement = { kind: "replicate" };
export const shard = (dim: number): Placement => ({ kind: "shard", dim });
export const partial = (reduction: Reduction = "sum"): Placement => ({ kind: "partial", reduction });
export const only = (coordinate: number): Placement => ({ kind: "only", coordinate });

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

/** `S(0)`, `R`, `P(sum)`, `O(1)`. */
export function formatPlacement(placement: Placement): string {
  switch (placement.kind) {
    case "shard":
      return `S(${placement.dim})`;
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

export function parsePlacement(text: string): Placement {
  if (text === "R") return replicate;
  const match = /^(?:([SO])\((\d+)\)|P\((sum|max|min)\))$/.exec(text);
  if (match === null)
    throw new HeddleError("layout", `'${text}' is not a placement; write S(dim), R, P(sum|max|min) or O(coordinate)`);
  if (match[1] === undefined) return partial(match[3] as Reduction);
  return match[1] === "S" ? shard(Number(match[2])) : only(Number(match[2]));
}

export const parseLayout = (text: string): Layout =>
  text.trim() === "" ? [] : text.trim().split(/\s+/).map(parsePlacement);

export function samePlacement(left: Placement, right: Placement): boolean {
  return formatPlacement(left) === formatPlacement(right);
}

export const sameLayout = (left: Layout, right: Layout): boolean => formatLayout(left) === formatLayout(right);

export const withPlacement = (layout: Layout, axis: number, placement: Placement): Layout =>
  layout.map((old, index) => (index === axis ? placement : old));

/**
 * Type of one device's part of a value.
 *
 * @throws HeddleError `layout` when a dim does not divide evenly.
 */
export function localType(type: TensorType, layout: Layout, mesh: Mesh): TensorType {
  const shape = [...type.shape];
  layout.forEach((placement, index) => {
    if (placement.kind !== "shard") return;
    const { name, size } = mesh.axes[index] as MeshAxis;
    const length = shape[placement.dim];
    if (length === undefined || length % size !== 0) {
      const what =
        length === undefined ? `there is no dim ${placement.dim}` : `dim ${placement.dim} has ${length} elements`;
      throw new HeddleError(
        "layout",
        `${formatType(type)} cannot be ${formatLayout(layout)} on mesh ${formatMesh(mesh)}: ${what}, axis '${name}' has ${size} devices`,
        {
          hint: "choose a size that the number of devices divides, or leave the value replicated on that axis",
        },
      );
    }
    shape[placement.dim] = length / size;
  });
  return { dtype: type.dtype, shape };
}
