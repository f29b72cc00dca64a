/** @module What a chain of records is recognised by: its steps and options, and what its source holds. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { canonicalJson, type Plain } from "../../util/text.ts";

/**
 * Who compares: the workers of a run, whose copies of a file may differ in time, or runs on one machine, one after another, to which
 * another time of a file means another content.
 */
export type Among = "workers" | "runs";

/** A part of a chain: plain data, or a function that looks at the source when it is asked. */
export type Link = Plain | ((among: Among) => Promise<Plain>) | readonly Link[];

/** The chain without what must be looked at. */
export const plainChain = (chain: readonly Link[]): string =>
  canonicalJson(plainOf(chain.filter((link) => typeof link !== "function")));

const plainOf = (link: Link): Plain =>
  Array.isArray(link)
    ? (link as readonly Link[]).filter((part) => typeof part !== "function").map(plainOf)
    : (link as Plain);

/** The whole chain, with what its sources hold now. */
export const chainIdentity = async (chain: readonly Link[], among: Among): Promise<string> =>
  canonicalJson(await resolved(chain, among));

async function resolved(link: Link, among: Among): Promise<Plain> {
  if (typeof link === "function") return link(among);
  if (!Array.isArray(link)) return link as Plain;
  const parts: Plain[] = [];
  for (const part of link as readonly Link[]) parts.push(await resolved(part, among));
  return parts;
}

/** Characters that are hashed at once. */
const textAtOnce = 2 ** 16;
/** Values nested deeper count as equal. */
const deepest = 64;

/** A hash of values of any kind: equal for equal content. Functions are not compared. */
export function hashOf(values: unknown): string {
  const hash = sha256.create();
  let text = "";
  const flush = (): void => {
    hash.update(utf8ToBytes(text));
    text = "";
  };
  const add = (value: unknown, depth: number): void => {
    if (text.length > textAtOnce) flush();
    if (typeof value === "string") text += JSON.stringify(value);
    else if (typeof value === "number") text += Object.is(value, -0) ? "-0," : `${value},`;
    else if (typeof value === "function") text += "function,";
    else if (typeof value !== "object" || value === null) text += `${typeof value} ${String(value)},`;
    else if (depth > deepest) text += "deep,";
    else if (ArrayBuffer.isView(value)) {
      const { shape } = value as { readonly shape?: readonly number[] };
      text += `${Object.prototype.toString.call(value)} ${value.byteLength} ${shape?.join("x") ?? ""},`;
      flush();
      hash.update(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
    } else if (value instanceof Date) text += `Date ${value.getTime()},`;
    else if (Array.isArray(value) || value instanceof Map || value instanceof Set) {
      text += `${Object.prototype.toString.call(value)} ${Array.isArray(value) ? value.length : value.size},`;
      for (const part of value) add(part, depth + 1);
    } else {
      const entries = Object.entries(value);
      text += `record ${entries.length},`;
      for (const [name, part] of entries) {
        text += JSON.stringify(name);
        add(part, depth + 1);
      }
    }
  };
  add(values, 0);
  flush();
  return bytesToHex(hash.digest());
}
