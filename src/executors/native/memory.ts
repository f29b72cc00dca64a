/** @module Buffers of the native executor, and the queued runs that determine their contents. */

import type { DeviceBuffer } from "../../runtime/executor.ts";
import { HeddleError } from "../../util/errors.ts";
import { formatBytes } from "../../util/text.ts";
import type { NativeBinding, NativeBuffer } from "./binding.ts";
import { byNative, nativeError } from "./error.ts";
import type { Block, Launch, Queue } from "./queue.ts";

// Promises of work done in place never let the event loop turn. Without turns, timers and requests wait.
const turnMilliseconds = 1;
let lastTurn = 0;

function turnWhenDue(): Promise<void> | undefined {
  if (performance.now() - lastTurn < turnMilliseconds) return undefined;
  return new Promise((resolve) => {
    setImmediate(() => {
      lastTurn = performance.now();
      resolve();
    });
  });
}

/** A `read` that waits for a run, and the contents if they had to be saved before the buffer was donated. */
interface Reader {
  saved: Uint8Array | undefined;
}

/** The outcome of a run that a buffer was donated to, as far as the buffer needs it. */
type Loan = Pick<Launch, "settled" | "failure" | "done">;

/** A buffer of a device. A run that takes over the memory has its results in another buffer of the same block. */
export class NativeMemory implements DeviceBuffer {
  readonly bytes: number;
  readonly native: NativeBuffer;
  readonly block: Block;
  private readonly queue: Queue;
  /** The run that the memory was donated to, and whether a failed run left the contents unchanged. */
  private lent: { readonly run: Loan; readonly unchanged: () => boolean } | undefined;
  /** The run that writes the buffer, until it is known to have succeeded. */
  private written: Launch | undefined;
  private readers: Set<Reader> | undefined;
  private disposed = false;

  constructor(native: NativeBuffer, bytes: number, queue: Queue, block?: Block) {
    this.native = native;
    this.bytes = bytes;
    this.queue = queue;
    this.block = block ?? { native, bytes, users: 0, shared: false };
  }

  /** A new buffer of the same memory, for the results that a run writes over it. */
  again(): NativeMemory {
    return new NativeMemory(this.native, this.bytes, this.queue, this.block);
  }

  part(offset: number, bytes: number): NativeMemory {
    const part = new NativeMemory(this.held().part(offset, bytes), bytes, this.queue, this.block);
    this.block.shared = true;
    part.written = this.written;
    part.lent = this.lent;
    return part;
  }

  /** Records the run that takes over the memory. If it fails, it spoils the contents unless it ended before writing. */
  lend(run: Loan, unchanged: () => boolean): void {
    this.lent = { run, unchanged };
  }

  /** Whether all runs that determine the contents are done. */
  get ready(): boolean {
    return this.lent?.run.settled !== false && this.origin?.isDone !== false;
  }

  /** The run on which the contents still depend, or that has spoiled them. */
  get origin(): Launch | undefined {
    if (this.written?.isDone === true && this.written.spoiled === undefined) this.written = undefined;
    return this.written;
  }

  /** Records the run that fills the buffer. */
  comesFrom(launch: Launch): void {
    this.written = launch;
  }

  /** @throws HeddleError the error of the run that should have made the contents. */
  checkGood(): void {
    const spoiled = this.written?.spoiled;
    if (spoiled !== undefined) throw spoiled;
    if (this.lent?.run.failure !== undefined && !this.lent.unchanged()) throw this.lent.run.failure;
  }

  /** The native buffer, for a run. @throws HeddleError `disposed`. */
  held(): NativeBuffer {
    if (this.disposed) throw new HeddleError("disposed", "the buffer was disposed");
    return this.native;
  }

  write(data: Uint8Array): void {
    byNative(() => this.held().write(data));
  }

  async read(): Promise<Uint8Array> {
    this.held();
    if (this.ready) {
      // Now, not after the turn: the buffer may be donated meanwhile.
      const data = this.contents();
      await turnWhenDue();
      return data;
    }
    const reader: Reader = { saved: undefined };
    const readers = this.readers ?? new Set();
    this.readers = readers.add(reader);
    try {
      await Promise.all([this.origin?.finished(), this.lent?.run.done]);
      return reader.saved ?? this.contents();
    } finally {
      readers.delete(reader);
      if (this.disposed && readers.size === 0) this.native.dispose();
    }
  }

  readSync(): Uint8Array {
    this.held();
    if (!this.ready) this.queue.drain();
    return this.contents();
  }

  /** Saves the contents for waiting readers before a run writes over them. */
  giveAway(): void {
    if (this.readers === undefined || this.readers.size === 0) return;
    if (!this.ready) this.queue.drain();
    if (this.written?.spoiled !== undefined) return;
    for (const reader of this.readers) reader.saved ??= this.contents();
  }

  private contents(): Uint8Array {
    this.checkGood();
    const data = new Uint8Array(this.bytes);
    byNative(() => this.native.read(data));
    return data;
  }

  dispose(): void {
    this.disposed = true;
    if (this.readers === undefined || this.readers.size === 0) this.native.dispose();
  }
}

/** Allocates memory. @throws HeddleError `memory` naming `what`, when there is not enough. */
export function allocateMemory(binding: NativeBinding, queue: Queue, bytes: number, what: () => string): NativeMemory {
  const allocated = Math.max(bytes, 1);
  try {
    return new NativeMemory(new binding.NativeBuffer(allocated), allocated, queue);
  } catch (error) {
    throw new HeddleError("memory", `there is no memory for ${what()} (${formatBytes(bytes)})`, {
      cause: nativeError(error),
      hint: "make it smaller, or work on it in parts",
    });
  }
}
