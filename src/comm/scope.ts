/** @module The mesh and the device for which a function of `perDevice` is being traced. */
import type { Machine } from "../cost/index.ts";
import type { Mesh, MeshAxis } from "../plan/index.ts";
import { formatMesh } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** Chooses a mesh axis. */
export interface AxisOptions {
  /** The mesh axis whose devices take part. Default: the only axis of the mesh. */
  readonly axis?: string;
}

/** One device of a mesh, while its function is traced. */
export class Scope {
  readonly mesh: Mesh;
  /** The machine that the schedules are chosen for; undefined: the default machine. */
  readonly machine: Machine | undefined;
  private readonly coordinates: readonly number[];
  private labels = 0;
  /** The calls along each axis, which all devices make alike. */
  readonly calls = new Map<string, string[]>();
  /** Whether the trace depends on the device, so that each device needs its own. */
  isOwn = false;

  constructor(mesh: Mesh, coordinates: readonly number[], machine: Machine | undefined) {
    this.mesh = mesh;
    this.machine = machine;
    this.coordinates = coordinates;
  }

  /** The device's coordinate on an axis. */
  coordinate({ name }: MeshAxis): number {
    this.isOwn = true;
    return this.coordinates[this.mesh.axes.findIndex((axis) => axis.name === name)] as number;
  }

  /** A name for messages and errors, the same on all devices. */
  label(what: string): string {
    return `${what} ${++this.labels}`;
  }
}

let current: Scope | undefined;

/** The device whose function is being traced; undefined outside of `perDevice`. */
export const scopeNow = (): Scope | undefined => current;

/** Runs `body` for a device. */
export function inScope<Result>(scope: Scope, body: () => Result): Result {
  const before = current;
  current = scope;
  try {
    return body();
  } finally {
    current = before;
  }
}

/** The axis of a mesh by its name, or the only one. @throws HeddleError `mesh` */
export function axisOf(what: string, mesh: Mesh, name: unknown): MeshAxis {
  const found = name === undefined ? mesh.axes : mesh.axes.filter((axis) => axis.name === name);
  if (found.length === 1) return found[0] as MeshAxis;
  if (name === undefined)
    throw new HeddleError("mesh", `${what}: mesh ${formatMesh(mesh)} has ${mesh.axes.length} axes`, {
      hint: "say which devices take part: { axis: … }",
    });
  throw new HeddleError("mesh", `${what}: mesh ${formatMesh(mesh)} has no axis ${shown(name)}`);
}
