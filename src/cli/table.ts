/** @module Tables of text. */

/** Rows with columns of one width: those in `left` begin at their left, the others end at their right. */
export function aligned(rows: readonly (readonly string[])[], left: readonly number[]): string {
  const widths = (rows[0] as readonly string[]).map((_cell, column) =>
    Math.max(...rows.map((row) => (row[column] as string).length)),
  );
  const cell = (text: string, column: number): string =>
    left.includes(column) ? text.padEnd(widths[column] as number) : text.padStart(widths[column] as number);
  return rows.map((row) => row.map(cell).join("  ").trimEnd()).join("\n");
}
