/** @module Buffers of the native executor, and the queued runs that determine their contents. */

import type { DeviceBuffer } from "../../runtime/executor.ts";
import { HeddleError } from "../../util/errors.ts";
import { formatBytes } from "../../util/text.ts";
import type { NativeBinding, NativeBuffer } from "./binding.ts";
import { collectYoung } from "./collector.ts";
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
type Reader = { readonly into: Uint8Array | undefined; saved: Uint8Array | undefined };

/** The outcome of a run that a buffer was donated to, as far as the buffer needs it. */
type Loan = Pick<Launch, "settled" | "failure" | "done">;

/** A buffer of a device. A run that takes over the memory has its results in another buffer of the same block. */
export class NativeMemory implements DeviceBuffer, Block {
  readonly bytes: number;
  users = 0;
  shared = false;
  private readonly heap: Heap;
  /** The buffer that this one is a part of. */
  private readonly whole: Block | undefined;
  /** The buffer that owns the handle, which lives no longer than its owner; hidden from code that walks over values. */
  readonly #owner: NativeMemory;
  private handle = 0;
  private object: NativeBuffer | undefined;
  /** The run that the memory was donated to, and whether a failed run left the contents unchanged. */
  private lent: { readonly run: Loan; readonly unchanged: () => boolean } | undefined;
  /** The run that writes the buffer, until it is known to have succeeded. */
  private written: Launch | undefined;
  private readers: Set<Reader> | undefined;
  private disposed = false;
  private kept = false;

  private constructor(heap: Heap, bytes: number, whole: Block | undefined, donor: NativeMemory | undefined) {
    this.heap = heap;
    this.bytes = bytes;
    this.whole = whole;
    this.#owner = donor ?? this;
  }

  /** The memory that the buffer is the whole or a part of. */
  get block(): Block {
    return this.whole ?? this;
  }

  /** New memory. @throws Error of the native core */
  static allocate(heap: Heap, bytes: number): NativeMemory {
    const memory = new NativeMemory(heap, bytes, undefined, undefined);
    memory.handle = heap.binding.allocate(memory, bytes);
    return memory;
  }

  /** A new buffer of the same memory, for the results that a run writes over it. */
  again(): NativeMemory {
    const memory = new NativeMemory(this.heap, this.bytes, this.block, this.#owner);
    memory.handle = this.handle;
    return memory;
  }

  part(offset: number, bytes: number): NativeMemory {
    const part = new NativeMemory(this.heap, bytes, this.block, undefined);
    const whole = this.held();
    part.handle = byNative(() => this.heap.binding.share(part, whole, offset, bytes));
    this.block.shared = true;
    part.written = this.written;
    part.lent = this.lent;
    return part;
  }

  keep(): void {
    this.checkGood();
    this.kept = true;
    this.block.shared = true;
  }

  /** Records the run that takes over the memory. If it fails, it spoils the contents unless it ended before writing. */
  lend(run: Loan, unchanged: () => boolean): void {
    this.lent = { run, unchanged };
  }

  /** Forgets a run that has ended well: it would keep all later runs of the same memory, and what they were called with. */
  returned(run: Loan): void {
    if (this.lent?.run === run) this.lent = undefined;
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

  /** The handle, for a run in place. @throws HeddleError `disposed`. */
  held(): number {
    if (this.disposed) throw new HeddleError("disposed", "the buffer was disposed");
    return this.handle;
  }

  /** The native buffer, for other calls. @throws HeddleError `disposed`. */
  get native(): NativeBuffer {
    const handle = this.held();
    const owner = this.#owner;
    owner.object ??= byNative(() => this.heap.binding.NativeBuffer.ofHandle(handle));
    return owner.object;
  }

  write(data: Uint8Array): void {
    const { native } = this;
    byNative(() => native.write(data));
  }

  async read(into?: Uint8Array): Promise<Uint8Array> {
    this.held();
    if (this.ready) {
      // Now, not after the turn: the buffer may be donated meanwhile.
      const data = this.contents(into);
      await turnWhenDue();
      return data;
    }
    const reader: Reader = { into, saved: undefined };
    const readers = this.readers ?? new Set();
    this.readers = readers.add(reader);
    try {
      await Promise.all([this.origin?.finished(), this.lent?.run.done]);
      return reader.saved ?? this.contents(into);
    } finally {
      readers.delete(reader);
      if (this.disposed && readers.size === 0) this.free();
    }
  }

  readSync(): Uint8Array {
    this.held();
    if (!this.ready) this.heap.queue.drain();
    return this.contents();
  }

  /** Saves the contents for waiting readers before a run writes over them. */
  giveAway(): void {
    if (this.readers === undefined || this.readers.size === 0) return;
    if (!this.ready) this.heap.queue.drain();
    if (this.written?.spoiled !== undefined) return;
    for (const reader of this.readers) reader.saved ??= this.contents(reader.into);
  }

  private contents(into?: Uint8Array): Uint8Array {
    this.checkGood();
    // Zeros take as long as the copy where memory is not in a cache; small arrays cost less with them.
    const data = into ?? (this.bytes < 2 ** 15 ? new Uint8Array(this.bytes) : Buffer.allocUnsafeSlow(this.bytes));
    byNative(() => this.heap.binding.copyOut(this.handle, data));
    return data;
  }

  dispose(): void {
    if (this.disposed || this.kept) return;
    this.disposed = true;
    if (this.readers === undefined || this.readers.size === 0) this.free();
  }

  private free(): void {
    const { heap, handle } = this;
    heap.binding.release(handle);
    this.#owner.object?.dispose();
    if (this.block === this.#owner) heap.given(this.bytes);
  }
}

/** Bytes allocated after which tensors that were dropped at once are collected: half of what lives, within these bounds. */
const [leastFresh, mostFresh] = [32 * 2 ** 20, 256 * 2 ** 20];

/** The memory of a native executor. */
export class Heap {
  readonly binding: NativeBinding;
  readonly queue: Queue;
  /** Bytes allocated since the last collection and not disposed. */
  private fresh = 0;
  private room = leastFresh;

  constructor(binding: NativeBinding, queue: Queue) {
    this.binding = binding;
    this.queue = queue;
  }

  /** Allocates memory. @throws HeddleError `memory` naming `what`, when there is not enough. */
  allocate(bytes: number, what: () => string): NativeMemory {
    this.fresh += bytes;
    if (this.fresh > this.room) this.relieve();
    try {
      return NativeMemory.allocate(this, bytes);
    } catch (error) {
      throw new HeddleError("memory", `there is no memory for ${what()} (${formatBytes(bytes)})`, {
        cause: nativeError(error),
        hint: "make it smaller, or work on it in parts",
      });
    }
  }

  /** Notes that memory was given back. */
  given(bytes: number): void {
    this.fresh = Math.max(0, this.fresh - bytes);
  }

  /**
   * Lets dropped tensors go. Most were made lately, and a collection of young objects finds them. The engine would collect all
   * objects for the sake of memory outside its heap, so it is told only of memory that is left.
   */
  private relieve(): void {
    this.fresh = 0;
    collectYoung();
    // Told of much memory in small steps, the engine marks all objects for some milliseconds at each.
    this.binding.tellCollector();
    this.room = Math.min(mostFresh, Math.max(leastFresh, this.binding.memory().liveBytes / 2));
  }
}
