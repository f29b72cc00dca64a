/** @module Row numbers travel once: later messages with the same rows have their hash (Li et al., OSDI 2014: key caching). */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { eachPart, type Filter, type Message, malformedPart, noted, registerFilter, unnoted } from "./filter.ts";

/** Lists of rows that each end keeps for a tensor, the newest last. */
const mostLists = 16;

/** Caches lists of rows on both ends by the SHA-256 of all of their bytes, so no two lists are taken for each other. */
export const keyCaching = (): Filter => ({
  name: "key-caching",
  remembers: true,
  sender() {
    const known = new Map<string, string[]>();
    return {
      encode: (message: Message) =>
        eachPart(message, (part, tensor) => {
          const { rows, ...rest } = part;
          if (rows === undefined) return part;
          const hash = hashOf(rows);
          const hashes = known.get(tensor) ?? [];
          known.set(tensor, hashes);
          const isKnown = touch(hashes, hash);
          return noted(isKnown ? rest : part, { filter: "key-caching", hash });
        }),
      forget: () => known.clear(),
    };
  },
  receiver() {
    const known = new Map<
      string,
      { readonly order: string[]; readonly lists: Map<string, BigUint64Array | Uint8Array> }
    >();
    return {
      decode: (message: Message) =>
        eachPart(message, (given, tensor) => {
          const found = unnoted(given, "key-caching");
          if (found === undefined) return given;
          const hash = String(found.note["hash"]);
          const { order, lists } = known.get(tensor) ?? {
            order: [],
            lists: new Map<string, BigUint64Array | Uint8Array>(),
          };
          const rows = found.part.rows ?? lists.get(hash);
          if (rows === undefined)
            throw malformedPart(
              "key-caching",
              tensor,
              "names a list of rows that is not there: the sender must forget()",
            );
          if (hashOf(rows) !== hash) throw malformedPart("key-caching", tensor, "has rows of another hash");
          known.set(tensor, { order, lists });
          touch(order, hash);
          lists.set(hash, rows);
          for (const old of lists.keys()) if (!order.includes(old)) lists.delete(old);
          return { ...found.part, rows };
        }),
    };
  },
});

/** Makes a hash the newest. Whether it was there. Both ends see the same hashes in the same order, so both drop the same ones. */
function touch(hashes: string[], hash: string): boolean {
  const at = hashes.indexOf(hash);
  if (at >= 0) hashes.splice(at, 1);
  hashes.push(hash);
  if (hashes.length > mostLists) hashes.shift();
  return at >= 0;
}

const hashOf = (rows: BigUint64Array | Uint8Array): string =>
  bytesToHex(sha256(new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength)));

registerFilter({ name: "key-caching", doc: "sends a list of rows once, and then its hash", make: keyCaching });
