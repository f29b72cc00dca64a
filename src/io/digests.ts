/**
 * @module Digests in a safetensors file: a SHA-256 of each tensor, in the order of the bytes, and before them that of the header,
 * computed with zeros in place of all of them. They are metadata of the file (`heddle.digests`), so any reader of the format takes the
 * file; Heddle's verify what they read, also where they read a part.
 */
import { createHash, type Hash } from "node:crypto";
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/shape.ts";
import type { CommitContent } from "./commit.ts";
import { inChunks } from "./write.ts";

const key = "heddle.digests";
const mark = Buffer.from(`"${key}":"`);
const digits = 64;

/** The metadata with room for the digests of so many tensors. */
export const withDigests = (metadata: ReadonlyMap<string, string>, tensors: number): ReadonlyMap<string, string> =>
  new Map([...metadata, [key, "0".repeat(digits * (tensors + 1))]]);

/** A file that was laid out with room for digests. */
interface Layout {
  readonly header: Uint8Array;
  readonly tensors: readonly HostTensor[];
  readonly bytes: number;
}

/** The bytes of a file; the digests are written last. */
export function digestedContent({ header, tensors, bytes }: Layout): CommitContent {
  const digests = [createHash("sha256").update(header).digest("hex")];
  function* chunks(): Generator<Uint8Array> {
    yield* inChunks(header);
    for (const { dtype, data } of tensors) {
      const hash = createHash("sha256");
      for (const chunk of inChunks(dtypes[dtype].bytesOf(data))) {
        hash.update(chunk);
        yield chunk;
      }
      digests.push(hash.digest("hex"));
    }
  }
  return { bytes, chunks: chunks(), patch: () => ({ position: roomIn(header), bytes: Buffer.from(digests.join("")) }) };
}

const roomIn = (header: Uint8Array): number =>
  Buffer.from(header.buffer, header.byteOffset, header.length).indexOf(mark) + mark.length;

/** What a file says that its tensors are. */
export class Digests {
  private readonly text: string;
  private readonly places: ReadonlyMap<string, number>;

  private constructor(text: string, places: ReadonlyMap<string, number>) {
    this.text = text;
    this.places = places;
  }

  /**
   * The digests in a file's metadata, which lose them; undefined where the file has none.
   *
   * @throws the error that `wrong` makes, when the header is not what it was
   */
  static take(
    header: Uint8Array,
    metadata: Map<string, string>,
    names: readonly string[],
    wrong: (problem: string) => Error,
  ): Digests | undefined {
    const text = metadata.get(key);
    if (text === undefined) {
      const isTheirs = (value: string): boolean =>
        value.length === digits * (names.length + 1) && /^[0-9a-f]+$/.test(value);
      const renamed = [...metadata].find(([, value]) => isTheirs(value));
      if (renamed !== undefined) throw wrong(`its digests are named ${JSON.stringify(renamed[0])}`);
      return undefined;
    }
    metadata.delete(key);
    const blank = Uint8Array.from(header);
    const start = roomIn(header);
    if (text.length === digits * (names.length + 1)) blank.fill(0x30, start, start + text.length);
    if (createHash("sha256").update(blank).digest("hex") !== text.slice(0, digits))
      throw wrong("its header does not match its SHA-256");
    return new Digests(text, new Map(names.map((name, index) => [name, digits * (index + 1)])));
  }

  /** @throws the error that `wrong` makes, when a tensor's bytes are not those that were written */
  verify(name: string, hash: Hash, wrong: (problem: string) => Error): void {
    const start = this.places.get(name) as number;
    if (hash.digest("hex") !== this.text.slice(start, start + digits))
      throw wrong(`tensor "${name}" does not match its SHA-256`);
  }
}
