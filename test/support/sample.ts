/** @module A part of a table that other suites run whole. */

/** About one name of four, by the name alone: new names do not change which of the others these are. */
export function isSampled(name: string): boolean {
  let hash = 0;
  for (const letter of name) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0;
  return (hash ^ (hash >>> 16)) % 4 === 0;
}
