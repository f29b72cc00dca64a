/** @module The side of a link that asks: which bodies are in the file that both sides have open, and where their answers go. */
import type { Region, SharedFile } from "./shared-file.ts";
import { leastShared } from "./shared-file.ts";

/** What a request says of its body, beside its own fields. */
export interface Placed {
  /** Where the body is, if `shared` is there, and where the answer's may be. */
  readonly region?: readonly [offset: number, size: number];
  /** Bytes of the body in the region; absent: it follows the head. */
  readonly shared?: number;
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** The requests of one link whose bodies may be in a file. */
export class Asking {
  private readonly file: SharedFile;
  private agreed = false;
  private readonly waiting = new Map<number, Region>();
  /** Bytes of the largest answer to requests of a type so far. */
  private readonly largest = new Map<string, number>();

  constructor(file: SharedFile) {
    this.file = file;
  }

  /** What the other side opens. */
  get path(): string {
    return this.file.path;
  }

  /** The other side has read this from the file that it opened, or nothing. */
  agree(token: unknown): void {
    this.agreed = token === this.file.token;
    this.file.unname();
  }

  /** Whether a body of so many bytes, or the answer to it, may go through the file. */
  mayPlace(type: string, bytes: number): boolean {
    return this.agreed && Math.max(bytes, this.largest.get(type) ?? 0) >= leastShared;
  }

  /** Whether the answer to a request may be in the file. */
  isPlaced(n: number): boolean {
    return this.waiting.has(n);
  }

  /** Puts the body of a request into the file where that is faster. */
  async place(
    n: number,
    type: string,
    body: readonly Uint8Array[],
  ): Promise<{ readonly fields: Placed; readonly body: readonly Uint8Array[] }> {
    const bytes = body.reduce((sum, { length }) => sum + length, 0);
    const wanted = Math.max(bytes, this.largest.get(type) ?? 0);
    const region = this.agreed && wanted >= leastShared ? this.file.take(wanted) : undefined;
    if (region === undefined) return { fields: {}, body };
    this.waiting.set(n, region);
    const where = [region.offset, region.size] as const;
    if (bytes < leastShared || !(await this.file.write(region.offset, body)))
      return { fields: { region: where }, body };
    return { fields: { region: where, shared: bytes }, body: [] };
  }

  /** The body of an answer; undefined if it is not where the answer says. */
  async taken(n: number, type: string, shared: unknown, body: Uint8Array): Promise<Uint8Array | undefined> {
    const region = this.waiting.get(n);
    this.waiting.delete(n);
    const isThere = isCount(shared) && region !== undefined && (shared as number) <= region.size;
    const whole =
      shared === undefined ? body : isThere ? await this.file.read(region.offset, Number(shared)) : undefined;
    if (region !== undefined) this.file.giveBack(region);
    this.learn(type, whole?.length ?? 0);
    return whole;
  }

  /** Later requests of a type have room for an answer of so many bytes. */
  learn(type: string, bytes: number): void {
    if (bytes > (this.largest.get(type) ?? 0)) this.largest.set(type, bytes);
  }

  close(): void {
    this.file.close();
  }
}
