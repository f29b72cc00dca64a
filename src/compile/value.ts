/** @module The concrete contents of a tensor: one buffer per local device, and the layout that tells which parts they hold. */

import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { bytesOf, formatType, type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { eachOffset } from "../ops/host-arrays.ts";
import { formatLayout, type Layout, localType, partStart, replicated, resolved } from "../plan/layout.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import { HeddleError } from "../util/errors.ts";

export interface Value {
  readonly type: TensorType;
  readonly runtime: Runtime;
  readonly layout: Layout;
  /** One buffer per local device; empty on devices that hold no part. */
  readonly shards: readonly DeviceBuffer[];
  /** The buffers that are given back with the value, if they are not `shards`. */
  readonly held?: readonly DeviceBuffer[];
}

const fromBytes = (bytes: Uint8Array, type: TensorType): TypedArray =>
  dtypes[type.dtype].view(bytes.buffer, bytes.byteOffset, sizeOf(type.shape));

/** The buffer of a device that holds no part of a value. */
export const nothing: DeviceBuffer = {
  bytes: 0,
  ready: true,
  write: () => undefined,
  read: () => Promise.resolve(new Uint8Array()),
  readSync: () => new Uint8Array(),
  dispose: () => undefined,
};

/** The same contents on every local device. */
export function replicatedValue(runtime: Runtime, type: TensorType, data: TypedArray): Value {
  const shards = runtime.local.map((_device, index) => {
    const buffer = runtime.executor.allocate(bytesOf(type), index);
    buffer.write(dtypes[type.dtype].bytesOf(data));
    return buffer;
  });
  return { type, runtime, layout: replicated(meshOf(runtime)), shards };
}

/** Splits host data of the whole value into the parts of the local devices. */
export function distributedValue(runtime: Runtime, type: TensorType, wanted: Layout, data: TypedArray): Value {
  const layout = resolved(type, wanted, meshOf(runtime));
  // What lies in the array as in memory is not copied in JavaScript first: a table may be large.
  const isWhole =
    layout.every(({ kind }) => kind !== "shard") && data.constructor === dtypes[type.dtype].create(0).constructor;
  const shards = runtime.local.map(({ coordinates }, index) => {
    if (!holdsPart(layout, coordinates)) return nothing;
    const local = localType(type, layout, meshOf(runtime), coordinates);
    const buffer = runtime.executor.allocate(bytesOf(local), index);
    const part = isWhole ? data : dtypes[type.dtype].create(sizeOf(local.shape));
    const place = (linear: number, offset: number): void => {
      part[linear] = data[offset] as number;
    };
    if (!isWhole) eachOfPart({ type, layout, runtime }, coordinates, local.shape, place);
    buffer.write(dtypes[type.dtype].bytesOf(part));
    return buffer;
  });
  return { type, runtime, layout, shards };
}

/** Calls `visit` with the offsets of each element of a device's part: in the part, and in the whole value. */
function eachOfPart(
  { type, layout, runtime }: Pick<Value, "type" | "layout" | "runtime">,
  coordinates: readonly number[],
  shape: Shape,
  visit: (linear: number, offset: number) => void,
): void {
  const strides = stridesOf(type.shape);
  const first = partStart(type, layout, meshOf(runtime), coordinates).reduce(
    (offset, start, dim) => offset + start * (strides[dim] as number),
    0,
  );
  eachOffset(shape, strides, first, visit);
}

/** The whole value, when this process holds all of it. */
export async function readValue(value: Value): Promise<TypedArray> {
  if (isReplicated(value)) return fromBytes(await (value.shards[0] as DeviceBuffer).read(), value.type);
  checkLocal(value);
  return assemble(value, await Promise.all(heldShards(value).map(({ shard }) => shard.read())));
}

/** Like {@link readValue}, blocking. */
export function readValueSync(value: Value): TypedArray {
  if (isReplicated(value)) return fromBytes((value.shards[0] as DeviceBuffer).readSync(), value.type);
  checkLocal(value);
  return assemble(
    value,
    heldShards(value).map(({ shard }) => shard.readSync()),
  );
}

const isReplicated = (value: Value): boolean => value.layout.every((placement) => placement.kind === "replicate");

const deviceCountOf = ({ axes }: Runtime): number => axes.reduce((product, axis) => product * axis.size, 1);

/** Whether this process holds all of a value. */
export const isHere = (value: Value): boolean =>
  isReplicated(value) || value.runtime.local.length === deviceCountOf(value.runtime);

/** Whether a device has a part of a value in this layout: not if it is at another coordinate than `O(k)`. */
export const holdsPart = (layout: Layout, coordinates: readonly number[]): boolean =>
  layout.every((placement, axis) => placement.kind !== "only" || placement.coordinate === coordinates[axis]);

/** The parts on local devices, each with the coordinates of its device. */
function heldShards({ runtime, layout, shards }: Value): { coordinates: readonly number[]; shard: DeviceBuffer }[] {
  return runtime.local.flatMap(({ coordinates }, device) =>
    holdsPart(layout, coordinates) ? [{ coordinates, shard: shards[device] as DeviceBuffer }] : [],
  );
}

function checkLocal(value: Value): void {
  const { runtime, type, layout } = value;
  const count = deviceCountOf(runtime);
  if (runtime.local.length === count) return;
  // Where nothing is split, a part is the whole.
  if (layout.every(({ kind }) => kind !== "shard") && heldShards(value).length > 0) return;
  throw new HeddleError(
    "layout",
    `${formatType(type)} is ${formatLayout(layout)}: this process holds ${runtime.local.length} of its ${count} parts, and reading never communicates`,
    {
      hint: "call replicate(x) on every worker first",
    },
  );
}

function assemble(value: Value, parts: readonly Uint8Array[]): TypedArray {
  const { type, layout, runtime } = value;
  const data = dtypes[type.dtype].create(sizeOf(type.shape));
  heldShards(value).forEach(({ coordinates }, index) => {
    const local = localType(type, layout, meshOf(runtime), coordinates);
    const part = fromBytes(parts[index] as Uint8Array, local);
    eachOfPart(value, coordinates, local.shape, (linear, offset) => {
      data[offset] = part[linear] as number;
    });
  });
  return data;
}

/**
 * The value on another runtime of this process: a value of the one-device runtime counts as replicated (every worker has
 * made it alike).
 */
export function onRuntime(value: Value, runtime: Runtime): Value {
  if (value.runtime === runtime) return value;
  // Between executors a value is copied through the host, which blocks; so not for an executor in another process.
  const copies = value.runtime.executor.name !== runtime.executor.name;
  const reachable = !copies || (value.runtime.axes.length === 0 && value.runtime.executor.elsewhere !== true);
  if (!isReplicated(value) || !reachable) {
    throw new HeddleError(
      "layout",
      `${formatType(value.type)} (${formatLayout(value.layout)}, ${value.runtime.executor.name}) belongs to another runtime`,
    );
  }
  const layout = replicated(meshOf(runtime));
  if (runtime.local.length === 1 && !copies) {
    const [shard] = value.shards as [DeviceBuffer];
    // The other runtime's device does not wait for the runs of this one's.
    if (!shard.ready) shard.readSync();
    return { type: value.type, runtime, layout, shards: [shard] };
  }
  return replicatedValue(runtime, value.type, readValueSync(value));
}
