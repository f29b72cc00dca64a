/** @module Reads values of a checkpoint onto the devices of this process, in their layouts. */

import { type Box, boxOf, type Placed } from "../checkpoints/pieces.ts";
import type { OpenCheckpoint } from "../checkpoints/types.ts";
import { nothing } from "../compile/value.ts";
import { forDevices } from "../compression/state.ts";
import { distribute, fromShards, meshOf, type Tensor } from "../functions/index.ts";
import { bytesOf, sameType, type TensorType } from "../ir/shape.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";

/** A box of a value that devices of this process hold. */
interface Held {
  readonly name: string;
  readonly box: Box;
  readonly bytes: number;
  readonly devices: readonly number[];
}

/** Boxes of more bytes are read into memory of their own, one after another. */
const mostStaged = 2 ** 26;
/** The most boxes that are read at once into the memory of devices. */
const mostAtOnce = 8;

/**
 * Reads values in their layouts, the boxes of the local devices each once, some at once; in the order of `wanted`. What was not yielded is freed.
 *
 * @throws HeddleError `checkpoint`, `format` or `file` if what is read is damaged
 */
export async function* readTensors(
  checkpoint: OpenCheckpoint,
  wanted: readonly Placed[],
  runtime: Runtime,
): AsyncGenerator<Tensor> {
  const fits = ({ name, type }: Placed): boolean => sameType(checkpoint.entries.get(name) as TensorType, type);
  const held = wanted.map((placed) => (fits(placed) ? heldBoxes(placed, runtime) : []));
  const boxes = new Boxes(checkpoint, held.flat(), runtime);
  try {
    for (const [index, { name, type, layout }] of wanted.entries()) {
      if (!fits(wanted[index] as Placed)) {
        const fitted = forDevices(await checkpoint.read(name), type);
        yield distribute(runtime, fitted.data, type, layout);
        continue;
      }
      const shards: DeviceBuffer[] = runtime.local.map(() => nothing);
      for (const { devices } of held[index] as readonly Held[]) {
        const buffers = await boxes.next();
        for (const [at, device] of devices.entries()) shards[device] = buffers[at] as DeviceBuffer;
      }
      yield fromShards(runtime, shards, type, layout);
    }
  } finally {
    await boxes.dispose();
  }
}

/** Boxes that are read ahead, each into the memory of its devices. */
class Boxes {
  private readonly checkpoint: OpenCheckpoint;
  private readonly order: readonly Held[];
  private readonly runtime: Runtime;
  private readonly atOnce: number;
  /** New memory costs more than the reading, so two boxes take turns in the same. */
  private readonly staging: readonly Uint8Array[];
  private readonly under: Promise<readonly DeviceBuffer[]>[] = [];
  private started = 0;

  constructor(checkpoint: OpenCheckpoint, order: readonly Held[], runtime: Runtime) {
    this.checkpoint = checkpoint;
    this.order = order;
    this.runtime = runtime;
    const direct = checkpoint.readInto !== undefined;
    // One more than threads: it begins when another one ends.
    this.atOnce = direct ? Math.min(mostAtOnce, (runtime.executor.threads ?? 1) + 1) : 2;
    const room = order.reduce((most, { bytes }) => (bytes <= mostStaged ? Math.max(most, bytes) : most), 0);
    this.staging = direct ? [] : [new Uint8Array(room), new Uint8Array(room)];
  }

  /** The memory of the devices of the next box. */
  next(): Promise<readonly DeviceBuffer[]> {
    while (this.started < this.order.length && this.under.length < this.atOnce) {
      const { bytes } = this.order[this.started] as Held;
      if (this.staging.length > 0 && bytes > mostStaged && this.under.length > 0) break;
      const reading = this.read(this.started++);
      // Who awaits it gets the error.
      reading.catch(() => undefined);
      this.under.push(reading);
    }
    return this.under.shift() as Promise<readonly DeviceBuffer[]>;
  }

  private async read(index: number): Promise<readonly DeviceBuffer[]> {
    const { checkpoint, runtime } = this;
    const { name, box, bytes, devices } = this.order[index] as Held;
    const buffers = devices.map((device) => runtime.executor.allocate(bytes, device));
    try {
      const [only] = buffers;
      const isRead = buffers.length === 1 && (await checkpoint.readInto?.(name, box, only as DeviceBuffer));
      if (isRead !== true) {
        const read = await checkpoint.readBytes(name, box, this.staging[index % 2]);
        for (const buffer of buffers) buffer.write(read);
      }
      return buffers;
    } catch (error) {
      for (const buffer of buffers) buffer.dispose();
      throw error;
    }
  }

  /** Frees what was read and not taken. */
  async dispose(): Promise<void> {
    for (const reading of await Promise.allSettled(this.under))
      if (reading.status === "fulfilled") for (const buffer of reading.value) buffer.dispose();
  }
}
/** The boxes of a value that the local devices hold, each with its devices. */
function heldBoxes({ name, type, layout }: Placed, runtime: Runtime): readonly Held[] {
  const boxes = new Map<string, Held & { readonly devices: number[] }>();
  for (const [device, { coordinates }] of runtime.local.entries()) {
    const box = boxOf({ type, layout }, meshOf(runtime), coordinates);
    if (box === undefined) continue;
    const known = boxes.get(box.start.join());
    if (known !== undefined) known.devices.push(device);
    else {
      const bytes = bytesOf({ dtype: type.dtype, shape: box.shape });
      boxes.set(box.start.join(), { name, box, bytes, devices: [device] });
    }
  }
  return [...boxes.values()];
}
