/** @module Meshes: named axes over devices. */
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";

export interface MeshAxis {
  readonly name: string;
  /** Number of devices along the axis. */
  readonly size: number;
  /** How the devices share what is split, such as `[2, 1]`; undefined: equally. */
  readonly shares?: readonly number[];
  /** The axis is time on one device: contributions can be summed over it, parts cannot be gathered. */
  readonly isTime?: boolean;
}

/** Devices in a grid. Device `i` has the row-major coordinates of `i` in the axes' sizes. */
export interface Mesh {
  readonly axes: readonly MeshAxis[];
}

/** The axis over which a training splits its batches, and layouts parameters. */
export const dataAxis = "data";
/** The axes over which a training splits its batches: `hosts` has copies of what layouts split over `data`. */
export const batchAxes: readonly string[] = ["hosts", dataAxis];

/** Devices that share a batch: the product of the sizes of the {@link batchAxes}. */
export const batchParts = ({ axes }: Mesh): number =>
  deviceCount({ axes: axes.filter(({ name }) => batchAxes.includes(name)) });

/** @throws HeddleError `mesh` unless the value is a mesh, as {@link mesh} makes it. */
export function checkMesh(value: unknown): asserts value is Mesh {
  if (Array.isArray((value as Partial<Mesh> | undefined | null)?.axes)) return;
  throw new HeddleError("mesh", `${shown(value)} is not a mesh`, { hint: "make it by mesh({ data: 2 })" });
}

export interface MeshOptions {
  /** For an axis whose devices are not equally fast: how they share what is split, such as `{ data: [2, 1] }`. */
  readonly shares?: { readonly [axis: string]: readonly number[] };
}

/** What reads a plan has lists of all devices. */
const mostDevices = 2 ** 20;

/**
 * Makes a mesh: `mesh({ data: 2, model: 4 })`.
 *
 * @throws HeddleError `mesh` when a size or a share is not a positive integer or a name is not a word.
 */
export function mesh(sizes: { readonly [axis: string]: number }, options: MeshOptions = {}): Mesh {
  asRecord("mesh", sizes);
  checkOptions("mesh", options, ["shares"]);
  const axes = Object.entries(sizes).map(([name, size]): MeshAxis => {
    const shares = options.shares?.[name];
    // Equal shares are the default.
    return shares === undefined || shares.every((share) => share === shares[0])
      ? { name, size }
      : { name, size, shares };
  });
  for (const [name, shares] of Object.entries(options.shares ?? {})) {
    if (shares.length !== sizes[name] || !shares.every((share) => Number.isInteger(share) && share > 0))
      throw new HeddleError(
        "mesh",
        `the shares ${shares.join(":")} are not one whole number for each device of '${name}'`,
      );
  }
  for (const { name, size } of axes) {
    if (!/^[a-zA-Z][a-zA-Z0-9_]*$/.test(name)) throw new HeddleError("mesh", `'${name}' is not a name for a mesh axis`);
    if (!Number.isInteger(size) || size < 1)
      throw new HeddleError("mesh", `mesh axis '${name}' cannot have ${size} devices`);
  }
  if (deviceCount({ axes }) > mostDevices)
    throw new HeddleError("mesh", `a mesh has at most ${mostDevices} devices, not ${deviceCount({ axes })}`);
  return { axes };
}

/** Parses `"data=2,model=4"`; `"data=2:1"` is two devices of which the first takes two thirds. */
export function parseMesh(text: string): Mesh {
  const shares: { [axis: string]: number[] } = {};
  const entries = text.split(",").map((part): [string, number] => {
    const match = /^\s*([a-zA-Z][a-zA-Z0-9_]*)\s*=\s*(\d+(?::\d+)*)\s*$/.exec(part);
    if (match === null)
      throw new HeddleError("mesh", `'${part}' is not an axis of a mesh`, { hint: "write axes as in data=2,model=4" });
    const numbers = (match[2] as string).split(":").map(Number);
    if (numbers.length === 1) return [match[1] as string, numbers[0] as number];
    shares[match[1] as string] = numbers;
    return [match[1] as string, numbers.length];
  });
  const repeated = entries.find(([name], index) => entries.findIndex(([other]) => other === name) !== index);
  if (repeated !== undefined) throw new HeddleError("mesh", `mesh axis '${repeated[0]}' is given twice`);
  return mesh(Object.fromEntries(entries), { shares });
}

/** `data=2,model=4`; with shares `data=2:1`. */
export const formatMesh = (value: Mesh): string =>
  value.axes.map((axis) => `${axis.name}=${axis.shares?.join(":") ?? axis.size}`).join(",");

/** How many devices a mesh has: the product of its axes' sizes; 1 without axes. */
export const deviceCount = (value: Mesh): number => value.axes.reduce((count, axis) => count * axis.size, 1);

/** Coordinates of a device on each axis. */
export function coordinatesOf(value: Mesh, device: number): number[] {
  const coordinates = new Array<number>(value.axes.length);
  let remaining = device;
  for (let axis = value.axes.length - 1; axis >= 0; axis--) {
    const { size } = value.axes[axis] as MeshAxis;
    coordinates[axis] = remaining % size;
    remaining = Math.floor(remaining / size);
  }
  return coordinates;
}

/** The device at these coordinates: the inverse of {@link coordinatesOf}. */
export const deviceAt = (value: Mesh, coordinates: readonly number[]): number =>
  value.axes.reduce((device, { size }, axis) => device * size + (coordinates[axis] as number), 0);
