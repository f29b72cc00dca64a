/** @module Fingerprints of content, equal on every machine. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** First 16 hex digits of the SHA-256 of a text: enough to tell programs apart, short enough to print. */
export function fingerprint(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text))).slice(0, 16);
}
