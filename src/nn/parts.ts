/** @module Equal parts of a batch. */

/** The largest number of equal parts, at most `most`, that divides this number of rows. */
export function mostParts(rows: number, most: number): number {
  for (let parts = Math.min(most, Math.floor(rows)); parts > 1; parts--) if (rows % parts === 0) return parts;
  return 1;
}
