/** @module Lists of rows travel once: later requests with the same rows have their SHA-256 (key caching; Li et al., OSDI 2014). */
import { createHash } from "node:crypto";
import { HeddleError } from "../../util/errors.ts";

/** Bytes of lists that each side keeps; the longest unused go first. */
const mostBytes = 2 ** 26;
/** Lists of fewer bytes are sent each time. */
const leastBytes = 64;

/** The SHA-256 of lists, as text; undefined for lists that are shorter than it. */
export const hashOf = (lists: Uint8Array): string | undefined =>
  lists.length < leastBytes ? undefined : createHash("sha256").update(lists).digest("base64");

/** Lists, or at the sender their sizes, by hash. */
class Recent<Value> {
  private readonly known = new Map<string, { readonly value: Value; readonly size: number }>();
  private bytes = 0;

  get(hash: string): Value | undefined {
    const found = this.known.get(hash);
    if (found === undefined) return undefined;
    this.known.delete(hash);
    this.known.set(hash, found);
    return found.value;
  }

  add(hash: string, value: Value, size: number): void {
    if (this.get(hash) !== undefined) return;
    this.known.set(hash, { value, size });
    this.bytes += size;
    for (const [old, one] of this.known) {
      if (this.bytes <= mostBytes) return;
      this.known.delete(old);
      this.bytes -= one.size;
    }
  }

  delete(hash: string): void {
    this.bytes -= this.known.get(hash)?.size ?? 0;
    this.known.delete(hash);
  }
}

/** The lists that a server has taken. */
export class TakenLists {
  private readonly lists = new Recent<Uint8Array>();

  /** The lists of a request: those in it, or those of its hash; undefined if the server has none of this hash. @throws HeddleError `link` */
  of(keys: string | undefined, given: Uint8Array): Uint8Array | undefined {
    if (keys === undefined) return given;
    if (given.length === 0) return this.lists.get(keys);
    if (hashOf(given) !== keys) throw new HeddleError("link", "a list of rows has another hash than it says");
    this.lists.add(keys, given.slice(), given.length);
    return given;
  }
}

/** The lists that a server is known to have. */
export class SentLists {
  private readonly sizes = new Recent<true>();

  /** How lists are sent: with their hash, and without their bytes if the server has them. */
  form(lists: Uint8Array): { readonly keys: string | undefined; readonly bytes: Uint8Array } {
    const keys = hashOf(lists);
    if (keys === undefined) return { keys, bytes: lists };
    const known = this.sizes.get(keys) === true;
    this.sizes.add(keys, true, lists.length);
    return { keys, bytes: known ? new Uint8Array(0) : lists };
  }

  /** The server does not have them any more. */
  forget(keys: string | undefined): void {
    if (keys !== undefined) this.sizes.delete(keys);
  }
}
