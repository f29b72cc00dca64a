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

/** The requests of one link whose bodies may be in a file. */
export class Asking {
  private readonly file: SharedFile;
  private agreed = false;
  private readonly waiting = new Map<number, { readonly type: string; readonly region: Region }>();
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

  /** Puts the body of a request into the file where that is faster. */
  place(n: number, type: string, body: readonly Uint8Array[]): { fields: Placed; body: readonly Uint8Array[] } {
    const bytes = body.reduce((sum, { length }) => sum + length, 0);
    const wanted = Math.max(bytes, this.largest.get(type) ?? 0);
    const region = this.agreed && wanted >= leastShared ? this.file.take(wanted) : undefined;
    if (region === undefined) return { fields: {}, body };
    this.waiting.set(n, { type, region });
    const where = [region.offset, region.size] as const;
    if (bytes < leastShared || !this.file.write(region.offset, body)) return { fields: { region: where }, body };
    return { fields: { region: where, shared: bytes }, body: [] };
  }

  /** The body of an answer; undefined if it is not where the answer says. */
  taken(n: number, type: string, shared: unknown, body: Uint8Array): Uint8Array | undefined {
    const asked = this.waiting.get(n);
    this.waiting.delete(n);
    const isThere = Number.isSafeInteger(shared) && asked !== undefined && (shared as number) <= asked.region.size;
    const whole =
      shared === undefined ? body : isThere ? this.file.read(asked.region.offset, Number(shared)) : undefined;
    if (asked !== undefined) this.file.giveBack(asked.region);
    if (whole !== undefined && whole.length > (this.largest.get(type) ?? 0)) this.largest.set(type, whole.length);
    return whole;
  }

  close(): void {
    this.file.close();
  }
}
