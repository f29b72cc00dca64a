/**
 * @module Arrays of bytes that are used again: a fresh array of many megabytes costs the page faults of all its pages, and a collection.
 * Whoever still reads an array has a lease on it. An array whose leases were not all ended is collected like any other.
 */

/** Arrays of fewer bytes are cheaper to make than to keep. */
const leastBytes = 2 ** 16;
/** Bytes of arrays that wait to be used again. */
const mostBytes = 2 ** 28;

/** Arrays of bytes with leases. */
export class Leases {
  private readonly counts = new WeakMap<ArrayBufferLike, number>();
  private spare: ArrayBuffer[] = [];
  private bytes = 0;

  /** An array of so many bytes, whatever they are, with one lease. */
  take(bytes: number): Uint8Array<ArrayBuffer> {
    if (bytes < leastBytes) return new Uint8Array(bytes);
    // Of like sizes, so that a list with a few rows more finds room, too.
    const fitting = this.spare.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 2 * bytes);
    const [found] = fitting < 0 ? [] : this.spare.splice(fitting, 1);
    if (found !== undefined) this.bytes -= found.byteLength;
    const buffer = found ?? (Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer);
    this.counts.set(buffer, 1);
    return new Uint8Array(buffer, 0, bytes);
  }

  /** One more lease. Does nothing for arrays that are not from here. */
  share({ buffer }: Uint8Array): void {
    const count = this.counts.get(buffer);
    if (count !== undefined) this.counts.set(buffer, count + 1);
  }

  /** Ends a lease: with the last one the array may be used again. Does nothing for arrays that are not from here. */
  end({ buffer }: Uint8Array): void {
    const count = this.counts.get(buffer);
    if (count === undefined) return;
    if (count > 1) return void this.counts.set(buffer, count - 1);
    this.counts.delete(buffer);
    this.spare.push(buffer as ArrayBuffer);
    this.bytes += buffer.byteLength;
    while (this.bytes > mostBytes) this.bytes -= (this.spare.shift() as ArrayBuffer).byteLength;
  }
}

/** The arrays of this process. */
export const leases = new Leases();
