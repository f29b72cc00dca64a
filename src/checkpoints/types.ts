/** @module An open checkpoint. */
import type { HostTensor } from "../io/safetensors.ts";
import type { TensorType } from "../ir/shape.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import type { Description } from "./description.ts";
import type { Box } from "./pieces.ts";

/** An open checkpoint, whose values are read on request; what is read is verified. */
export interface OpenCheckpoint {
  /** Absolute path of the file or folder, or its address. */
  readonly path: string;
  readonly description: Description;
  /** Types of the values by name: `params/…`, `optimizer/…`, `state/…`. */
  readonly entries: ReadonlyMap<string, TensorType>;
  /**
   * The little-endian bytes of a box of a value, packed and row-major; default the whole value.
   *
   * @param into memory that the bytes may be put in, if it has room for them: new memory costs more than reading
   * @throws HeddleError `argument` for an unknown name; `checkpoint`, `format` or `file` if the bytes are damaged or cannot be read
   */
  readBytes(name: string, box?: Box, into?: Uint8Array): Promise<Uint8Array>;
  /**
   * Reads the bytes of a box into memory of a device, of their size and not in use; whether it did, since other memory must be written by the caller.
   * Absent where no memory can be read into.
   *
   * @throws HeddleError as {@link readBytes}; nobody may use the memory then
   */
  readonly readInto?: (name: string, box: Box, buffer: DeviceBuffer) => Promise<boolean>;
  /** A whole value. */
  read(name: string): Promise<HostTensor>;
  /** Reads and verifies everything. @throws HeddleError `checkpoint`, `format` or `file` naming what is damaged */
  verify(): Promise<void>;
  close(): Promise<void>;
}

/** A checkpoint that has not been read. */
export interface ListedCheckpoint {
  readonly step: number;
  /** Absolute path of the file or folder, or its address. */
  readonly path: string;
  /** The name in its place. */
  readonly name: string;
  /** Whether it is a folder of parts. */
  readonly inParts: boolean;
}
