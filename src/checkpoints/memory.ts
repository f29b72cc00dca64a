/** @module A checkpoint in the memory of a process: boxes of values, from which others are copied when they are read. */
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import type { Description } from "./description.ts";
import { type Box, sharedRuns, wholeBox } from "./pieces.ts";
import type { OpenCheckpoint } from "./types.ts";

/** A box of a value with its bytes, packed and row-major. */
export interface FilledBox extends Box {
  readonly bytes: Uint8Array;
}

/** Boxes of a value. */
export interface FilledValue {
  readonly type: TensorType;
  readonly boxes: readonly FilledBox[];
}

/** Copies what two boxes share, and says how many bytes that is. */
export function fillFrom(target: FilledBox, source: FilledBox, elementBytes: number): number {
  let copied = 0;
  for (const { from, to, bytes } of sharedRuns(source, target, elementBytes)) {
    target.bytes.set(source.bytes.subarray(from, from + bytes), to);
    copied += bytes;
  }
  return copied;
}

/** A checkpoint of boxes that do not overlap. What is not in them cannot be read. */
export function memoryCheckpoint(
  path: string,
  description: Description,
  values: ReadonlyMap<string, FilledValue>,
): OpenCheckpoint {
  const readBytes = async (name: string, box?: Box): Promise<Uint8Array> => {
    const value = values.get(name);
    if (value === undefined) throw new HeddleError("argument", `${path} has no tensor "${name}"`);
    const { bytes: elementBytes } = dtypes[value.type.dtype];
    const wanted = box ?? wholeBox(value.type.shape);
    const target = { ...wanted, bytes: new Uint8Array(sizeOf(wanted.shape) * elementBytes) };
    const copied = value.boxes.reduce((sum, source) => sum + fillFrom(target, source, elementBytes), 0);
    if (copied !== target.bytes.length) throw new HeddleError("checkpoint", `${path} has not all of tensor "${name}"`);
    return target.bytes;
  };
  return {
    path,
    description,
    entries: new Map([...values].map(([name, { type }]) => [name, type])),
    readBytes,
    read: async (name): Promise<HostTensor> => {
      const bytes = await readBytes(name);
      const { dtype, shape } = (values.get(name) as FilledValue).type;
      return { dtype, shape, data: dtypes[dtype].view(bytes.buffer as ArrayBuffer, 0, sizeOf(shape)) };
    },
    verify: async () => {},
    close: async () => {},
  };
}
