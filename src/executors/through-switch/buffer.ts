/** @module Memory whose contents come later: a run through the switch waits for packets. */
import type { DeviceBuffer } from "../../runtime/executor.ts";
import { HeddleError } from "../../util/errors.ts";

/** A buffer that is there, or that a run is going to fill. */
export class LaterBuffer implements DeviceBuffer {
  readonly bytes: number;
  private data: Uint8Array | undefined;
  private readonly filled: Promise<Uint8Array> | undefined;

  constructor(bytes: number, filled?: Promise<Uint8Array>) {
    this.bytes = bytes;
    this.filled = filled;
    if (filled === undefined) this.data = new Uint8Array(bytes);
    else
      filled.then(
        (data) => {
          this.data = data;
        },
        () => {},
      );
  }

  get ready(): boolean {
    return this.data !== undefined;
  }

  write(data: Uint8Array): void {
    // What a queued run has been given stays as it was.
    this.data = data.slice();
  }

  /** The contents themselves, which are not to be changed. */
  async contents(): Promise<Uint8Array> {
    return this.data ?? (await this.filled) ?? this.readSync();
  }

  async read(): Promise<Uint8Array> {
    return (await this.contents()).slice();
  }

  readSync(): Uint8Array {
    if (this.data === undefined) throw new HeddleError("disposed", "the contents are not there: await data()");
    return this.data.slice();
  }

  dispose(): void {
    if (this.ready) this.data = undefined;
  }
}
